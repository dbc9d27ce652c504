"""Whom the cache tells what changed."""

from __future__ import annotations

from typing import Protocol

from foresail.core.model import Pod
from foresail.live.cache.pods import CachedPod


class Listener(Protocol):
    """Who places the waiting pods, and so wants to know what changed.

    It is told when the cache and its table are up to date, and may ask both.
    """

    def pod_waits(self, pod: Pod, cached: CachedPod) -> None:
        """A pod of ours wants a node; one that changed is told as gone first."""

    def pod_gone(self, uid: str) -> None:
        """A pod that waited was deleted, got gated, or stands on a node that somebody else chose."""

    def pod_bound(self, pod: Pod, cached: CachedPod) -> None:
        """Somebody else has bound a waiting pod. Told before its room is counted, unlike all the rest."""

    def pod_waits_for(self, cached: CachedPod, why: str) -> None:
        """A pod of ours cannot be placed before something else is there."""

    def pod_unreadable(self, cached: CachedPod, why: str) -> None:
        """A pod of ours asks for something that is no request."""

    def room_freed(self, row: int) -> None:
        """A node has more to offer: a pod has left or changed, or the node has."""

    def pod_came(self, row: int) -> None:
        """Somebody else has placed a pod; those that waited for its company may fit now."""

    def gang_changed(self, gang: str) -> None:
        """A member of a gang has got a node, or has left it; `Cache.placed_members` may be another number now."""

    def anything_changed(self) -> None:
        """Whoever waits may fit anywhere now. Rows noted before may mean other nodes, or none."""


class Bystander:
    """A listener that places nobody; those that want to know a little override it."""

    def pod_waits(self, pod: Pod, cached: CachedPod) -> None: ...

    def pod_gone(self, uid: str) -> None: ...

    def pod_bound(self, pod: Pod, cached: CachedPod) -> None: ...

    def pod_waits_for(self, cached: CachedPod, why: str) -> None: ...

    def pod_unreadable(self, cached: CachedPod, why: str) -> None: ...

    def room_freed(self, row: int) -> None: ...

    def pod_came(self, row: int) -> None: ...

    def gang_changed(self, gang: str) -> None: ...

    def anything_changed(self) -> None: ...
