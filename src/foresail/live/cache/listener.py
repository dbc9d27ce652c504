"""Whom the cache tells what changed."""

from __future__ import annotations

from foresail.core.model import Pod
from foresail.live.cache.pods import CachedPod


class Listener:
    """Who wants to know what changes in the cluster; overrides what it wants to hear of.

    It is told when the cache and its table are up to date, and may ask both.
    """

    # --- pods of ours that wait ------------------------------------------------------------------------------------

    def pod_waits(self, pod: Pod, cached: CachedPod) -> None:
        """A pod of ours wants a node; one that changed is told as gone first."""

    def pod_gone(self, uid: str) -> None:
        """A pod that waited was deleted, got gated, or stands on a node that somebody else chose."""

    def pod_bound(self, pod: Pod, cached: CachedPod) -> None:
        """Somebody else has bound a waiting pod. Told before its room is counted, unlike all the rest."""

    def pod_confirmed(self, cached: CachedPod) -> None:
        """A pod stands where we have put it, by the API server's word."""

    def pod_waits_for(self, cached: CachedPod, why: str) -> None:
        """A pod of ours cannot be placed before something else is there."""

    def pod_unreadable(self, cached: CachedPod, why: str) -> None:
        """A pod of ours asks for something that is no request."""

    # --- pods on nodes, whoever's they are -------------------------------------------------------------------------

    def running_changed(self, before: CachedPod | None, now: CachedPod | None) -> None:
        """A pod with a node has come (`before` is None, or had no node yet), has left or ended (`now` is None), or is
        another than it was: resized, annotated, labelled, on its way out.
        """

    # --- room ------------------------------------------------------------------------------------------------------

    def room_freed(self, row: int) -> None:
        """A node has more to offer: a pod has left or changed, or the node has."""

    def pod_came(self, row: int) -> None:
        """Somebody else has placed a pod; those that waited for its company may fit now."""

    def gang_changed(self, gang: str) -> None:
        """A member of a gang has got a node, or has left it; `Cache.placed_members` may be another number now."""

    def anything_changed(self) -> None:
        """Whoever waits may fit anywhere now. Rows noted before may mean other nodes, or none."""


class Listeners(Listener):
    """Several of them, told one after the other."""

    def __init__(self, *listeners: Listener) -> None:
        self._all = list(listeners)

    def add(self, listener: Listener) -> None:
        self._all.append(listener)

    def pod_waits(self, pod: Pod, cached: CachedPod) -> None:
        for one in self._all:
            one.pod_waits(pod, cached)

    def pod_gone(self, uid: str) -> None:
        for one in self._all:
            one.pod_gone(uid)

    def pod_bound(self, pod: Pod, cached: CachedPod) -> None:
        for one in self._all:
            one.pod_bound(pod, cached)

    def pod_confirmed(self, cached: CachedPod) -> None:
        for one in self._all:
            one.pod_confirmed(cached)

    def pod_waits_for(self, cached: CachedPod, why: str) -> None:
        for one in self._all:
            one.pod_waits_for(cached, why)

    def pod_unreadable(self, cached: CachedPod, why: str) -> None:
        for one in self._all:
            one.pod_unreadable(cached, why)

    def running_changed(self, before: CachedPod | None, now: CachedPod | None) -> None:
        for one in self._all:
            one.running_changed(before, now)

    def room_freed(self, row: int) -> None:
        for one in self._all:
            one.room_freed(row)

    def pod_came(self, row: int) -> None:
        for one in self._all:
            one.pod_came(row)

    def gang_changed(self, gang: str) -> None:
        for one in self._all:
            one.gang_changed(gang)

    def anything_changed(self) -> None:
        for one in self._all:
            one.anything_changed()
