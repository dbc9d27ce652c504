"""One run from its inputs to its result: what `simulate`, `compare` and `explain` all carry out."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from foresail.controllers import load_controllers
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide
from foresail.core.profile import Profile
from foresail.experiments.request import RunRequest
from foresail.policies.profiles.load import load_profile
from foresail.results.result import RunResult
from foresail.sim.checkpoint import Checkpoint
from foresail.sim.faults import Faults
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.openb import run_openb
from foresail.traces.trace import Trace, load

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


def load_inputs(request: RunRequest) -> tuple[Trace, Profile]:
    """Read what the request names; all of its bad input shows here, before anything is run or written."""
    profile = load_profile(request.policy)
    return load_trace(request.nodes, request.pods, skip_bad_rows=request.skip_bad_rows), profile


def run(
    request: RunRequest,
    *,
    on_progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    decide: Decide = decide_alone,
) -> RunResult:
    """Carry out one request. A clock run that is given a checkpoint goes on where it was interrupted.

    `decide` may be one that listens in, or that knows the answers already; a checkpoint brings its own.
    """
    trace, profile = load_inputs(request)
    if request.protocol == "openb":
        return run_openb(trace, profile, load=request.load, seed=request.seed, on_progress=on_progress, decide=decide)
    faults = None if request.faults is None else Faults.read(request.faults, trace.nodes)
    steered: dict[str, Any] = {"controllers": load_controllers(request.controllers)} if request.controllers else {}
    return run_clock(
        trace,
        profile,
        seed=request.seed,
        settings=request.clock,
        faults=faults,
        on_progress=on_progress,
        checkpoint=checkpoint,
        decide=decide,
        **steered,
    )
