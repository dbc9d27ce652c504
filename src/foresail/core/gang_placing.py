"""The turn of a gang: close together if it says so, one pass by the profile, then a search, then room kept for it."""

from __future__ import annotations

from foresail.core.arranging import Arranging
from foresail.core.domains import Domain, find_domain, home_of
from foresail.core.gang import Placements, Questions, place_gang
from foresail.core.gang_search import GangSearch, NoRoomTogether, SearchLimits
from foresail.core.holds import Holds
from foresail.core.lane import Lane
from foresail.core.model import Declined, NoFit, Pod
from foresail.core.profile import Profile
from foresail.core.queue import Queue
from foresail.core.reservations import Reservations
from foresail.core.spec import Gang
from foresail.core.table import NodeTable


class GangPlacing:
    """How the scheduler finds room for gangs; it binds them, or tells them why not."""

    def __init__(self, queue: Queue, holds: Holds, limits: SearchLimits, reservations: Reservations | None) -> None:
        self._queue, self._holds, self._limits = queue, holds, limits
        self._reservations = reservations
        self.domain: Domain | None = None
        """Where the gang whose turn it is must go; None for anywhere."""

    def place(
        self, lane: Lane, gang: Gang, pods: list[Pod], table: NodeTable, profile: Profile
    ) -> Questions[tuple[Placements, NoFit | None]]:
        """Assume as many members as start now; and say why others do not."""
        placed: Placements = []
        refusal = self._enter_domain(lane, gang, pods, table, profile) if gang.topology else None
        try:
            if refusal is None:
                within = profile if self.domain is None else self.domain.profile
                placed, refusal = yield from place_gang(pods, table, within, missing=lane.missing)
                if not placed and refusal is not None and not isinstance(refusal, Declined):
                    placed, refusal = self._search(lane, pods, refusal, table, within)
        finally:
            if self.domain is not None:
                self.domain.forget(table)
                self.domain = None
        if self._reservations is None or refusal is None or isinstance(refusal, Declined) or placed:
            return placed, refusal
        if not lane.lacking:
            return placed, refusal  # members beyond the minimum wait like any other pod
        return placed, self._reservations.refused(lane, pods, refusal, table, profile)

    def _enter_domain(
        self, lane: Lane, gang: Gang, pods: list[Pod], table: NodeTable, profile: Profile
    ) -> NoFit | None:
        """Decide among the nodes of one domain from now on, if there is one for the gang; or say why there is none."""
        if not lane.missing:
            self.domain = home_of(gang, pods[0].group, table, profile)
            return None
        looks = Arranging(
            pods, table, missing=lane.missing, holds=self._holds, clock=self._queue.clock, limits=self._limits
        )
        found = find_domain(gang, looks, profile)
        self.domain = found if isinstance(found, Domain) else None
        return found if isinstance(found, NoFit) else None

    def _search(
        self, lane: Lane, members: list[Pod], refusal: NoFit, table: NodeTable, profile: Profile
    ) -> tuple[Placements, NoFit | None]:
        """A gang that one pass did not place may fit in another arrangement: then assume as many as must start
        together. The others have their turn after them.
        """
        search = GangSearch(
            members,
            table,
            profile,
            missing=lane.missing,
            holds=self._holds,
            clock=self._queue.clock,
            limits=self._limits,
        )
        if not search.is_worthwhile:
            return [], refusal
        found = search.find(refusal)
        if isinstance(found, NoRoomTogether):
            return [], found
        for pod, placement in found:
            table.assume(pod, placement)
        return found, None
