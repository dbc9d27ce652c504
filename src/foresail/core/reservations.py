"""The first in line is served: a gang that has waited long enough has room kept for it until it can start.

Of each priority only so many gangs have a reservation, those that came first; the others hold nothing while they wait,
so no two can each hold what the other needs. Pods that come later use what is not held, and what is held if they are
known to end in time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field

from foresail.core.arranging import Arranging
from foresail.core.gang_search import NoRoomTogether, SearchLimits
from foresail.core.holds import Ends, HeldRoom, Holds, Reservation
from foresail.core.journal import What
from foresail.core.lane import NEVER_S, Lane, Order
from foresail.core.model import NoFit, Pod
from foresail.core.profile import Profile
from foresail.core.queue import Queue
from foresail.core.room_plan import RoomPlan, RoomPlanner, still_holds
from foresail.core.table import NodeTable

_LONGEST_S = 86_400.0
"""A gang without a timeout, or that has started and lost members, holds room for no longer than this."""
_AFTER_TIMEOUT_S = 60.0
"""Holds outlast the timeout of their gang by this, as it has a last try then."""
_LATE_S = 5.0
"""Members that wait again after a rest do not all come at once."""


@dataclass(frozen=True, slots=True)
class ReservationSettings:
    """When room is kept for gangs."""

    after_s: float = 30.0
    """How long a complete gang that does not fit waits before room is kept for it."""
    most: int = 1
    """How many gangs of one priority have room kept for them at a time."""


def nobody_knows(_pod: Pod) -> float:
    """Ends of pods in a world that tells none."""
    return NEVER_S


@dataclass(slots=True, eq=False)
class _Waiting:
    """A complete gang that does not fit."""

    lane: Lane
    order: Order
    since_s: float
    plan: RoomPlan | None = None
    reservation: Reservation | None = None
    planned_s: float = -NEVER_S
    until_s: float = -NEVER_S
    """When its holds end."""
    uids: list[Hashable] = field(default_factory=list)
    """Members that hold room."""
    hopeless: tuple[Hashable, str] | None = None
    """What was so when no plan was found, and why there is none."""
    rests_until_s: float = -NEVER_S
    """A gang that has given up and will come again keeps its room until then."""

    @property
    def name(self) -> str:
        return "" if self.lane.gang is None else self.lane.gang.name


class Reservations:
    """Which gangs wait for room, and what is held for the first of them."""

    def __init__(
        self, settings: ReservationSettings, queue: Queue, holds: Holds, *, ends: Ends, limits: SearchLimits
    ) -> None:
        """`ends` tells what is known of when pods leave."""
        self._settings, self._queue, self._holds = settings, queue, holds
        self._ends, self._limits = ends, limits
        self._gangs: dict[Hashable, _Waiting] = {}
        self._reserved: dict[Hashable, _Waiting] = {}
        """Those of them that have a reservation."""
        self._times: list[tuple[float, int, Hashable]] = []
        self._sequence = itertools.count()

    # --- time ------------------------------------------------------------------------------------------------------

    def next_time_s(self) -> float:
        """When a gang is to be looked at although nothing happens: it has waited long enough, or should start."""
        while self._times and self._times[0][2] not in self._gangs:
            heapq.heappop(self._times)
        return self._times[0][0] if self._times else NEVER_S

    def look_after(self) -> None:
        """Give gangs whose time has come a turn, and take back what is held for one that is complete no more."""
        now_s = self._queue.clock.now()
        while self.next_time_s() <= now_s:
            self._retry(self._gangs[heapq.heappop(self._times)[2]])
        for gang in list(self._reserved.values()) if self._reserved else ():
            if now_s < gang.rests_until_s:
                continue
            if not 0 < gang.lane.lacking <= gang.lane.waiting:
                self.over(gang.lane.key, "it is complete no more")
            elif any(self._held(uid, gang) is None for uid in gang.uids):
                # A gang that has lost a part of its room holds none: another may need the rest.
                self._release(gang, "a part of it was lost")
                self._queue.wake_all()

    def _look_again_at(self, gang: _Waiting, time_s: float) -> None:
        if time_s < NEVER_S:
            heapq.heappush(self._times, (time_s, next(self._sequence), gang.lane.key))

    def _retry(self, gang: _Waiting) -> None:
        first = self._queue.first_of(gang.lane)
        if first is not None:
            self._queue.retry(first.uid)

    # --- gangs that wait -------------------------------------------------------------------------------------------

    def refused(self, lane: Lane, members: list[Pod], refusal: NoFit, table: NodeTable, profile: Profile) -> NoFit:
        """A complete gang does not fit now: keep room for it if it is the first in line. Says so in the refusal."""
        now_s = self._queue.clock.now()
        after_s, order = self._settings.after_s, self._queue.order_of(lane)
        gang = self._gangs.get(lane.key)
        if gang is None:
            gang = self._gangs[lane.key] = _Waiting(lane, order, now_s)
            if after_s:
                self._look_again_at(gang, now_s + after_s)
        gang.lane, gang.order, gang.rests_until_s = lane, order, -NEVER_S
        if now_s < gang.since_s + after_s:
            return refusal
        before = [one for one in self._of_priority(-order[0]) if one.order < order]
        if len(before) >= self._settings.most:
            if self._release(gang, f"gang {before[0].name} came before it"):
                self._queue.wake_all()
            return _noted(refusal, f"room is held for gang {before[0].name}, which came before")
        if not self._is_to_be_kept(gang, lane, table, profile):
            why = self._plan(gang, members, table, profile)
            if why:
                return _noted(refusal, why)
            for one in self._of_priority(-order[0])[self._settings.most :]:
                self._release(one, f"gang {gang.name} came before it")
                self._queue.wake_all()
        return self._told(gang, refusal)

    def _of_priority(self, priority: int) -> list[_Waiting]:
        """Gangs of one priority that have a reservation, in their order."""
        found = [one for one in self._reserved.values() if one.order[0] == -priority]
        return sorted(found, key=lambda one: one.order)

    def _is_to_be_kept(self, gang: _Waiting, lane: Lane, table: NodeTable, profile: Profile) -> bool:
        """Whether what is held is still what the gang needs."""
        plan, reservation = gang.plan, gang.reservation
        if plan is None or reservation is None or len(gang.uids) < lane.lacking:
            return False
        if gang.until_s != self._until_s(gang):
            return False  # it has begun to wait anew
        if any(self._held(uid, gang) is None or uid not in self._queue for uid in gang.uids):
            return False
        now_s = self._queue.clock.now()
        if plan.needed_s == NEVER_S:
            # Whatever becomes free may be of more use to it; but once an instant is enough.
            return gang.planned_s == now_s
        if now_s >= plan.needed_s:
            return False
        leaving = [placed for placed in table.placed.values() if reservation.leaves_in_time(placed)]
        return still_holds(plan, table, profile, holds=self._holds, leaving=leaving)

    def _until_s(self, gang: _Waiting) -> float:
        """When what is held for a gang is anybody's again, whatever happens."""
        if gang.lane.deadline_s < NEVER_S and not gang.lane.started:
            return gang.lane.deadline_s + _AFTER_TIMEOUT_S
        return gang.since_s + _LONGEST_S

    def _plan(self, gang: _Waiting, members: list[Pod], table: NodeTable, profile: Profile) -> str:
        """Hold room where the gang fits first; in words, why that cannot be."""
        lane = gang.lane
        if lane.gang is None or self._until_s(gang) <= self._queue.clock.now():
            self._release(gang, "its time is over")
            return "room was held for it for long enough"
        shapes = frozenset((pod.shape, pod.priority) for pod in members)
        marked = int(table.down.sum()), int(table.unschedulable.sum())
        world = (profile, table.structure, marked, lane.lacking, len(members), shapes)
        if gang.hopeless is not None and gang.hopeless[0] == world:
            return gang.hopeless[1]
        nodes = self._let_go(gang)
        arranging = Arranging(
            members,
            table,
            missing=lane.lacking,
            holds=self._holds,
            clock=self._queue.clock,
            limits=self._limits,
        )
        plan = RoomPlanner(lane.gang, arranging, profile, self._ends).find()
        if isinstance(plan, str):
            gang.hopeless = world, plan
            self._release(gang, "it does not fit any more")
            if nodes:
                self._queue.wake_all()
            return plan
        gang.hopeless = None
        self._hold(gang, plan)
        if nodes - {placement.node for _, placement in plan.placements}:
            self._queue.wake_all()  # some of what was held is open to all
        return ""

    def _hold(self, gang: _Waiting, plan: RoomPlan) -> None:
        now_s = self._queue.clock.now()
        reservation = Reservation(gang.name, gang.order[:2], self._queue.place_of, plan.needed_s, self._ends)
        gang.until_s = self._until_s(gang)
        nodes = {placement.node for _, placement in plan.placements}
        for one in [one for one in self._reserved.values() if one.order[0] > gang.order[0]]:
            if nodes.intersection(self._nodes_of(one)):
                self._release(one, f"gang {gang.name}, of more priority, needs a part of it")
                self._queue.wake_all()
        for pod, placement in plan.placements:
            displaced = self._holds.hold(
                pod,
                placement.node,
                placement.devices,
                until_s=gang.until_s,
                why=f"its gang {gang.name} is the first in line",
                refusal=f"are held for gang {gang.name}",
                reservation=reservation,
            )
            if displaced:
                self._queue.wake_all()
        is_news = gang.reservation is None
        self._reserved[gang.lane.key] = gang
        gang.plan, gang.reservation, gang.planned_s = plan, reservation, now_s
        gang.uids = [pod.uid for pod, _ in plan.placements]
        self._look_again_at(gang, plan.needed_s if plan.needed_s > now_s else NEVER_S)
        if is_news:
            self._note(What.HOLD, gang, f"for gang {gang.name}, which is the first in line; {_when(plan)}")

    def _told(self, gang: _Waiting, refusal: NoFit) -> NoFit:
        if gang.plan is None or gang.reservation is None:
            return refusal
        nodes = len({placement.node for _, placement in gang.plan.placements})
        where = f"{nodes} node{'s' if nodes > 1 else ''}"
        return _noted(refusal, f"room for its gang is held on {where}, {_when(gang.plan)}")

    # --- gangs that wait no longer ---------------------------------------------------------------------------------

    def over(self, key: Hashable, why: str = "") -> None:
        """A gang has started, gone or given up; the next in line has its turn."""
        gang = self._gangs.pop(key, None)
        if gang is not None and gang.reservation is not None:
            if self._release(gang, why):
                self._queue.wake_all()
            for one in self._gangs.values():
                self._retry(one)

    def given_up(self, key: Hashable, again_s: float) -> bool:
        """A gang has given up for now, and its members wait again after so long; infinity if they never do. Whether
        others may use now what was held for it.
        """
        gang = self._gangs.get(key)
        if gang is not None and again_s < NEVER_S:
            # The room that has become free so far would be lost to it, and to wait for it would begin anew.
            gang.rests_until_s = self._queue.clock.now() + again_s + _LATE_S
            return False
        opens = key in self._reserved
        self.over(key, "it has given up")
        return opens

    def disturbed(self, pod: Pod, node: str) -> None:
        """A pod that nobody keeps out has got a node: whose room it was must plan anew."""
        for gang in self._reserved.values():
            reservation = gang.reservation
            if reservation is None or pod.uid in gang.uids or reservation.keeps_out(pod) or self.fills_in(pod):
                continue
            if node in self._nodes_of(gang):
                self._retry(gang)

    # --- pods that come later --------------------------------------------------------------------------------------

    def fills_in(self, pod: Pod) -> bool:
        """Whether a pod is known to end before room that is held is needed, so that it may use it meanwhile."""
        return any(
            self._ends(pod) <= gang.reservation.needed_s < NEVER_S
            for gang in self._reserved.values()
            if gang.reservation is not None
        )

    def behind(self, lane: Lane, first: Pod) -> Pod | None:
        """After the first of a lane was refused: the next behind it that may use what is held, as it ends in time."""
        if not self._reserved or lane.gang is not None or self.fills_in(first):
            return None
        return self._queue.find(lane, self.fills_in)

    # --- holds -----------------------------------------------------------------------------------------------------

    def _held(self, uid: Hashable, gang: _Waiting) -> HeldRoom | None:
        held = self._holds.get(uid)
        return held if held is not None and held.reservation is gang.reservation else None

    def _let_go(self, gang: _Waiting) -> set[str]:
        """The gang's members hold nothing; returns the nodes that they held."""
        nodes = self._nodes_of(gang)
        for uid in gang.uids:
            if self._held(uid, gang) is not None:
                self._holds.release(uid)
        gang.uids, gang.plan = [], None
        return nodes

    def _nodes_of(self, gang: _Waiting) -> set[str]:
        return {held.node for uid in gang.uids if (held := self._held(uid, gang)) is not None}

    def _release(self, gang: _Waiting, why: str) -> bool:
        """The gang has no reservation any more; whether somebody may use what it held."""
        if gang.reservation is None:
            return False
        nodes = self._let_go(gang)
        gang.reservation = None
        self._reserved.pop(gang.lane.key, None)
        if why:
            self._note(What.RELEASE, gang, why)
        return bool(nodes)

    def _note(self, what: What, gang: _Waiting, detail: str) -> None:
        journal = self._holds.journal
        if journal is not None and journal.is_read:
            first = self._queue.first_of(gang.lane)
            journal.note(what, pod="" if first is None else first.name, detail=detail)


def _when(plan: RoomPlan) -> str:
    return "which others have to leave first" if plan.needed_s == NEVER_S else f"free at {plan.needed_s:g} s"


def _noted(refusal: NoFit, note: str) -> NoRoomTogether:
    """The refusal, and what else there is to say of the gang."""
    ended = f"{refusal.ended}; {note}" if isinstance(refusal, NoRoomTogether) else note
    is_proved = isinstance(refusal, NoRoomTogether) and refusal.is_proved
    return NoRoomTogether(refusal.pod, refusal.node_count, refusal.reasons, ended, is_proved)
