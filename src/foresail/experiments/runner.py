"""Carries an experiment out: keeps what is finished, runs the rest, and loses nothing to a failure or an interrupt."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foresail import __version__
from foresail.atomic import replacing
from foresail.errors import ResultsError
from foresail.experiments.executors import Executor, Failed
from foresail.experiments.plan import Plan, PlannedRun
from foresail.results.folder import check_target, read_run, write_files
from foresail.settings import plain

RUNS = "runs"
EXPERIMENT = "experiment.json"
FORMAT = "foresail-comparison"
FORMAT_VERSION = 1
DERIVED = ("comparison.csv", "changes.csv", "runs.csv", "report.html")
"""What is worked out from the runs, and so may always be written anew."""


@dataclass(slots=True)
class ExperimentOutcome:
    """How carrying out an experiment went."""

    kept: list[PlannedRun] = field(default_factory=list)
    """Runs that were finished before."""
    finished: list[PlannedRun] = field(default_factory=list)
    failed: list[tuple[PlannedRun, str]] = field(default_factory=list)
    """Runs that could not be finished, and why."""

    @property
    def there(self) -> set[Path]:
        """The folders that hold results now."""
        return {planned.folder for planned in (*self.kept, *self.finished)}


OnRun = Callable[[PlannedRun, str], None]
"""Told of each run and what became of it: `kept`, `finished`, or why it failed."""


def carry_out_plan(
    plan: Plan, out: Path, executor: Executor, *, overwrite: bool = False, on_run: OnRun | None = None
) -> ExperimentOutcome:
    """Have every run of the plan in `out`, by keeping it or by running it.

    A finished run of the same request, inputs and version is kept; `overwrite` runs it again. Anything else in a run's
    place is an error before the first run starts, unless it is to be overwritten.
    """
    check_folder(out)
    kept = [planned for planned in plan.runs if not overwrite and _is_finished(out, planned)]
    there = {planned.folder for planned in kept}
    to_run = [planned for planned in plan.runs if planned.folder not in there]
    for planned in to_run:
        check_target(out / RUNS / planned.folder, overwrite=overwrite)
    _begin(out, plan)
    carried = ExperimentOutcome(kept)
    tell = on_run or (lambda _planned, _what: None)
    for planned in kept:
        tell(planned, "kept")
    if not to_run:
        return carried
    outcomes = executor.outcomes(to_run)
    with closing(outcomes):
        for planned, outcome in outcomes:
            if isinstance(outcome, Failed):
                carried.failed.append((planned, outcome.why))
                tell(planned, outcome.why)
            else:
                write_files(out / RUNS / planned.folder, outcome.files, overwrite=overwrite)
                carried.finished.append(planned)
                tell(planned, "finished")
    return carried


def check_folder(out: Path) -> None:
    """Refuse a folder that holds anything but an earlier comparison."""
    if not os.path.lexists(out):
        return
    if not out.is_dir():
        raise ResultsError(f"{out}: is a file; name a folder with --out")
    if not any(out.iterdir()):
        return
    try:
        marked = json.loads((out / EXPERIMENT).read_bytes())
    except (OSError, ValueError):
        marked = None
    if not isinstance(marked, dict) or marked.get("format") != FORMAT:
        raise ResultsError(f"{out}: is not empty and holds no comparison; name another folder with --out")
    version = marked.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ResultsError(
            f"{out}: format version {version}, but foresail {__version__} knows up to {FORMAT_VERSION}; "
            "upgrade foresail, or name another folder with --out"
        )


def _is_finished(out: Path, planned: PlannedRun) -> bool:
    """Whether the run's place holds just this run; an error if it holds something else."""
    folder = out / RUNS / planned.folder
    if not os.path.lexists(folder):
        return False
    try:
        manifest = read_run(folder).manifest
    except ResultsError as error:
        raise ResultsError(f"{error}; --overwrite replaces what can be told to be an earlier run") from error
    for what, found, wanted in (
        ("another foresail", manifest["versions"].get("foresail"), __version__),
        ("another request", manifest.get("request"), _as_json(planned.manifest["request"])),
        ("other input files", manifest.get("inputs"), planned.manifest["inputs"]),
    ):
        if found != wanted:
            raise ResultsError(
                f"{folder}: holds a run of {what} ({_difference(found, wanted)}); "
                "replace it with --overwrite, or name another folder with --out"
            )
    return True


def _difference(found: Any, wanted: Any) -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted(found.keys() | wanted.keys()):
            if found.get(key) != wanted.get(key):
                return f"{key}: {_short(found.get(key))}, now {_short(wanted.get(key))}"
    return f"{_short(found)}, now {_short(wanted)}"


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:12]}…"


def _begin(out: Path, plan: Plan) -> None:
    """Mark the folder as ours and drop tables that will no longer match the runs."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in DERIVED:
            (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise ResultsError(f"{out}: cannot be written to ({error.strerror}); name another folder with --out") from error
    write_whole(out / EXPERIMENT, json_bytes(describe(plan)))


def describe(plan: Plan) -> dict[str, Any]:
    """The experiment with every default filled in and every file hashed, as plain data."""
    experiment = plan.experiment
    inputs: dict[str, str] = {}
    for planned in plan.runs:
        inputs |= planned.manifest["inputs"]
    openb = experiment.protocol == "openb"
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "foresail": __version__,
        "title": experiment.title,
        "protocol": experiment.protocol,
        "load": experiment.load if openb else None,
        "clock": None if openb else plan.runs[0].manifest["request"]["clock"],
        "faults": experiment.faults,
        "skip_bad_rows": experiment.skip_bad_rows,
        "traces": [{"name": trace.name, "nodes": trace.nodes, "pods": trace.pods} for trace in experiment.traces],
        "policies": [
            {"name": profile.name, "given": given, "profile": profile.description}
            for given, profile in zip(experiment.policies, plan.profiles, strict=True)
        ],
        **({} if experiment.training is None else {"training": plain(experiment.training)}),
        **({"controllers": list(experiment.controllers)} if experiment.controllers else {}),
        "seeds": list(experiment.seeds),
        "baseline": plan.baseline,
        "metrics": [metric.name for metric in plan.metrics],
        "inputs": inputs,
        "runs": [str(Path(RUNS) / planned.folder) for planned in plan.runs],
    }


def json_bytes(value: Any) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _as_json(value: Any) -> Any:
    """The value as a manifest on disk gives it back: tuples are lists there."""
    return json.loads(json.dumps(value))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is never seen half written."""
    with replacing(path, lambda why: ResultsError(f"{path}: cannot be written ({why}); name another folder")) as beside:
        beside.write_bytes(content)
