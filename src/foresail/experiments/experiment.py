"""An experiment: which policies meet which traces under which seeds. Settings alone, so that help is quick."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foresail.errors import OptionError
from foresail.experiments.request import BASELINE, RunConditions, RunRequest, check_controllers
from foresail.settings import setting

ALL_TRACES = "all traces"
"""What the rows are called that count every trace; no trace may have this name."""
NO_CONTROLLER = "none"
"""What stands for runs without a controller where some have one."""
MOST_SEEDS = 100_000


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


def seeds_of(given: Any) -> tuple[int, ...]:
    """Seeds as a file has them: a number, a list of numbers, or text as in `parse_seeds`."""
    if isinstance(given, str):
        return parse_seeds(given)
    seeds = given if isinstance(given, list | tuple) else [given]
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise OptionError(f'seeds has {seed!r}; write whole numbers, 0 or more, as in [42, 43], or "42-46"')
    if not seeds:
        raise OptionError('seeds is empty; write whole numbers, as in [42, 43], or "42-46"')
    return tuple(seeds)


@dataclass(frozen=True, slots=True)
class TraceFiles:
    """One trace of an experiment under the name its results go by."""

    name: str
    """Names the trace in tables and folders; by default the pod list's file name."""
    nodes: str = setting(is_file=True)
    """Node list: CSV, Parquet, YAML or JSON."""
    pods: str = setting(is_file=True)
    """Pod list, in any of the same formats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(RunConditions):
    """Policies × controllers × traces × seeds. Every field is a key of an experiment file, most are options as well."""

    title: str = setting("", without_option=True)
    """Heading of the report; by default the policies and the traces."""
    traces: tuple[TraceFiles, ...] = setting((), without_option=True)
    """The traces, one table each."""
    policies: tuple[str, ...] = setting(option="--policy", example="fgd")
    """A policy, a mix such as power:100+fgd:900, or a profile: TOML, or kube-scheduler's YAML. Repeat it for more."""
    controllers: tuple[str, ...] = setting((), option="--controller", example="equal-shares")
    """Protocol clock: every policy runs with each of these: NAME, NAME:key=value,key=value, or none. Repeat it."""
    seeds: tuple[int, ...] = setting((42,), parse=seeds_of, metavar="SEEDS", write=str)
    """Such as 42-46 or 42,43."""
    baseline: str | None = None
    """What the others are compared with; by default the first policy."""
    metrics: tuple[str, ...] = setting((), option="--metric", example="failed_pods")
    """What to compare; by default the key figures of the protocol. Repeat it for more."""

    def __post_init__(self) -> None:
        RunConditions.__post_init__(self)
        check_controllers(self.controllers, self.protocol)
        if self.training is not None and self.traces:
            raise OptionError("there are both training jobs and traces; leave out [training] or [[traces]]")

    @property
    def workloads(self) -> tuple[TraceFiles, ...]:
        """What is run: the traces, or training jobs, which are no files but made anew for every seed."""
        return self.traces if self.training is None else (TraceFiles(self.training.name, "", ""),)

    @property
    def strategies(self) -> tuple[str, ...]:
        """What every policy runs with. Controllers of training jobs are measured against runs without any."""
        if self.training is None:
            return self.controllers or (NO_CONTROLLER,)
        return (NO_CONTROLLER, *(one for one in self.controllers if one != NO_CONTROLLER))

    def requests(self) -> list[RunRequest]:
        """Every run: by trace, then by policy, then by controller, then by seed, each in the order given."""
        return [
            RunRequest(
                nodes=trace.nodes,
                pods=trace.pods,
                policy=policy,
                controllers=() if controller == NO_CONTROLLER else (controller,),
                # Training jobs start where they do without the controller, so that what differs is its doing alone.
                pin_to=BASELINE if self.training is not None and controller != NO_CONTROLLER else None,
                training=self.training,
                seed=seed,
                protocol=self.protocol,
                load=self.load,
                skip_bad_rows=self.skip_bad_rows,
                faults=self.faults,
                clock=self.clock,
            )
            for trace in self.workloads
            for policy in self.policies
            for controller in self.strategies
            for seed in self.seeds
        ]


def traces_of(nodes: str, pods: Sequence[str]) -> tuple[TraceFiles, ...]:
    """Several pod lists on one cluster, each named after its file."""
    from foresail.traces.trace import trace_name  # noqa: PLC0415 - loads readers of every format

    return tuple(TraceFiles(trace_name(path), nodes, path) for path in pods)
