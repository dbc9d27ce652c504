"""What is written down of the resizes of one node that belong together.

A change goes from what a pod had to what it is to have; one whose `back` is set goes the other way. Which way is
written down before anything of it is asked for, and each step can be begun anew without harm. So whoever finds a record
goes on with it, whether it wrote that itself or another did who is dead by now.
"""

from __future__ import annotations

import hashlib

import msgspec

from foresail.kube.api.client import Client
from foresail.live.actions.resizing import Cpu
from foresail.live.records import KeptRecord, Records


class PodChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pod's resize; amounts are those of its container, in milli-CPU."""

    namespace: str
    name: str
    uid: str
    container: str
    was: Cpu
    to: Cpu
    beside_milli: int = 0
    """What the pod requests beside this container."""
    least_milli: int = 0
    """What it counts for at least."""
    back: bool = False
    """Whether it goes back to what it was."""
    earlier: tuple[Cpu, ...] = ()
    """What was asked for it before, of which nothing has come yet."""
    undone: str = ""
    """How it ended, if it goes back; a word of `Outcome`."""
    why: str = ""
    """Why it goes back."""
    by: str = ""
    """The controller that asked for it."""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def target(self) -> Cpu:
        return self._before if self.back else self.to

    @property
    def known(self) -> tuple[Cpu, ...]:
        """All amounts that it may have without anybody else's doing."""
        return (self.was, self.to, self._before, *self.earlier)

    @property
    def _before(self) -> Cpu:
        if self.was.limit_milli or not self.to.limit_milli:
            return self.was
        # A limit that was added cannot be taken away again; it is only kept out of the way.
        return Cpu(self.was.request_milli, max(self.to.limit_milli, self.was.request_milli))

    def pod_milli(self, cpu: Cpu) -> int:
        """What the pod requests in all with an amount."""
        return max(self.least_milli, self.beside_milli + cpu.request_milli)

    @property
    def more_milli(self) -> int:
        """What the pod requests more after it than before it, as it was first asked for."""
        return self.pod_milli(self.to) - self.pod_milli(self.was)


class Batch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resizes of a node that were asked for together."""

    node: str
    changes: tuple[PodChange, ...]
    free_milli: int
    """What the node had left when it began."""
    hand: str = ""
    """The process that goes on with it; one that finds another's here has been replaced."""
    is_returned: bool = False
    """Whether those that had only made room for others have been given back what they had."""

    @property
    def ceiling_milli(self) -> int:
        """What its pods may request together at any time: no more than before it, or than after it."""
        return max(sum(one.pod_milli(one.was) for one in self.changes), self._after_milli)

    @property
    def _after_milli(self) -> int:
        return sum(one.pod_milli(one.to) for one in self.changes)


def to_give_back(batch: Batch, grown: set[str], shrunk: set[str]) -> set[str]:
    """Uids of pods that were shrunk only for growths that came to nothing; `grown` and `shrunk` are those that went
    well.

    Growths first take what the node had left; what they need beyond that must come from those that shrink. Given back
    is what was needed for the failed ones alone, largest first, as far as what the others need allows.
    """
    growing = [one for one in batch.changes if one.more_milli > 0]
    gave = {one.uid: -one.more_milli for one in batch.changes if one.uid in shrunk and one.more_milli < 0}
    given_milli = sum(gave.values())
    needed_milli = max(0, sum(one.more_milli for one in growing) - batch.free_milli)
    still_milli = max(0, sum(one.more_milli for one in growing if one.uid in grown) - batch.free_milli)
    too_much_milli = min(given_milli, needed_milli) - min(given_milli, still_milli)
    back: set[str] = set()
    returned_milli = 0
    for uid, milli in sorted(gave.items(), key=lambda item: (-item[1], item[0])):
        if returned_milli < too_much_milli and returned_milli + milli <= given_milli - still_milli:
            back.add(uid)
            returned_milli += milli
    return back


KeptBatch = KeptRecord[Batch]


class ResizeRecords(Records[Batch]):
    """The records of one scheduler's resizes, one for each node that has any under way."""

    def __init__(self, api: Client, namespace: str, scheduler_name: str) -> None:
        super().__init__(
            api,
            namespace,
            scheduler_name,
            kind="resize",
            of=Batch,
            id_of=lambda batch: hashlib.sha256(f"{scheduler_name}/{batch.node}".encode()).hexdigest()[:16],
            for_people=lambda batch: {"resize": _described(batch)},
        )


def _described(batch: Batch) -> str:
    said = [
        f"{one.full_name} {one.was.request_milli} {'←' if one.back else '→'} {one.to.request_milli}"
        for one in batch.changes
    ]
    return f"{batch.node}: {', '.join(said)} milli-CPU"
