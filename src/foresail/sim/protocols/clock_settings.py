"""The settings of protocol `clock`. A field here is an option, a key of experiment files and a part of manifests.

Stands apart from the protocol, so that asking for help does not load compiled kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

from foresail.core.backoff import NO_BACKOFF, Backoff
from foresail.core.spec import parse_topology
from foresail.errors import OptionError
from foresail.settings import setting


def parse_backoff(text: str, option: str = "--backoff") -> Backoff:
    """`1:10`: one second at first, at most ten."""
    try:
        first_s, most_s = map(float, text.split(":"))
    except ValueError:
        raise OptionError(f'{option} is "{text}"; write FIRST:MOST in seconds, for example 1:10') from None
    if not 0 <= first_s <= most_s < math.inf:
        raise OptionError(f'{option} is "{text}"; FIRST is 0 or more, and MOST at least as much')
    return Backoff(first_s, most_s)


def written_backoff(backoff: Backoff) -> str:
    """As `parse_backoff` reads it."""
    return f"{backoff.first_s:g}:{backoff.most_s:g}"


_NOT_BELOW_0 = {
    "snapshot_every_s": "a time in seconds",
    "until_s": "a time in seconds",
    "checkpoint_every_s": "a time in seconds",
    "restart_time_s": "a time in seconds",
    "start_time_s": "a time in seconds",
    "oversubscription_loss": "a factor",
    "pulled_image_mib": "a size in MiB",
    "report_error": "a standard deviation",
    "gang_reserve_after_s": "a time in seconds",
}


@dataclass(frozen=True, slots=True)
class ClockSettings:
    """How time goes by in a run."""

    snapshot_every_s: float | None = None
    """Time between two rows of the timeline, in seconds; by default about 1000 rows over the trace."""
    until_s: float | None = None
    """When to stop, in seconds of the trace's time; by default when nothing can happen any more."""
    arrival_scale: float = 1.0
    """Arrival times are multiplied by this: 0.5 makes pods come twice as fast. Durations and faults stay."""
    after_failure: Literal["restart", "resume"] = "restart"
    """Whether a pod that lost its node starts from its beginning, or goes on where it was."""
    gang_restart: Literal["member", "all"] = "member"
    """When a gang loses a member: whether only that one waits again, or the whole gang starts anew together."""
    fail_impossible: bool = setting(
        default=True,
        option="--keep-impossible",
        negates=True,
        help="Let pods that can never fit wait, instead of failing them.",
    )
    """Fail pods at once that would not fit even if every node were empty, instead of letting them wait for ever."""
    backoff: Backoff = setting(NO_BACKOFF, metavar="FIRST:MOST", parse=parse_backoff, write=written_backoff)
    """How long a pod that fitted nowhere is left alone even when room becomes free, in seconds."""
    preemption: bool = False
    """Whether a pod that fits nowhere may make running pods of less priority wait again."""
    slowdown_threshold_s: float = 10.0
    """Pods that run shorter than this count as this long when their slowdown is worked out."""
    work: Literal["fixed", "shared-cpu"] = setting("fixed", said_if_given=True)
    """Whether a pod runs for its duration, or shares its node's CPU with others until its work is done."""
    oversubscription_loss: float = setting(0.0, said_if_given=True)
    """Work shared-cpu: where the pods of a node could use D of its C CPUs, D > C, CPU does 1 / (1 + loss · (D/C − 1))
    of the work that it would do otherwise."""
    checkpoint_every_s: float = setting(0.0, said_if_given=True)
    """With after_failure "resume": time between two checkpoints of a running pod, in seconds; a pod that lost its node
    goes on from the last one. 0 keeps everything."""
    restart_time_s: float = setting(0.0, said_if_given=True)
    """How long a pod that starts again, or has been moved, holds its room before it gets on, in seconds."""
    start_time_s: float = setting(0.0, said_if_given=True)
    """How long a pod that starts for the first time holds its room before it gets on, in seconds."""
    job_backoff: Backoff = setting(
        NO_BACKOFF,
        metavar="FIRST:MOST",
        parse=partial(parse_backoff, option="--job-backoff"),
        write=written_backoff,
        said_if_given=True,
    )
    """How much later a pod of a Job comes back after it was moved or lost its node, in seconds: the first time, doubled
    each time, and at most. Kubernetes' Job controller has 10:600; other owners do not wait."""
    pulled_image_mib: int = setting(0, said_if_given=True)
    """Nodes have an image once a pod with it has started there, of this size in MiB; 0: they have those that the node
    list says, and pull none."""
    report_error: float = setting(0.0, said_if_given=True)
    """How far reports of training jobs mislead: work left, worked out from CPU used and steps done, comes out e^x times
    as large, x normal with this standard deviation, one a job."""
    gang_reserve_after_s: float | None = setting(None, said_if_given=True)
    """How long a complete gang waits before room is kept for it, in seconds; by default none is kept."""
    gang_reservations: int = setting(1, said_if_given=True)
    """With gang_reserve_after: how many gangs of one priority have room kept for them at a time, the first in line."""
    gang_topology: str = setting("", metavar="FORM:LABEL,…", example="preferred:rack", said_if_given=True)
    """How close members of gangs are placed that do not say so themselves: preferred or required, and node labels from
    the closest to the widest, such as preferred:rack."""

    def __post_init__(self) -> None:
        for name, what in _NOT_BELOW_0.items():
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise OptionError(f"{name} is {value:g}; it is {what}, 0 or more")
        if self.oversubscription_loss and self.work == "fixed":
            raise OptionError('oversubscription_loss needs work "shared-cpu"; a fixed duration loses nothing')
        if self.checkpoint_every_s and self.after_failure == "restart":
            raise OptionError('checkpoint_every_s needs after_failure "resume"; a restart begins anew in any case')
        try:
            parse_topology(self.gang_topology)
        except ValueError as error:
            raise OptionError(f"gang_topology: {error}") from None
        if self.gang_reservations < 1:
            raise OptionError(f"gang_reservations is {self.gang_reservations}; it is a number of gangs, 1 or more")
        if not 0 < self.arrival_scale < math.inf:
            raise OptionError(
                f"arrival_scale is {self.arrival_scale:g}; it is a factor above 0 (1 leaves times as they are)"
            )
        if not 0 < self.slowdown_threshold_s < math.inf:
            raise OptionError(
                f"slowdown_threshold_s is {self.slowdown_threshold_s:g}; it is a time in seconds, above 0"
            )
        for name, known in (
            ("after_failure", ("restart", "resume")),
            ("gang_restart", ("member", "all")),
            ("work", ("fixed", "shared-cpu")),
        ):
            if getattr(self, name) not in known:
                raise OptionError(f'{name} is "{getattr(self, name)}"; it is "{known[0]}" or "{known[1]}"')
