"""An experiment as runs: every name found, every file read, and a folder for each run, before anything runs."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foresail.controllers import load_controllers
from foresail.core.profile import Profile
from foresail.errors import InputError, OptionError, did_you_mean
from foresail.experiments.experiment import ALL_TRACES, NO_CONTROLLER, Experiment
from foresail.experiments.request import RunRequest
from foresail.experiments.run import load_trace
from foresail.experiments.store import manifest_extra
from foresail.policies.profiles.load import load_profile, profile_path
from foresail.policies.profiles.scheduler_configuration import ENDINGS
from foresail.results.key_figures import run_name
from foresail.results.metrics import Metric, default_metrics, find_metric
from foresail.sim.faults import Faults
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.sim.protocols.openb import arrivals
from foresail.traces.training.world import make_world


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of an experiment: what it is, and where its results go."""

    trace: str
    policy: str
    seed: int
    request: RunRequest
    manifest: dict[str, Any]
    """What its manifest says about how to get the run again."""
    folder: Path
    """Its results folder, below `runs`."""

    def __str__(self) -> str:
        return f"policy {self.policy}, trace {self.trace}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Plan:
    """An experiment whose every name has been found and every file been read."""

    experiment: Experiment
    runs: tuple[PlannedRun, ...]
    policies: tuple[str, ...]
    """The policies by the names their results go by."""
    baseline: str
    metrics: tuple[Metric, ...]
    profiles: list[Profile]
    dropped_rows: dict[str, int]
    """Bad rows by trace that were left out because the experiment says so."""

    @property
    def traces(self) -> list[str]:
        return [trace.name for trace in self.experiment.workloads]


def plan_of(experiment: Experiment) -> Plan:
    """Read and check everything that the experiment names; all of its bad input shows here."""
    _check_lists(experiment)
    metrics = tuple(
        find_metric(name, experiment.protocol, experiment.load)
        for name in experiment.metrics or default_metrics(experiment.protocol, experiment.load)
    )
    profiles = [load_profile(policy) for policy in experiment.policies]
    _check_names(experiment.policies, [profile.name for profile in profiles])
    controllers = [_controller_name(text) for text in experiment.strategies]
    _check_names(experiment.strategies, controllers)
    names = [
        run_name(profile.name, [controller] if controller != NO_CONTROLLER else [])
        for profile in profiles
        for controller in controllers
    ]
    dropped_rows = _check_traces(experiment)
    folders = _slugs([trace.name for trace in experiment.workloads]), _slugs(names)
    cells = [
        (trace.name, name, seed, folders[0][at] / folders[1][of])
        for at, trace in enumerate(experiment.workloads)
        for of, name in enumerate(names)
        for seed in experiment.seeds
    ]
    inputs: dict[tuple[object, ...], dict[str, str]] = {}
    runs = []
    for request, (trace_called, policy_called, seed, folder) in zip(experiment.requests(), cells, strict=True):
        # The files of a trace are hashed once, not once a seed.
        files = (request.nodes, request.pods, request.policy, request.controllers)
        manifest = manifest_extra(request, inputs.get(files))
        inputs[files] = manifest["inputs"]
        runs.append(PlannedRun(trace_called, policy_called, seed, request, manifest, folder / f"seed-{seed}"))
    baseline = _baseline(experiment, names, [profile.name for profile in profiles], len(controllers))
    return Plan(experiment, tuple(runs), tuple(names), baseline, metrics, profiles, dropped_rows)


def _check_names(given: Sequence[str], names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            both = " and ".join(text for text, other in zip(given, names, strict=True) if other == name)
            raise OptionError(f'{both} are both called "{name}"; drop one, or set another name in its profile')


def _controller_name(text: str) -> str:
    return NO_CONTROLLER if text == NO_CONTROLLER else next(iter(load_controllers([text])))


def _check_lists(experiment: Experiment) -> None:
    if not experiment.workloads:
        raise OptionError(
            "no trace to run; give --nodes and --pods, or [[traces]] in an experiment file, or jobs with --schedule"
        )
    if not experiment.policies:
        raise OptionError("no policy to run; give --policy at least once (foresail policies lists them)")
    if not experiment.seeds:
        raise OptionError("no seed to run; give --seeds, such as --seeds 42-46")
    repeated = [seed for seed, count in Counter(experiment.seeds).items() if count > 1]
    if repeated:
        raise OptionError(f"seed {repeated[0]} stands there twice; every seed counts once")
    if experiment.protocol != "clock" and experiment.clock != ClockSettings():
        raise OptionError("the clock settings need --protocol clock; in protocol openb no time passes")
    for policy in experiment.policies:
        if "/" in policy and not profile_path(policy).endswith((".toml", *ENDINGS)):
            raise OptionError(f'policy "{policy}" is a path, but does not end in .toml; profiles are TOML files')
    for name, count in Counter(trace.name for trace in experiment.traces).items():
        if count > 1:
            files = " and ".join(trace.pods for trace in experiment.traces if trace.name == name)
            raise OptionError(
                f'{files} both go by the name "{name}"; give them names with [[traces]] in an experiment file'
            )
        if name == ALL_TRACES:
            raise OptionError(f'no trace may be called "{ALL_TRACES}"; the rows over every trace are called so')


def _check_traces(experiment: Experiment) -> dict[str, int]:
    """How many bad rows each trace lost, after a look at everything that a run would read."""
    dropped = {}
    if experiment.training is not None:
        make_world(experiment.training, experiment.seeds[0])
    for files in experiment.traces:
        trace = load_trace(files.nodes, files.pods, skip_bad_rows=experiment.skip_bad_rows)
        if experiment.faults is not None:
            Faults.read(experiment.faults, trace.nodes)
        if experiment.protocol == "openb":
            try:
                arrivals(trace, load=experiment.load, seed=experiment.seeds[0])
            except InputError as error:
                raise InputError(str(error), path=files.pods) from error
        dropped[files.name] = trace.dropped_rows
    return dropped


def _baseline(experiment: Experiment, names: Sequence[str], profiles: Sequence[str], controllers: int) -> str:
    """The name that the others are compared with; a policy alone stands for its runs with the first controller."""
    wanted = experiment.baseline
    if wanted is None or wanted in names:
        return wanted or names[0]
    for at, (policy, name) in enumerate(zip(experiment.policies, profiles, strict=True)):
        if wanted in {policy, name}:
            return names[at * controllers]
    near = did_you_mean(wanted, names) or ";"
    raise OptionError(f'the baseline "{wanted}" is none of the policies{near} they are {", ".join(names)}')


def _slugs(names: Sequence[str]) -> list[Path]:
    """Folder names that any file system takes; names that would share one get a part of their hash."""
    plain = [re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.") for name in names]
    taken = Counter(slug.casefold() for slug in plain)
    return [
        Path(
            slug if slug and taken[slug.casefold()] == 1 else f"{slug}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        )
        for slug, name in zip(plain, names, strict=True)
    ]
