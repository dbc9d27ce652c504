"""Gangs are moved whole or not at all: who goes along with a member that is to be moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from foresail.live.cache.cache import Cache
from foresail.live.cache.gangs import gang_name
from foresail.live.cache.pods import CachedPod, Owner
from foresail.live.moves.rooms import Rooms
from foresail.live.moves.successors import freed


def whole_gang(pod: CachedPod, cache: Cache, is_ours: Callable[[str], bool]) -> list[CachedPod] | str:
    """All members of a pod's gang, itself first, or why they cannot be moved together; alone, if it has no gang."""
    if pod.gang is None:
        return [pod]
    name = gang_name(pod.gang)
    # Those that have ended do not come back.
    members = [one for one in cache.members(name) if not one.ended]
    for one in members:
        if one.terminating:
            return f"{one.full_name} of its gang {name} is being deleted"
        if not one.node:
            return f"its gang {name} is not whole: {one.full_name} has no node"
        if not is_ours(one.uid):
            return f"{one.full_name} of its gang {name} is placed by {one.scheduler_name}"
    alike = _alike(members)
    if alike is not None:
        return (
            f"{alike.kind} {alike.name} of its gang {name} has pods that nothing tells apart, so nobody knows whose "
            "place a successor takes"
        )
    return [pod, *(one for one in members if one.uid != pod.uid)]


def _alike(members: Sequence[CachedPod]) -> Owner | None:
    """An owner of several members that have neither a number nor a name of their own."""
    counts = Counter(
        (one.owner, one.completion_index)
        for one in members
        if one.owner is not None and one.owner.kind != "StatefulSet"
    )
    return next((owner for (owner, _), count in counts.items() if count > 1), None)


def hold_together(rooms: Rooms, pods: Sequence[CachedPod], node: str, cache: Cache, for_s: float, why: str) -> str:
    """Hold room for pods that go together, the first on a node and the others near it; says why there is none for
    one of them, and holds nothing then.
    """

    def hold(pod: CachedPod, name: str) -> str:
        return rooms.hold(
            pod.uid, name, for_s, why, successor=cache.as_if(pod, freed(pod.spec, pod.annotations)), beside=False
        )

    def hold_near(pod: CachedPod) -> str:
        """On the same node, or where the policy says; if that is where it stands, on any other."""
        refused = hold(pod, node) and hold(pod, "")
        if not refused or not _is_where_it_stands(refused):
            return refused
        return refused if all(hold(pod, name) for name in cache.table.names) else ""

    for at, pod in enumerate(pods):
        against = hold(pod, node) if at == 0 else hold_near(pod)
        if against:
            for held in pods[:at]:
                rooms.release(held.uid)
            return against if at == 0 else f"{pod.full_name} of its gang cannot go along: {against}"
    return ""


def _is_where_it_stands(refused: str) -> bool:
    return refused.startswith("it stands on ")
