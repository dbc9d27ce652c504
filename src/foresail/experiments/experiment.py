"""An experiment: which policies meet which traces under which seeds, checked as a whole before anything runs."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foresail.core.profile import Profile
from foresail.errors import InputError, OptionError, did_you_mean
from foresail.experiments.run import RunRequest, load_trace
from foresail.experiments.store import manifest_extra
from foresail.policies.profiles.load import load_profile, profile_path
from foresail.policies.profiles.scheduler_configuration import ENDINGS
from foresail.results.metrics import Metric, default_metrics, find_metric
from foresail.sim.faults import Faults
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.sim.protocols.openb import arrivals
from foresail.traces.trace import trace_name

ALL_TRACES = "all traces"
"""What the rows are called that count every trace; no trace may have this name."""
MOST_SEEDS = 100_000


@dataclass(frozen=True, slots=True)
class TraceFiles:
    """One trace of an experiment under the name its results go by."""

    name: str
    """Names the trace in tables and folders; by default the pod list's file name."""
    nodes: str
    """Node list: CSV, Parquet, YAML or JSON."""
    pods: str
    """Pod list, in any of the same formats."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Policies × traces × seeds. Every field is a key of an experiment file and an option of `foresail compare`."""

    traces: tuple[TraceFiles, ...]
    policies: tuple[str, ...]
    """Policies, mixes such as `power:100+fgd:900`, or paths of profiles in TOML."""
    seeds: tuple[int, ...] = (42,)
    protocol: str = "openb"
    """`openb`: the published experiment. `clock`: arrivals, durations and departures of the trace."""
    load: float = 1.3
    """Protocol openb: GPUs that arriving pods ask for in all, as a multiple of the cluster's."""
    faults: str | None = None
    """Protocol clock: file of node failures and repairs."""
    clock: ClockSettings = field(default_factory=ClockSettings)
    """Protocol clock: its further settings."""
    skip_bad_rows: bool = False
    """Drop rows that cannot be used instead of stopping at the first."""
    baseline: str | None = None
    """The policy that the others are compared with; by default the first."""
    metrics: tuple[str, ...] = ()
    """What is compared; by default the key figures of the protocol."""
    title: str = ""
    """Heading of the report; by default the policies and the traces."""

    def requests(self) -> list[RunRequest]:
        """Every run: by trace, then by policy, then by seed, each in the order given."""
        return [
            RunRequest(
                nodes=trace.nodes,
                pods=trace.pods,
                policy=policy,
                protocol=self.protocol,
                load=self.load,
                seed=seed,
                skip_bad_rows=self.skip_bad_rows,
                faults=self.faults,
                clock=self.clock,
            )
            for trace in self.traces
            for policy in self.policies
            for seed in self.seeds
        ]

    def plan(self) -> Plan:
        """Read and check everything that the experiment names; all of its bad input shows here."""
        self._check_lists()
        requests = self.requests()
        metrics = tuple(
            find_metric(name, self.protocol, self.load)
            for name in self.metrics or default_metrics(self.protocol, self.load)
        )
        profiles = [load_profile(policy) for policy in self.policies]
        names = [profile.name for profile in profiles]
        for name, count in Counter(names).items():
            if count > 1:
                both = " and ".join(policy for policy, other in zip(self.policies, names, strict=True) if other == name)
                raise OptionError(f'{both} are both called "{name}"; drop one, or set another name in its profile')
        dropped_rows = self._check_traces()
        manifests: dict[tuple[str, str, str], dict[str, Any]] = {}
        folders = _slugs([trace.name for trace in self.traces]), _slugs(names)
        cells = [
            (trace.name, name, seed, folders[0][at] / folders[1][of])
            for at, trace in enumerate(self.traces)
            for of, name in enumerate(names)
            for seed in self.seeds
        ]
        runs = []
        for request, (trace_called, policy_called, seed, folder) in zip(requests, cells, strict=True):
            # The files of a trace are hashed once, not once a seed.
            known = manifests.setdefault((request.nodes, request.pods, request.policy), {})
            if not known:
                known.update(manifest_extra(request))
            manifest = {"command": request.command, "request": request.plain(), "inputs": known["inputs"]}
            runs.append(PlannedRun(trace_called, policy_called, seed, request, manifest, folder / f"seed-{seed}"))
        return Plan(self, tuple(runs), tuple(names), self._baseline(names), metrics, profiles, dropped_rows)

    def _check_lists(self) -> None:
        if not self.traces:
            raise OptionError("no trace to run; give --nodes and --pods, or [[traces]] in an experiment file")
        if not self.policies:
            raise OptionError("no policy to run; give --policy at least once (foresail policies lists them)")
        if not self.seeds:
            raise OptionError("no seed to run; give --seeds, such as --seeds 42-46")
        repeated = [seed for seed, count in Counter(self.seeds).items() if count > 1]
        if repeated:
            raise OptionError(f"seed {repeated[0]} stands there twice; every seed counts once")
        if self.protocol != "clock" and self.clock != ClockSettings():
            raise OptionError("the clock settings need --protocol clock; in protocol openb no time passes")
        for policy in self.policies:
            if "/" in policy and not profile_path(policy).endswith((".toml", *ENDINGS)):
                raise OptionError(f'policy "{policy}" is a path, but does not end in .toml; profiles are TOML files')
        for name, count in Counter(trace.name for trace in self.traces).items():
            if count > 1:
                files = " and ".join(trace.pods for trace in self.traces if trace.name == name)
                raise OptionError(
                    f'{files} both go by the name "{name}"; give them names with [[traces]] in an experiment file'
                )
            if name == ALL_TRACES:
                raise OptionError(f'no trace may be called "{ALL_TRACES}"; the rows over every trace are called so')

    def _check_traces(self) -> dict[str, int]:
        """How many bad rows each trace lost, after a look at everything that a run would read."""
        dropped = {}
        for files in self.traces:
            trace = load_trace(files.nodes, files.pods, skip_bad_rows=self.skip_bad_rows)
            if self.faults is not None:
                Faults.read(self.faults, trace.nodes)
            if self.protocol == "openb":
                try:
                    arrivals(trace, load=self.load, seed=self.seeds[0])
                except InputError as error:
                    raise InputError(str(error), path=files.pods) from error
            dropped[files.name] = trace.dropped_rows
        return dropped

    def _baseline(self, names: Sequence[str]) -> str:
        if self.baseline is None:
            return names[0]
        for policy, name in zip(self.policies, names, strict=True):
            if self.baseline in {policy, name}:
                return name
        near = did_you_mean(self.baseline, names) or ";"
        raise OptionError(f'the baseline "{self.baseline}" is none of the policies{near} they are {", ".join(names)}')


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
        return [trace.name for trace in self.experiment.traces]


def traces_of(nodes: str, pods: Sequence[str]) -> tuple[TraceFiles, ...]:
    """Several pod lists on one cluster, each named after its file."""
    return tuple(TraceFiles(trace_name(path), nodes, path) for path in pods)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds from text such as `42-46`, `42,43` or `1-3,7`."""
    seeds: list[int] = []
    for part in text.split(","):
        matched = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if matched is None:
            raise OptionError(f'seeds are "{text}"; write whole numbers such as 42-46 or 42,43')
        first, last = int(matched[1]), int(matched[2] or matched[1])
        if last < first:
            raise OptionError(f'seeds are "{text}", but {last} is below {first}; write the lower one first')
        if len(seeds) + last - first >= MOST_SEEDS:
            raise OptionError(f'seeds are "{text}"; that is more than {MOST_SEEDS} seeds, write fewer')
        seeds += range(first, last + 1)
    return tuple(seeds)


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
