"""Where a gang that does not fit now will fit first, and when: over what is free and what others leave.

Pods whose end is known leave in that order. Of the others those are expected to leave first that came last: who has run
for long will run for long, and a pod that never ends is some day older than all that do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from foresail.core.arranging import Arranging
from foresail.core.asking import Filters, Without
from foresail.core.domains import Domain, find_domain
from foresail.core.gang import Placements
from foresail.core.holds import Ends, Holds
from foresail.core.lane import NEVER_S
from foresail.core.model import Placement, Pod
from foresail.core.profile import Profile
from foresail.core.spec import Gang
from foresail.core.table import NodeTable, Placed

_FASTER = 4
"""So many times as many pods are thought away each time the gang does not fit."""


class RoomPlan(NamedTuple):
    """Where the members of a gang go once others have left."""

    placements: Placements
    needed_s: float
    """When they can: by then enough others have left; infinity if nobody knows."""


class RoomPlanner:
    """One plan for one gang; the table is afterwards as it was."""

    def __init__(self, gang: Gang, arranging: Arranging, profile: Profile, ends: Ends) -> None:
        self._gang, self._arranging, self._profile, self._ends = gang, arranging, profile, ends

    def find(self) -> RoomPlan | str:
        """The plan for which the fewest need to leave; or, in words, why there is none."""
        leaving = self._in_order_of_leaving()
        gone = 0
        with Without(self._arranging.table, ()) as away:

            def look(count: int) -> Placements:
                nonlocal gone
                for _, placed in leaving[gone:count]:
                    away.take_away(placed)
                for _, placed in leaving[count:gone]:
                    away.put_back(placed)
                gone = count
                return self._look()

            too_few, enough = 0, min(1, len(leaving))
            while not (found := look(enough)):
                if enough == len(leaving):
                    return self._why_never()
                too_few, enough = enough, min(_FASTER * enough, len(leaving))
            while enough - too_few > 1:
                between = (too_few + enough) // 2
                if placements := look(between):
                    found, enough = placements, between
                else:
                    too_few = between
        return RoomPlan(found, leaving[enough - 1][0] if enough else self._arranging.clock.now())

    def _look(self) -> Placements:
        """Where the members go as the table is now. Those that would only rather be close are not to wait for it."""
        if not self._gang.topology_required:
            return self._arranging.look(self._profile)
        domain = find_domain(self._gang, self._arranging, self._profile)
        if not isinstance(domain, Domain):
            return []
        try:
            return self._arranging.look(domain.profile)
        finally:
            domain.forget(self._arranging.table)

    def _why_never(self) -> str:
        if self._arranging.gave_up:
            return "whether its gang would fit on empty nodes took too long to find out, so no room is held for it"
        return "its gang would not fit on empty nodes either, so no room is held for it"

    def _in_order_of_leaving(self) -> list[tuple[float, Placed]]:
        """All who stand somewhere but for the gang's own, each with its end."""
        now_s, gang = self._arranging.clock.now(), self._arranging.members[0].group
        others = [placed for placed in self._arranging.table.placed.values() if placed.pod.group != gang]
        ends = [self._ends(placed.pod) for placed in others]
        # Who should have left by now tells nothing of when it will.
        timed = [(end_s if end_s > now_s else NEVER_S, placed) for end_s, placed in zip(ends, others, strict=True)]
        return sorted(timed, key=lambda one: (one[0], -one[1].pod.arrival_s))


def still_holds(plan: RoomPlan, table: NodeTable, profile: Profile, *, holds: Holds, leaving: Sequence[Placed]) -> bool:
    """Whether the members fit where they were planned, once these have left."""
    assumed: list[Pod] = []
    with Without(table, leaving):
        try:
            for pod, placement in plan.placements:
                row = table.row_of.get(placement.node)
                if row is None:
                    return False
                filters = Filters.of(profile).for_pod(pod, table)
                if not holds.lets(filters, pod, table, row, holds.holders(pod, table).get(row, ())):
                    return False
                if any(table.gpu_free[row, device] < pod.gpu_milli for device in placement.devices):
                    return False
                table.assume(pod, Placement(row, placement.node, placement.devices))
                assumed.append(pod)
        finally:
            for pod in reversed(assumed):
                table.forget(pod.uid)
    return True
