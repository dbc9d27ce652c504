"""SURGE and SHRINK: the pod of a one-replica Deployment stays until its successor is ready beside it.

The Deployment is given a second replica; when that is ready, the old pod is said to be the first to go and the replica
is taken back. Whether the second replica is ours stands in the Deployment itself, by its field manager. Somebody who
scales it meanwhile has the last word, and the move is undone.
"""

from __future__ import annotations

import msgspec

from foresail.kube.api.client import Object
from foresail.kube.api.errors import ClusterError
from foresail.live.actions.scaling import DELETION_COST, FIRST_TO_GO, is_scaled_by, replicas_of
from foresail.live.cache.pods import CachedPod
from foresail.live.moves.leaving import against
from foresail.live.moves.record import MovePhase, MoveRecord, MovingPod
from foresail.live.moves.replacing import find_successor, give_room
from foresail.live.moves.subjects import Subject
from foresail.live.moves.tools import MoveTools
from foresail.logs import get_logger

_ONE_NODE = frozenset({"awsElasticBlockStore", "azureDisk", "cinder", "fc", "gcePersistentDisk", "iscsi", "rbd"})
"""Volumes named in the pod itself that one node has at a time."""


def may_surge(subject: Subject) -> bool:
    """Whether the successor may be up beside the pod: its Deployment and its volumes agree to two, and it is ready, so
    that there is something not to interrupt.
    """
    deployment, owner = subject.deployment, subject.owner
    if deployment is None or owner is None or "deletionTimestamp" in deployment["metadata"]:
        return False
    spec, status = deployment.get("spec") or {}, deployment.get("status") or {}
    strategy = spec.get("strategy") or {}
    allows_two = strategy.get("type", "RollingUpdate") == "RollingUpdate" and (
        (strategy.get("rollingUpdate") or {}).get("maxSurge") not in {0, "0%"}
    )
    observed = status.get("observedGeneration") == deployment["metadata"].get("generation")
    is_at_rest = observed and not spec.get("paused") and status.get("replicas", 1) == 1
    is_one = replicas_of(deployment) == 1 and replicas_of(owner) == 1
    inline = any(_ONE_NODE & volume.keys() for volume in subject.pod["spec"].get("volumes") or ())
    keeps_apart = subject.is_on_one_node_at_a_time or inline
    return allows_two and is_at_rest and is_one and not keeps_apart and _is_ready(subject.pod)


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one.get("status") == "True" for one in conditions)


async def surge(record: MoveRecord, tools: MoveTools) -> MoveRecord | None:
    """Ask for a second replica, and wait until it is ready in its room."""
    (pod,) = record.pods
    while True:
        tools.check_lead()
        successor = find_successor(pod, tools)
        if tools.running(pod.uid) is None:
            # It goes already, and its owner makes one in its place; the replica is taken back.
            return record.to(MovePhase.SHRINK, tools.now_s())
        refused = against(record, tools) if successor is None and not pod.successor else ""
        try:
            refused = refused or await _second_wanted(pod, record, tools)
        except ClusterError as error:
            get_logger().info("no_second_replica", pod=pod.full_name, error=str(error))
            alone = record.with_pods((msgspec.structs.replace(pod, deployment=None),))
            return alone.to(MovePhase.EVICT, tools.now_s(), has_surged=False)
        if refused:
            return tools.undone(record, refused)
        known = "" if successor is None else successor.uid
        if known != pod.successor:
            return record.with_pods((msgspec.structs.replace(pod, successor=known),))
        if successor is not None:
            give_room(successor, pod, record, tools)
            if await _found_ready(successor, tools):
                return record.to(MovePhase.SHRINK, tools.now_s())
        if tools.now_s() >= record.phase_s + tools.settings.resume_s:
            said = f"its successor was not ready beside it within {tools.settings.resume_s:g} s"
            return tools.undone(record, said)
        await tools.look()


async def _found_ready(successor: CachedPod, tools: MoveTools) -> bool:
    if not successor.node or successor.phase != "Running":
        return False
    found = await tools.mover.find(successor.namespace, successor.name)
    return found is not None and found["metadata"]["uid"] == successor.uid and _is_ready(found)


async def _second_wanted(pod: MovingPod, record: MoveRecord, tools: MoveTools) -> str:
    """See that the Deployment wants a second replica, for this move; says why it does not. Raises what it is refused
    with, such as a missing right.
    """
    while True:
        found = await _deployment(pod, tools)
        if found is None:
            return "its Deployment is gone"
        count, ours = replicas_of(found), is_scaled_by(found, _manager(record))
        if ours and count == 2:
            return ""
        if count != 1 or pod.successor:
            return f"somebody else scaled its Deployment to {count}"
        tools.check_lead()
        await tools.scaler.scale(found, 2, _manager(record))


async def shrink(record: MoveRecord, tools: MoveTools) -> MoveRecord | None:
    """Take the second replica back, so that the old pod goes."""
    (pod,) = record.pods
    while True:
        tools.check_lead()
        found = await _deployment(pod, tools)
        is_there = tools.running(pod.uid) is not None
        if found is not None and is_scaled_by(found, _manager(record)):
            if is_there:
                await tools.scaler.say_who_goes(pod)
            tools.check_lead()
            await tools.scaler.scale(found, 1, _AFTERWARDS)
            continue
        if not is_there:
            return record.to(MovePhase.REPLACE, tools.now_s())
        if find_successor(pod, tools) is None:
            return tools.undone(record, "its successor was taken away, and not the pod itself")
        if tools.now_s() >= record.phase_s + tools.settings.budget_s:
            return tools.undone(record, "somebody else scaled its Deployment, and both pods stay")
        await tools.look()


async def take_back(pod: MovingPod, record: MoveRecord, tools: MoveTools) -> None:
    """Undo a surge: the successor is the one to go, and the replica is taken back, if it is still ours."""
    while True:
        found = await _deployment(pod, tools)
        if found is None:
            return
        tools.check_lead()
        if is_scaled_by(found, _manager(record)):
            successor = find_successor(pod, tools)
            if successor is not None:
                await tools.scaler.say_who_goes(successor)
            if await tools.scaler.scale(found, 1, _AFTERWARDS):
                break
        elif await tools.scaler.call_off(found, _AFTERWARDS):
            break  # one that was asked for by a leader before might arrive yet
    old = await tools.mover.find(pod.namespace, pod.name)
    if old is not None and (old["metadata"].get("annotations") or {}).get(DELETION_COST) == FIRST_TO_GO:
        await tools.scaler.say_who_goes(pod, goes=False)


_AFTERWARDS = "foresail"


def _manager(record: MoveRecord) -> str:
    return f"foresail-{record.id}"


async def _deployment(pod: MovingPod, tools: MoveTools) -> Object | None:
    name, uid = pod.deployment or ("", "")
    return await tools.scaler.read(pod.namespace, name, uid)
