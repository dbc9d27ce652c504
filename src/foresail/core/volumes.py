"""Volumes that a decision counts on: taken as soon as the pod has its node, long before the cluster says so."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from foresail.core.objects import Claim, Volume

if TYPE_CHECKING:
    from foresail.core.model import Pod
    from foresail.core.table import NodeTable

ClaimKey = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """Where the volumes of a pod's unbound claims come from on one node."""

    static: tuple[tuple[Claim, Volume], ...] = ()
    """Claims with the free volume that each gets."""
    dynamic: tuple[Claim, ...] = ()
    """Claims whose volume is to be made there."""

    def __bool__(self) -> bool:
        return bool(self.static or self.dynamic)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (*(claim for claim, _ in self.static), *self.dynamic)


Planner = Callable[["Pod", "NodeTable", int], VolumePlan]
"""What a pod's claims get on the node of a row."""


class VolumeTaking(Protocol):
    """Who keeps the books of taken volumes; the table tells it of pods that come and go."""

    def take(self, pod: Pod, row: int) -> None:
        """The pod has been booked onto a node; what its claims get there is nobody else's from now on."""

    def give_back(self, uid: Hashable) -> None:
        """The pod has left its node, or never came."""


def _nobody() -> None:
    pass


@dataclass(slots=True)
class Taken:
    """What one pod has taken."""

    node: str
    plan: VolumePlan
    is_over: bool = False
    """The pod has lost its node."""
    on_news: Callable[[], None] = _nobody
    """Is called when one of the claims has changed, and when it is over."""


class TakenVolumes:
    """Shows taken volumes and claims in the table's objects as they will be once the cluster has carried it out.

    An object that is told anew while it is taken, and lacks what was decided, is old news or has changed in some other
    way: it stays taken. One that belongs to another claim or node by now is the truth. Several pods may take one claim.
    """

    def __init__(self, table: NodeTable, plan: Planner, *, takes: Callable[[Pod], bool] = lambda _: True) -> None:
        """`takes`: whether a pod that is booked has its node by a decision made here, and so needs its volumes."""
        self.by_pod: dict[Hashable, Taken] = {}
        self._table = table
        self._plan = plan
        self._takes = takes
        self._volumes: dict[str, dict[Hashable, tuple[str, str, str]]] = {}
        """Volume to who has taken it, with namespace, name and uid of the claim it is for."""
        self._claims: dict[ClaimKey, dict[Hashable, str]] = {}
        """Claim to who has taken it, with the node where its volume is to be made."""
        self._told_volumes: dict[str, Volume] = {}
        self._told_claims: dict[ClaimKey, Claim] = {}
        self._interested: dict[ClaimKey, dict[Hashable, None]] = {}

    # --- pods ------------------------------------------------------------------------------------------------------

    def take(self, pod: Pod, row: int) -> None:
        if not self._takes(pod):
            return
        table, uid = self._table, pod.uid
        plan = self._plan(pod, table, row)
        if not plan:
            return
        self.by_pod[uid] = taken = Taken(table.names[row], plan)
        for claim, volume in plan.static:
            self._told_volumes.setdefault(volume.name, volume)
            self._volumes.setdefault(volume.name, {})[uid] = (claim.namespace, claim.name, claim.uid)
            self._show_volume(volume.name)
        for claim in plan.dynamic:
            self._told_claims.setdefault(_key(claim), claim)
            self._claims.setdefault(_key(claim), {})[uid] = taken.node
            self._show_claim(_key(claim))
        for claim in plan.claims:
            self._interested.setdefault(_key(claim), {})[uid] = None
        table.objects_changed()

    def give_back(self, uid: Hashable) -> None:
        taken = self.by_pod.pop(uid, None)
        if taken is None:
            return
        self._withdraw(uid, taken)
        taken.is_over = True
        taken.on_news()

    def finish(self, uid: Hashable) -> None:
        """All is as decided, and the cluster has told so: nothing of it is this pod's alone to give back."""
        taken = self.by_pod.pop(uid, None)
        if taken is not None:
            self._withdraw(uid, taken)

    def settle(self, uid: Hashable) -> None:
        """The cluster has bound what the pod took; for worlds where nobody else would tell."""
        taken, objects = self.by_pod.get(uid), self._table.objects
        if taken is None:
            return
        for claim, volume in taken.plan.static:
            self.volume_carried(uid, volume.name)
            kept_for = (claim.namespace, claim.name, claim.uid)
            objects.volumes[volume.name] = replace(volume, claim=kept_for, phase="Bound")
            objects.claims[_key(claim)] = replace(claim, volume=volume.name, bound=True, phase="Bound")
        if taken.plan.static:
            self._table.objects_changed()

    def _withdraw(self, uid: Hashable, taken: Taken) -> None:
        for _, volume in taken.plan.static:
            self.volume_carried(uid, volume.name)
        for claim in taken.plan.dynamic:
            self.claim_carried(uid, _key(claim))
        for claim in taken.plan.claims:
            interested = self._interested.get(_key(claim), {})
            interested.pop(uid, None)
            if not interested:
                self._interested.pop(_key(claim), None)
        self._table.objects_changed()

    # --- objects ---------------------------------------------------------------------------------------------------

    def volume_told(self, name: str) -> None:
        """The table's objects have this volume as the cluster has it now, or have it no longer."""
        if name in self._volumes:
            told = self._table.objects.volumes.get(name)
            if told is None:
                del self._volumes[name], self._told_volumes[name]
            else:
                self._told_volumes[name] = told
                self._show_volume(name)

    def claim_told(self, key: ClaimKey) -> None:
        """The same for a claim."""
        if key in self._claims:
            told = self._table.objects.claims.get(key)
            if told is None:
                del self._claims[key], self._told_claims[key]
            else:
                self._told_claims[key] = told
                self._show_claim(key)
        for uid in list(self._interested.get(key, ())):
            self.by_pod[uid].on_news()

    def volume_carried(self, uid: Hashable, name: str) -> None:
        """What the cluster says of the volume holds from now on, as far as this pod is concerned."""
        holders = self._volumes.get(name)
        if holders is not None and holders.pop(uid, None) is not None:
            self._show_volume(name)
            if not holders:
                del self._volumes[name], self._told_volumes[name]

    def claim_carried(self, uid: Hashable, key: ClaimKey) -> None:
        """The same for a claim."""
        holders = self._claims.get(key)
        if holders is not None and holders.pop(uid, None) is not None:
            self._show_claim(key)
            if not holders:
                del self._claims[key], self._told_claims[key]

    def _show_volume(self, name: str) -> None:
        told, holders = self._told_volumes[name], self._volumes[name]
        kept_for = next(iter(holders.values()), None)
        # One that its owner keeps for a claim may name it without the uid.
        if kept_for is not None and (told.claim is None or told.claim == (*kept_for[:2], "")):
            told = replace(told, claim=kept_for)
        self._table.objects.volumes[name] = told

    def _show_claim(self, key: ClaimKey) -> None:
        told, holders = self._told_claims[key], self._claims[key]
        node = next(iter(holders.values()), "")
        if node and not told.selected_node and not told.volume:
            told = replace(told, selected_node=node)
        self._table.objects.claims[key] = told


def _key(claim: Claim) -> ClaimKey:
    return claim.namespace, claim.name
