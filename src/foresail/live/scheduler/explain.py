"""Why a pod of a real cluster stands where it stands, or what would become of it now."""

from __future__ import annotations

from dataclasses import dataclass

from foresail.core.asking import refusal
from foresail.core.explain import Explanation, explain
from foresail.core.model import Pod
from foresail.core.profile import Profile
from foresail.errors import InputError, OptionError, did_you_mean
from foresail.live.cache.cache import Cache
from foresail.live.cache.pods import CachedPod
from foresail.live.scheduler.learning import Lessons


@dataclass(frozen=True, slots=True)
class LiveExplained:
    """A decision about a pod as it would be made now, shown in full."""

    stands_on: str
    """The node it has, whose room was counted as free; empty for none."""
    rank: int | None
    """Place of that node among the feasible ones, 1 for the best; None if it is not feasible, or there is none."""
    refused: list[str]
    """Why that node is not feasible now."""
    notes: list[str]
    """What else keeps the pod from being placed like this."""
    decision: Explanation


def explain_live(
    cache: Cache, name: str, profile: Profile, *, namespace: str = "default", top: int = 5
) -> LiveExplained:
    """`name` is a pod's, with or without its namespace. A pod on a node is taken off it first, so look at the cache
    no further.
    """
    cached = find_pod(cache, name, namespace)
    pod = cache.as_waiting(cached.uid)
    if isinstance(pod, str):
        raise InputError(f"{cached.full_name} cannot be placed by anyone: {pod}")
    Lessons(cache).teach(profile)
    table = cache.table
    row = table.row_of.get(cached.node)
    if cached.uid in table.placed:
        table.forget(cached.uid)
    decision = explain(pod, table, profile, top=table.count if row is not None else top)
    rank = next(
        (at for at, one in enumerate(decision.candidates, start=1) if one.node == cached.node),
        None,
    )
    del decision.candidates[top:]
    refused = list(refusal(pod, table, profile, row)) if row is not None and rank is None else []
    return LiveExplained(cached.node, rank, refused, _notes(cached, pod), decision)


def find_pod(cache: Cache, name: str, namespace: str) -> CachedPod:
    """The pod that a user means by `name` or `namespace/name`."""
    wanted = name if "/" in name else f"{namespace}/{name}"
    known = {cached.full_name: cached for cached in cache.pods.values()}
    if wanted not in known:
        raise OptionError(f'no pod "{wanted}"{did_you_mean(wanted, known) or f"; the cluster has {len(known)} pods"}')
    return known[wanted]


def _notes(cached: CachedPod, pod: Pod) -> list[str]:
    notes = []
    if cached.ended:
        notes.append(f"it has ended ({cached.phase}) and holds no room")
    if cached.terminating:
        notes.append("it is being deleted")
    if cached.gated:
        notes.append("it is held back by scheduling gates")
    if pod.gang is not None:
        notes.append(f"it is one of gang {pod.gang.name} (at least {pod.gang.at_once} together), shown here alone")
    if cached.nominated_node:
        notes.append(f"others make room for it on {cached.nominated_node}")
    return notes
