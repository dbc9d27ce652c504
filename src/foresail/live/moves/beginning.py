"""How a move begins: what speaks against it is found out, and what the next leader would need is put together."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from foresail.kube.api.client import Client
from foresail.live.cache.cache import Cache
from foresail.live.cache.pods import CachedPod
from foresail.live.moves.owners import obstacle
from foresail.live.moves.record import MovingPod
from foresail.live.moves.rooms import Rooms
from foresail.live.moves.subjects import Subject, look_at
from foresail.live.moves.successors import as_placed, to_be_made
from foresail.live.moves.surging import may_surge
from foresail.live.telemetry.jobs import job_of

NOT_RUNNING = "it is not running any more"
_GRACE_S = 30.0
"""What Kubernetes gives a pod that does not say."""


def id_of(pods: Sequence[CachedPod]) -> str:
    """The id of a move: the same whoever begins it, so that of two at once one finds that there is a record."""
    if len(pods) == 1:
        return pods[0].uid.lower()
    return sha256(",".join(sorted(pod.uid for pod in pods)).encode()).hexdigest()[:40]


async def moving_pods(api: Client, pods: Sequence[CachedPod], cache: Cache, rooms: Rooms) -> list[MovingPod] | str:
    """Pods as they are to be written down, or why they are not to be moved; asks for what the cache does not know."""
    moving = []
    for pod in pods:
        subject = await look_at(api, pod.namespace, pod.name)
        against = NOT_RUNNING if subject.pod["metadata"]["uid"] != pod.uid else obstacle(subject)
        target = rooms.node_of(pod.uid)
        if not against and not target:
            against = "the room that was held for it is gone"
        if against:
            return against
        # Room can be held for both at once only by the scheduler that places them, and a gang goes as a whole.
        surges = rooms.keeps and len(pods) == 1 and may_surge(subject)
        moving.append(_moving(pod, subject, cache, target, surges=surges))
    return moving


def _moving(pod: CachedPod, subject: Subject, cache: Cache, target: str, *, surges: bool) -> MovingPod:
    owner, above = pod.owner, subject.deployment
    siblings = tuple(
        one.uid
        for one in cache.pods.values()
        if owner is not None and one.owner == owner and one.namespace == pod.namespace and one.uid != pod.uid
    )
    return MovingPod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        job=job_of(pod),
        source=pod.node,
        target=target,
        expected=to_be_made(subject.pod) if owner is None else as_placed(subject.pod, subject.template),
        owner=None if owner is None else (owner.kind, owner.name, owner.uid),
        index=pod.completion_index,
        siblings=siblings,
        deployment=None if above is None or not surges else (above["metadata"]["name"], above["metadata"]["uid"]),
        grace_s=float(subject.pod["spec"].get("terminationGracePeriodSeconds", _GRACE_S)),
    )
