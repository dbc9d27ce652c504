"""One run from its inputs to its result: what `simulate`, `compare` and `explain` all carry out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any

from foresail.core.backoff import NO_BACKOFF, Backoff
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide
from foresail.core.profile import Profile
from foresail.digest import sha256_of
from foresail.errors import OptionError, did_you_mean
from foresail.policies.profiles.load import is_profile_file, load_profile, profile_path
from foresail.results.result import RunResult
from foresail.sim.checkpoint import Checkpoint
from foresail.sim.faults import Faults
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.sim.protocols.openb import run_openb
from foresail.traces.trace import Trace, load

PROTOCOLS = ("openb", "clock")
CLOCK_OPTIONS = {
    "snapshot_every_s": "--snapshot-every",
    "until_s": "--until",
    "arrival_scale": "--arrival-scale",
    "after_failure": "--after-failure",
    "gang_restart": "--gang-restart",
    "fail_impossible": "--keep-impossible",
    "backoff": "--backoff",
    "preemption": "--preemption",
    "slowdown_threshold_s": "--slowdown-threshold",
    "work": "--work",
    "oversubscription_loss": "--oversubscription-loss",
    "checkpoint_every_s": "--checkpoint-every",
    "restart_time_s": "--restart-time",
}
"""The command-line option of each clock setting."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything that decides what a run gives. Two equal requests over equal files give equal bytes."""

    nodes: str
    """Node list: CSV, Parquet, YAML or JSON."""
    pods: str
    """Pod list, in any of the same formats."""
    policy: str
    """A policy, a mix such as `power:100+fgd:900`, or the path of a profile in TOML."""
    protocol: str = "openb"
    """`openb`: the published experiment. `clock`: arrivals, durations and departures of the trace."""
    load: float = 1.3
    """Protocol openb: GPUs that arriving pods ask for in all, as a multiple of the cluster's."""
    seed: int = 42
    skip_bad_rows: bool = False
    """Drop rows that cannot be used instead of stopping at the first."""
    faults: str | None = None
    """Protocol clock: file of node failures and repairs."""
    clock: ClockSettings = field(default_factory=ClockSettings)
    """Protocol clock: its further settings."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            near = did_you_mean(self.protocol, PROTOCOLS)
            raise OptionError(f'no protocol "{self.protocol}"{near or ";"} there are {" and ".join(PROTOCOLS)}')
        if not 0 < self.load <= 100:
            raise OptionError(
                f"--load is {self.load:g}; it is a multiple of the cluster's GPUs, above 0 and at most 100"
            )
        if self.seed < 0:
            raise OptionError(f"--seed is {self.seed}; a seed is 0 or more")
        if self.faults is not None and self.protocol != "clock":
            raise OptionError(
                "--faults needs --protocol clock; in protocol openb no time passes in which a node could fail"
            )

    @property
    def command(self) -> list[str]:
        """The command that gives this run again, however it was started."""
        words = ["foresail", "simulate", "--protocol", self.protocol, "--nodes", self.nodes, "--pods", self.pods]
        words += ["--policy", self.policy, "--seed", str(self.seed)]
        if self.protocol == "openb":
            words += ["--load", f"{self.load:g}"]
        if self.skip_bad_rows:
            words.append("--skip-bad-rows")
        if self.faults is not None:
            words += ["--faults", self.faults]
        if self.protocol == "clock":
            words += _clock_words(self.clock)
        return words

    def __str__(self) -> str:
        return shlex.join(self.command)

    def plain(self) -> dict[str, Any]:
        """The request as plain data, for manifests."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> RunRequest:
        """The request that `plain` described."""
        clock = {**data["clock"], "backoff": Backoff(**data["clock"]["backoff"])}
        return cls(**{**data, "clock": ClockSettings(**clock)})


def parse_backoff(text: str | None) -> Backoff:
    """`1:10`: one second at first, at most ten; nothing: no backoff."""
    if text is None:
        return NO_BACKOFF
    try:
        first_s, most_s = map(float, text.split(":"))
    except ValueError:
        raise OptionError(f'--backoff is "{text}"; write FIRST:MOST in seconds, for example 1:10') from None
    if not 0 <= first_s <= most_s < inf:
        raise OptionError(f'--backoff is "{text}"; FIRST is 0 or more, and MOST at least as much')
    return Backoff(first_s, most_s)


def _clock_words(settings: ClockSettings) -> list[str]:
    """The options that differ from their defaults."""
    words = []
    for setting in fields(ClockSettings):
        value = getattr(settings, setting.name)
        if value != setting.default:
            option = CLOCK_OPTIONS[setting.name]
            if isinstance(value, Backoff):
                words += [option, f"{value.first_s:g}:{value.most_s:g}"]
            else:
                words += (
                    [option]
                    if isinstance(value, bool)
                    else [option, f"{value:g}" if isinstance(value, float) else value]
                )
    return words


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


def input_hashes(request: RunRequest) -> dict[str, str]:
    """SHA-256 of every file the request reads."""
    files = [request.nodes, request.pods]
    if request.faults is not None:
        files.append(request.faults)
    if is_profile_file(request.policy):
        files.append(profile_path(request.policy))
    return {path: sha256_of(path) for path in files}


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
    return run_clock(
        trace,
        profile,
        seed=request.seed,
        settings=request.clock,
        faults=faults,
        on_progress=on_progress,
        checkpoint=checkpoint,
        decide=decide,
    )
