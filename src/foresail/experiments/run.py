"""One run from its inputs to its result: what `simulate`, `compare` and `explain` all carry out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from foresail.controllers import load_controllers
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide
from foresail.core.journal import Listener, Record, What
from foresail.core.profile import Profile
from foresail.experiments.pins import read_pins
from foresail.experiments.request import BASELINE, RunRequest
from foresail.policies.profiles.load import load_profile
from foresail.results.result import RunResult
from foresail.sim.checkpoint import Checkpoint
from foresail.sim.faults import Faults
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.sim.protocols.openb import run_openb
from foresail.traces.trace import Trace, load
from foresail.traces.training.settings import TrainingSettings
from foresail.traces.training.world import World, make_world

Progress = Callable[[int, int], None]


def load_trace(nodes: str, pods: str, *, skip_bad_rows: bool) -> Trace:
    """A trace, kept while the runs of a comparison ask for it again and its files stay as they are."""
    return _kept_trace(nodes, pods, _stamp(nodes), _stamp(pods), skip_bad_rows=skip_bad_rows)


def forget_traces() -> None:
    """Keep no trace any longer."""
    _kept_trace.cache_clear()


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What changes when a file does; None where there is none, which the reader then says better."""
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=4)
def _kept_trace(nodes: str, pods: str, _nodes_stamp: object, _pods_stamp: object, *, skip_bad_rows: bool) -> Trace:
    return load(nodes, pods, skip_bad_rows=skip_bad_rows)


@lru_cache(maxsize=64)
def _kept_world(training: TrainingSettings, seed: int) -> World:
    return make_world(training, seed)


def load_inputs(request: RunRequest) -> tuple[Trace, Profile]:
    """Read or make what the request names; all of its bad input shows here, before anything is run or written."""
    profile = load_profile(request.policy)
    return trace_of(request), profile


def trace_of(request: RunRequest) -> Trace:
    """The nodes and pods of a request."""
    if request.training is None:
        return load_trace(request.nodes, request.pods, skip_bad_rows=request.skip_bad_rows)
    world = _kept_world(request.training, request.seed)
    return Trace(request.training.name, world.nodes, world.workload)


def run(
    request: RunRequest,
    *,
    on_progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    decide: Decide = decide_alone,
) -> RunResult:
    """Carry out one request. A clock run that is given a checkpoint goes on where it was interrupted.

    `decide` may be one that listens in, or that knows the answers already.
    """
    trace, profile = load_inputs(request)
    if request.protocol == "openb":
        return run_openb(trace, profile, load=request.load, seed=request.seed, on_progress=on_progress, decide=decide)
    return _run_clock(
        request,
        trace,
        profile,
        first_node=_first_nodes(request),
        on_progress=on_progress,
        checkpoint=checkpoint,
        decide=decide,
    )


def _run_clock(request: RunRequest, trace: Trace, profile: Profile, **more: Any) -> RunResult:
    faults = None if request.faults is None else Faults.read(request.faults, trace.nodes)
    if request.controllers:
        more["controllers"] = load_controllers(request.controllers)
    settings = _clock_of(request)
    return run_clock(trace, profile, seed=request.seed, settings=settings, faults=faults, **more)


def _clock_of(request: RunRequest) -> ClockSettings:
    """The request's own settings; a start from cold images has nodes pull them."""
    training = request.training
    if training is None or training.start != "cold-images":
        return request.clock
    return replace(request.clock, pulled_image_mib=training.image_mib)


# --- where pods start at first ---------------------------------------------------------------------------------------


def _first_nodes(request: RunRequest) -> Mapping[str, str]:
    if request.pin_to == BASELINE:
        files = (request.nodes, request.pods, request.faults or "")
        return _baseline_nodes(replace(request, controllers=(), pin_to=None), tuple(_stamp(path) for path in files))
    if request.pin_to is not None:
        return read_pins(request.pin_to)
    return {} if request.training is None else _kept_world(request.training, request.seed).first_node


@lru_cache(maxsize=4096)
def _baseline_nodes(request: RunRequest, _stamps: object) -> dict[str, str]:
    """Where pods start at first in a run without controllers; kept, since every controller asks for the same."""
    first: dict[str, str] = {}

    def listen(record: Record) -> None:
        if record.what is What.START:
            first.setdefault(record.pod, record.node)

    listeners: list[Listener] = [listen]
    _run_clock(request, *load_inputs(request), first_node=_first_nodes(request), listeners=listeners)
    return first
