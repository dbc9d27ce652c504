"""Room that pods hold on their nodes, as the API server says it, and which GPUs of a node each of them has."""

from __future__ import annotations

from collections.abc import Callable

from foresail.core.model import Placement, Pod
from foresail.core.policy import DeviceRule
from foresail.core.table import NodeTable
from foresail.core.volumes import TakenVolumes
from foresail.live.cache.devices import Devices
from foresail.live.cache.listener import Listeners
from foresail.live.cache.pods import CachedPod, as_held


class Bookings:
    """Books pods onto the nodes of a table and takes them off, and says where that frees room."""

    def __init__(
        self,
        table: NodeTable,
        rule: DeviceRule,
        *,
        pod_of: Callable[[CachedPod], Pod],
        volumes: TakenVolumes,
        listeners: Listeners,
    ) -> None:
        """`rule` guesses which GPUs a pod has that does not say; `pod_of` compiles a pod that is to be booked."""
        self._table = table
        self._devices = Devices(table, rule)
        self._pod_of = pod_of
        self._volumes = volumes
        self._listeners = listeners

    def guess_by(self, rule: DeviceRule) -> None:
        """Guess GPUs by another rule from now on, those guessed before too."""
        self._devices.use(rule)

    def is_guess(self, uid: str) -> bool:
        """Whether it is guessed which GPUs a pod has, be it that it does not say or that it cannot be believed."""
        return self._devices.is_guess(uid)

    def node_changed(self, node: str) -> None:
        self._devices.node_changed(node)

    def forget_nodes(self, nodes: list[str]) -> None:
        """The table has these nodes no longer."""
        self._devices.forget_nodes(nodes)

    def as_held(self, now: CachedPod, before: CachedPod | None) -> CachedPod:
        """The pod as it is to be booked where it stands: what it was given there is not given back by an edit."""
        if not now.stands or not (now.spec.gpu_count or before is not None):
            return now
        known = []
        if before is not None and before.stands and before.node == now.node:
            known.append((before.spec, before.devices))
        held = self._table.placed.get(now.uid)
        if held is not None and self._table.names[held.row] == now.node:
            decided = None if self._devices.has(now.uid) else held.devices
            known.append((held.pod.spec, decided))
        return as_held(now, *known)

    def book(self, cached: CachedPod) -> None:
        """Let a pod hold room on the node that the API server says it has."""
        table, uid = self._table, cached.uid
        row = table.row_of.get(cached.node)
        if row is None:
            self.leave(uid)
            return
        held = table.placed.get(uid)
        stays = held is not None and held.row == row
        # Decided here: which GPUs it has is known, whether or not the pod carries it.
        decided = held.devices if held is not None and stays and not self._devices.has(uid) else None
        same = held is not None and stays and held.pod.spec == cached.spec
        if same and (not cached.spec.gpu_count or decided is not None or self._devices.claim(uid) == cached.devices):
            return
        if held is not None:
            table.forget(uid)
            self._devices.forget(table.names[held.row], held.pod)
        pod = self._pod_of(cached)
        if pod.gpu_count and (decided is None or len(decided) != pod.gpu_count):
            self._devices.add(cached.node, pod, cached.devices, cached.created_s)
        else:
            table.assume(pod, Placement(row, cached.node, decided or ()))
            if pod.gpu_count:
                self._devices.renew(cached.node)
        if held is not None:
            self._listeners.room_freed(held.row)
        if not stays:
            self._listeners.pod_came(row)

    def leave(self, uid: str) -> None:
        """The pod holds nothing any more; one that held nothing is none to look for."""
        if uid not in self._table.placed:
            return
        took_volumes = uid in self._volumes.by_pod
        held = self._table.forget(uid)
        self._devices.forget(self._table.names[held.row], held.pod)
        if took_volumes:
            self._listeners.anything_changed()  # other nodes may reach what it gave back
        else:
            self._listeners.room_freed(held.row)
