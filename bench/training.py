"""Simulate training jobs under every controller: `python bench/training.py`, or with the names of parts.

Writes docs/training-results.md, its plots, and bench/training.json, which holds every figure of them. Parts that are
not named keep the figures they have there. Figures do not depend on the machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "training.json"
EXPERIMENTS = ROOT / "examples" / "experiments"
STRATEGIES = ("equal-shares", "migrate", "balance", "gain", "focus", "focus:aim=accuracy")
"""Controllers of the tables; sweeps take those that have what is swept. Those that are not built in are left out."""
SWEPT_STARTS = ("balanced", "cold-images")

WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "50 jobs, balanced": ("training-50.toml", {}),
    "50 jobs, cold images": ("training-50.toml", {"training": {"start": "cold-images"}}),
    "50 jobs, random start": ("training-50.toml", {"training": {"start": "random"}}),
    "50 jobs, released start": ("training-50.toml", {"training": {"start": "released"}}),
    "25 jobs on 4 × 8 CPUs, balanced": ("training-25.toml", {}),
    "25 jobs on 4 × 8 CPUs, cold images": ("training-25.toml", {"training": {"start": "cold-images"}}),
    "20 jobs": ("training-20.toml", {}),
    "7 jobs": ("training-7.toml", {}),
}
"""Tables of the page: an experiment file, and what is different."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """One plot: how changes follow one setting, on 50 jobs."""

    name: str
    label: str
    values: tuple[float, ...]
    options: str = ""
    """Key of the experiment that is swept, `table.key`; empty where a controller's option is."""
    controllers: tuple[str, ...] = ("gain", "focus")
    """With `{}` where a controller's option is swept."""
    more: dict[str, Any] = field(default_factory=dict)


SWEEPS = (
    Sweep(
        "threshold",
        "growth below which a job counts as slow",
        (0.02, 0.05, 0.1, 0.2, 0.4),
        controllers=("migrate:threshold={}",),
    ),
    Sweep(
        "interval",
        "seconds between two turns",
        (5, 10, 20, 40),
        controllers=("migrate:every_s={}", "focus:every_s={}"),
    ),
    Sweep("nodes", "nodes that share 64 CPUs", (2, 4, 8, 16), "training.nodes"),
    Sweep("move-cost", "seconds that a move costs", (0, 5, 15, 30, 60), "clock.restart_time_s"),
    Sweep("forecast-error", "σ of the forecast's error", (0, 0.2, 0.4, 0.6, 1.0), "clock.report_error"),
    Sweep("requests", "milli-CPU that a job requests", (50, 100, 250, 500, 1000, 2000), "training.request_milli"),
)


def experiments(names: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every comparison of the parts that are asked for: its name, its file, and the options that override it."""
    if not names or "tables" in names:
        for world, (file, options) in WORLDS.items():
            yield f"tables/{world}", file, {**options, "controllers": built_in(STRATEGIES)}
    for sweep in SWEEPS:
        if (names and sweep.name not in names) or not built_in(sweep.controllers):
            continue
        for start in SWEPT_STARTS:
            for value in sweep.values:
                yield f"{sweep.name}/{start}/{value:g}", "training-50.toml", swept(sweep, start, value)


def built_in(controllers: tuple[str, ...]) -> list[str]:
    """Those of the controllers that there are."""
    from foresail.controllers import CONTROLLERS

    return [text for text in controllers if text.partition(":")[0] in CONTROLLERS]


def swept(sweep: Sweep, start: str, value: float) -> dict[str, Any]:
    options: dict[str, Any] = {"training": {"start": start}, "clock": {}}
    if sweep.options:
        table, key = sweep.options.split(".")
        options[table][key] = type(sweep.values[-1])(value)
    if sweep.name == "nodes":
        options["training"]["cores"] = 64 / value
    controllers = [text.format(f"{value:g}") for text in built_in(sweep.controllers)]
    return {**options, "controllers": controllers}


def measured(task: tuple[str, str, dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The changes of one comparison, as `compare --json` has them."""
    from foresail.experiments.changes import JobTimes, changes_between
    from foresail.experiments.experiment_file import load_experiment
    from foresail.experiments.run import run

    name, file, options = task
    experiment = load_experiment(EXPERIMENTS / file, options)
    requests = experiment.requests()
    times = {}
    for request in requests:
        strategy = request.controllers[0] if request.controllers else "none"
        times[strategy, request.seed] = JobTimes.of(run(request))
    baseline = [request for request in requests if not request.controllers]
    changes = changes_between(times, experiment.strategies, "none", baseline)
    return name, [asdict(one) for one in changes]


def main() -> None:
    names = sys.argv[1:]
    known = ["tables", *(sweep.name for sweep in SWEEPS)]
    for name in names:
        if name not in known:
            raise SystemExit(f'no part "{name}"; parts are {", ".join(known)}')
    figures: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    tasks = list(experiments(names))
    with ProcessPoolExecutor(2) as pool:
        for at, (name, changes) in enumerate(pool.map(measured, tasks), start=1):
            figures[name] = changes
            print(f"{at}/{len(tasks)} {name}", file=sys.stderr)
    from training_page import EARLIER, write_page

    anew = {part for name, *_ in tasks for part in (name, name.split("/")[0])}
    figures[EARLIER] = sorted({*figures.get(EARLIER, [])} - anew)
    RESULTS.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write_page(figures, WORLDS, SWEEPS, SWEPT_STARTS, ROOT / "docs")


if __name__ == "__main__":
    main()
