"""Pods that wait: by priority, then by time; asleep while nothing has happened that could help them.

Pods that request the same stand in one lane. Whether a pod fits depends on what it requests and on the nodes, so when
the first of a lane fits nowhere, the others need not be tried: the lane sleeps until something wakes it, and pods that
request something else pass it by. A gang is a lane of its own, which is ready once enough members stand in it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterator

from foresail.core.backoff import NO_BACKOFF, Backoff
from foresail.core.clock import Clock
from foresail.core.incomplete_gangs import IncompleteGangs
from foresail.core.lane import NEVER_S, Lane, Order
from foresail.core.model import Pod
from foresail.core.spec import Gang

CouldHelp = Callable[[Pod, int], bool]
"""Whether a pod would fit on the node at a row."""


class Queue:
    """All waiting pods. `pop` hands out the next lane's turn; `done` and `sleep` say how it went."""

    def __init__(
        self, clock: Clock, *, backoff: Backoff = NO_BACKOFF, incomplete_gangs: IncompleteGangs | None = None
    ) -> None:
        """With `incomplete_gangs`, `incomplete` names those whose members are to be told that they wait for others."""
        self.clock = clock
        self._backoff = backoff
        self._incomplete_gangs = incomplete_gangs
        self._lanes: dict[Hashable, Lane] = {}
        self._asleep: dict[Hashable, Lane] = {}
        self._woken_for_rows: dict[Hashable, Lane] = {}
        self._ready: list[tuple[Order, int, Lane]] = []
        self._backing_off: list[tuple[float, int, Lane]] = []
        self._deadlines: list[tuple[float, int, Lane]] = []
        self._waiting: dict[Hashable, tuple[int, Lane]] = {}
        self._sequence = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, uid: Hashable) -> bool:
        return uid in self._waiting

    def __iter__(self) -> Iterator[Pod]:
        """Waiting pods, lane by lane."""
        for lane in self._lanes.values():
            yield from self._in_order(lane)

    @property
    def has_sleepers(self) -> bool:
        """Whether there is anyone to wake, or to tell where else there is room."""
        return bool(self._asleep or self._woken_for_rows)

    @property
    def asleep_count(self) -> int:
        """Pods of lanes that fitted nowhere."""
        return sum(lane.waiting for lane in self._lanes.values() if lane.asleep)

    # --- coming and going ------------------------------------------------------------------------------------------

    def add(self, pod: Pod, *, again: bool = False) -> None:
        """Let a pod wait. `again`: it has had a node and lost it, so its gang has one member less in place."""
        if pod.uid in self._waiting:
            raise ValueError(f"{pod.name} is already waiting")
        lane = self._lane(pod)
        if again and lane.placed:
            lane.placed -= 1
        sequence = next(self._sequence)
        self._waiting[pod.uid] = (sequence, lane)
        heapq.heappush(lane.pods, ((-pod.priority, pod.arrival_s, sequence), pod))
        lane.waiting += 1
        # One more of a shape that fits nowhere is no news, but one more member may make a gang fit.
        if lane.gang is not None:
            self._open_to_all_nodes(lane)
            if lane.key in self._asleep:
                self._wake_lane(lane)
            self._count(lane)
        self._offer(lane)

    def remove(self, uid: Hashable) -> None:
        """Forget a waiting pod, for instance because it was deleted; one that does not wait is none to forget."""
        if uid in self._waiting:
            _, lane = self._waiting.pop(uid)
            lane.waiting -= 1
            self._count(lane)
            self._drop_if_over(lane)

    def same_lane(self, uid: Hashable) -> list[Pod]:
        """All who wait in the same lane as a waiting pod, in their order: whatever refuses one refuses them all."""
        return self._in_order(self._waiting[uid][1])

    def sleeps(self, uid: Hashable) -> bool:
        """Whether the pod's lane fitted nowhere and waits for something to happen."""
        return self._waiting[uid][1].asleep

    def first(self, uid: Hashable) -> Pod:
        """Who stands first in the lane of a waiting pod."""
        return self._head(self._waiting[uid][1])[1]

    def first_of(self, lane: Lane) -> Pod | None:
        """Who stands first in a lane; None if nobody waits there."""
        return self._head(lane)[1] if lane.waiting else None

    def place_of(self, pod: Pod) -> tuple[int, float]:
        """A pod's place in line: by priority, then by arrival; a member of a gang stands where its first one does."""
        waits = self._waiting.get(pod.uid)
        if waits is None or waits[1].gang is None:
            return -pod.priority, pod.arrival_s
        return self._head(waits[1])[0][:2]

    def order_of(self, lane: Lane) -> Order:
        """The place in line of a lane in which somebody waits: that of its first pod."""
        return self._head(lane)[0]

    def find(self, lane: Lane, is_wanted: Callable[[Pod], bool]) -> Pod | None:
        """The first in a lane, in their order, of whom this is so."""
        wanted = [entry for entry in lane.pods if self._is_live(entry) and is_wanted(entry[1])]
        return min(wanted, key=lambda entry: entry[0])[1] if wanted else None

    def retry(self, uid: Hashable) -> None:
        """Give the lane of a waiting pod a turn: this pod may get what another of the lane could not."""
        lane = self._waiting[uid][1]
        # A lane that was woken for one node alone may fit elsewhere, too.
        self._open_to_all_nodes(lane)
        if lane.key in self._asleep:
            self._wake_lane(lane)

    def restart(self, gang: Gang) -> None:
        """The gang has lost its start: it must find room together anew, and its timeout counts from now."""
        lane = self._lanes.get(("gang", gang.name))
        if lane is not None and lane.started:
            lane.started = lane.placed >= gang.at_once
            lane.offered = None
            self._set_deadline(lane, gang)
            self._count(lane)
            self._offer(lane)

    def members_placed(self, gang: Gang, count: int) -> None:
        """So many members of a gang have their node, as is found on a cluster; the gang may ask for more or less now.

        With none placed and none waiting the gang is forgotten.
        """
        lane = self._lanes.get(("gang", gang.name))
        if lane is None:
            if not count:
                return
            lane = self._gang_lane(gang)
        lane.gang = gang
        lane.placed = count
        lane.started = lane.started or count >= gang.at_once
        self._count(lane)
        self._drop_if_over(lane)
        if lane.waiting:
            self._open_to_all_nodes(lane)
            if lane.key in self._asleep:
                self._wake_lane(lane)
            self._offer(lane)

    def _count(self, lane: Lane) -> None:
        """The members of a gang, or how many it needs, have become others."""
        if self._incomplete_gangs is not None and lane.gang is not None:
            self._incomplete_gangs.count(lane)

    def _lane(self, pod: Pod) -> Lane:
        key: Hashable = pod.shape if pod.gang is None else ("gang", pod.gang.name)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key, None) if pod.gang is None else self._gang_lane(pod.gang)
        return lane

    def _gang_lane(self, gang: Gang) -> Lane:
        lane = self._lanes["gang", gang.name] = Lane(("gang", gang.name), gang)
        self._set_deadline(lane, gang)
        return lane

    def _set_deadline(self, lane: Lane, gang: Gang) -> None:
        lane.deadline_s = self.clock.now() + gang.timeout_s
        heapq.heappush(self._deadlines, (lane.deadline_s, next(self._sequence), lane))

    def _drop_if_over(self, lane: Lane) -> None:
        """Forget a lane in which nobody waits, unless it must remember that its gang has begun."""
        if not lane.waiting and not lane.placed:
            self._drop(lane)

    def _drop(self, lane: Lane) -> None:
        lane.offered = None
        self._lanes.pop(lane.key, None)
        self._asleep.pop(lane.key, None)
        self._woken_for_rows.pop(lane.key, None)

    # --- turns -----------------------------------------------------------------------------------------------------

    def pop(self, could_help: CouldHelp | None = None) -> tuple[Lane, list[Pod]] | None:
        """The lane whose turn it is and the pods to place: one, or all present members of a gang. They keep waiting
        until `done` or `sleep` says how it went.

        With `could_help` a woken lane for which others have left no room goes back to sleep without a turn.
        """
        self._end_backoffs()
        while self._ready:
            order, _, lane = heapq.heappop(self._ready)
            if order != lane.offered:
                continue  # the lane has moved on since this entry was made
            lane.offered = None
            if not lane.is_ready:
                continue
            if self._head(lane)[0] != order:
                self._offer(lane)  # its first pod was removed; the next one may have to let others pass
                continue
            if could_help is not None and not self._may_fit(lane, could_help):
                self._fall_asleep(lane)
                continue
            return lane, [lane.pods[0][1]] if lane.gang is None else self._in_order(lane)
        return None

    def done(self, lane: Lane, placed: list[Pod]) -> None:
        """These pods of the lane have their node; the next of the lane may follow."""
        for pod in placed:
            del self._waiting[pod.uid]
        lane.waiting -= len(placed)
        lane.failures = 0
        if lane.gang is not None:
            lane.placed += len(placed)
            lane.started = lane.started or lane.placed >= lane.gang.at_once
            self._count(lane)
        if lane.waiting:
            self._offer(lane)
        else:
            lane.pods.clear()
            self._drop_if_over(lane)

    def sleep(self, lane: Lane) -> None:
        """The lane's turn found no room: let it sleep until something wakes it, and at least for its backoff."""
        if not lane.waiting:
            return
        lane.failures += 1
        lane.not_before_s = self.clock.now() + self._backoff.pause_s(lane.failures)
        self._fall_asleep(lane)

    def _fall_asleep(self, lane: Lane) -> None:
        lane.asleep = True
        lane.woken = False
        lane.offered = None
        self._woken_for_rows.pop(lane.key, None)
        self._asleep[lane.key] = lane

    def wake(self, row: int, could_help: CouldHelp | None = None) -> None:
        """Room has become free at a row: wake the sleeping lanes with a pod that it could help."""
        for lane in self._woken_for_rows.values():
            if lane.freed_rows is not None:
                lane.freed_rows[row] = None
        for lane in list(self._asleep.values()):
            if could_help is None or any(could_help(pod, row) for pod in self._one_of_each_shape(lane)):
                lane.freed_rows = {row: None}
                self._woken_for_rows[lane.key] = lane
                self._wake_lane(lane)

    def wake_all(self) -> None:
        """Something happened that may help anyone anywhere."""
        for lane in list(self._woken_for_rows.values()):
            self._open_to_all_nodes(lane)
        for lane in list(self._asleep.values()):
            self._open_to_all_nodes(lane)
            self._wake_lane(lane)

    def _open_to_all_nodes(self, lane: Lane) -> None:
        """The lane may fit anywhere, not only where room has become free."""
        lane.freed_rows = None
        self._woken_for_rows.pop(lane.key, None)

    def _may_fit(self, lane: Lane, could_help: CouldHelp) -> bool:
        """Whether there is still room for a pod of the lane where room has become free; elsewhere there was none."""
        return lane.freed_rows is None or any(
            could_help(pod, row) for pod in self._one_of_each_shape(lane) for row in lane.freed_rows
        )

    def _one_of_each_shape(self, lane: Lane) -> list[Pod]:
        """One waiting pod for each shape in the lane."""
        if lane.gang is None:
            return [self._head(lane)[1]]
        return list({pod.shape: pod for _, pod in lane.pods if pod.uid in self._waiting}.values())

    def _wake_lane(self, lane: Lane) -> None:
        self._asleep.pop(lane.key, None)
        if lane.not_before_s > self.clock.now():
            lane.woken = True
            heapq.heappush(self._backing_off, (lane.not_before_s, next(self._sequence), lane))
            return
        lane.asleep = False
        lane.woken = False
        self._offer(lane)

    def _end_backoffs(self) -> None:
        now_s = self.clock.now()
        while self._backing_off and self._backing_off[0][0] <= now_s:
            entry = heapq.heappop(self._backing_off)
            if self._is_backing_off(entry):
                self._wake_lane(entry[2])

    def _offer(self, lane: Lane) -> None:
        """Put the lane among the ready ones under its first pod's order, unless it stands there already."""
        if lane.is_ready:
            order, _ = self._head(lane)
            if order != lane.offered:
                lane.offered = order
                heapq.heappush(self._ready, (order, next(self._sequence), lane))

    def _head(self, lane: Lane) -> tuple[Order, Pod]:
        """The first entry of a pod that still waits; there must be one."""
        while not self._is_live(lane.pods[0]):
            heapq.heappop(lane.pods)
        return lane.pods[0]

    def _is_live(self, entry: tuple[Order, Pod]) -> bool:
        """Whether the pod still waits in this place; it may have been removed and added again."""
        (_, _, sequence), pod = entry
        waits = self._waiting.get(pod.uid)
        return waits is not None and waits[0] == sequence

    def _in_order(self, lane: Lane) -> list[Pod]:
        return [entry[1] for entry in sorted(lane.pods, key=lambda entry: entry[0]) if self._is_live(entry)]

    # --- time ------------------------------------------------------------------------------------------------------

    def next_time_s(self) -> float:
        """When the queue next needs a look although nothing happens: a backoff ends or a gang's patience does, or a
        gang is to be told that it is incomplete.
        """
        while self._backing_off and not self._is_backing_off(self._backing_off[0]):
            heapq.heappop(self._backing_off)
        while self._deadlines and not self._is_due(self._deadlines[0]):
            heapq.heappop(self._deadlines)
        return min(
            self._backing_off[0][0] if self._backing_off else NEVER_S,
            self._deadlines[0][0] if self._deadlines else NEVER_S,
            NEVER_S if self._incomplete_gangs is None else self._incomplete_gangs.next_time_s(),
        )

    def incomplete(self) -> list[tuple[Gang, list[Pod], int]]:
        """Gangs whose members are to be told now that they wait for same_lane, and for how many more."""
        lanes = () if self._incomplete_gangs is None else self._incomplete_gangs.due()
        return [
            (lane.gang, self._in_order(lane), lane.missing - lane.waiting) for lane in lanes if lane.gang is not None
        ]

    def give_up(self) -> list[tuple[Gang, list[Pod], int]]:
        """Take out the gangs whose timeout has passed; return each with its waiting members and how many were short
        of what it needs.
        """
        given_up = []
        now_s = self.clock.now()
        while self._deadlines and self._deadlines[0][0] <= now_s:
            entry = heapq.heappop(self._deadlines)
            lane = entry[2]
            if lane.gang is None or not self._is_due(entry):
                continue
            members = self._in_order(lane)
            short = max(0, lane.missing - len(members))
            for pod in members:
                del self._waiting[pod.uid]
            lane.waiting = 0
            self._count(lane)
            self._drop(lane)
            if members:
                given_up.append((lane.gang, members, short))
        return given_up

    def _is_backing_off(self, entry: tuple[float, int, Lane]) -> bool:
        time_s, _, lane = entry
        return lane.woken and lane.not_before_s == time_s and self._lanes.get(lane.key) is lane

    def _is_due(self, entry: tuple[float, int, Lane]) -> bool:
        """Whether this is still when the gang is to be given up: it waits, has not started, nor begun to wait anew."""
        time_s, _, lane = entry
        return not lane.started and lane.deadline_s == time_s and self._lanes.get(lane.key) is lane
