"""REPLACE: the pod goes or has gone; its successor is waited for, or made, until it has a node.

There is no way back from here. What an owner does not do in time is told. A pod that nobody else makes is made here,
for as long as it takes: the record of the move is the only copy of it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from foresail.kube.api.client import Object
from foresail.kube.api.errors import ClusterError, Forbidden, NotFound
from foresail.live.cache.pods import CachedPod
from foresail.live.moves import successors
from foresail.live.moves.leaving import BETWEEN_TRIES_S
from foresail.live.moves.record import MovePhase, MoveRecord, MovingPod
from foresail.live.moves.tools import MoveTools
from foresail.logs import get_logger

MOVE = "foresail.dev/move"
"""Annotation of a successor that was made here: the move that it comes from."""
_JOB_BACKOFF_S = 600.0
"""A Job's controller waits at most so long before it makes a pod in the place of one that has failed."""


async def replace(record: MoveRecord, tools: MoveTools) -> MoveRecord | None:
    """See that there are successors, and that they get their room."""
    while True:
        tools.check_lead()
        pods = []
        for pod in record.pods:
            now = await _replaced(pod, record, tools)
            if isinstance(now, str):
                _let_go(pod, tools)
                tools.note_end(pod, record, "finished" if tools.has_finished(pod.uid) else "unfinished", now)
            else:
                pods.append(now)
        if not pods:
            return None
        moved = record.with_pods(tuple(pods))
        if _is_news(moved, record):
            return moved
        nodes = [_node_of(pod.successor, tools) for pod in pods]
        if all(nodes):
            standing = tuple(_with(pod, successor_node=node) for pod, node in zip(pods, nodes, strict=True))
            return record.with_pods(standing).to(MovePhase.RESUME, tools.now_s())
        if _is_given_up(moved, tools):
            waited_s = tools.now_s() - record.phase_s
            for pod in pods:
                said = f"move unfinished: {_owner(pod)} made no successor that has a node within {waited_s:.0f} s"
                tools.note_end(pod, record, "unfinished", said)
            return None
        await tools.look()


def _is_news(now: MoveRecord, before: MoveRecord) -> bool:
    """Whether something is to be written down at once, as the next leader could not find it out."""
    return len(now.pods) != len(before.pods) or any(
        (one.successor, one.made) != (was.successor, was.made) for one, was in zip(now.pods, before.pods, strict=True)
    )


def room_left_s(pod: MovingPod, record: MoveRecord, tools: MoveTools) -> float:
    """How long room is still kept for the successor."""
    return record.phase_s + pod.grace_s + tools.settings.successor_s - tools.now_s()


def _is_given_up(record: MoveRecord, tools: MoveTools) -> bool:
    if any(pod.owner is None for pod in record.pods):
        return False
    backoff_s = _JOB_BACKOFF_S if any(pod.owner is not None and pod.owner[0] == "Job" for pod in record.pods) else 0.0
    return max(room_left_s(pod, record, tools) for pod in record.pods) + backoff_s <= 0


def _owner(pod: MovingPod) -> str:
    return "nobody" if pod.owner is None else f"its {pod.owner[0]} {pod.owner[1]}"


def _let_go(pod: MovingPod, tools: MoveTools) -> None:
    tools.rooms.release(pod.uid)
    if pod.successor:
        tools.rooms.release(pod.successor)


def _node_of(uid: str, tools: MoveTools) -> str:
    cached = tools.cache.pods.get(uid)
    return "" if cached is None else cached.node


# --- who succeeds ----------------------------------------------------------------------------------------------------


def find_successor(pod: MovingPod, tools: MoveTools) -> CachedPod | None:
    """The pod that takes the place of one that was moved, as far as the cache knows."""
    known = tools.running(pod.successor)
    if known is not None:
        return known
    pods = tools.cache.pods.values()
    return next((one for one in pods if pod.is_succeeded_by(one) and tools.running(one.uid) is not None), None)


async def _replaced(pod: MovingPod, record: MoveRecord, tools: MoveTools) -> MovingPod | str:
    """The pod, with what is known of its successor by now; or why there will be none."""
    successor = find_successor(pod, tools)
    runs = successor is not None and successor.phase == "Running"
    if not runs:
        pod = _as_left(pod, tools)
    if not pod.left_s and pod.uid not in tools.cache.pods:
        pod = _with(pod, left_s=(successor.started_s if successor is not None and runs else None) or tools.now_s())
    if room_left_s(pod, record, tools) <= 0:
        _let_go(pod, tools)
    if successor is not None:
        give_room(successor, pod, record, tools)
        return await _not_stuck(_with(pod, successor=successor.uid), successor, record, tools)
    if tools.has_finished(pod.uid):
        return "it did all its work before it left; nobody has to go on elsewhere"
    if pod.owner is not None:
        return _with(pod, successor="")
    if pod.successor and pod.successor not in tools.cache.pods:
        found = await tools.mover.find(pod.namespace, pod.successor_name)
        # The watch may not have told yet; but one that is not there, and had no node, somebody has deleted.
        return pod if found is not None else "move unfinished: its successor was deleted by somebody"
    return await _made(pod, record, tools)


def _as_left(pod: MovingPod, tools: MoveTools) -> MovingPod:
    """The pod as far as it has come; nobody has gone on from there yet."""
    on_disk = [step for step in (pod.checkpoint_step, tools.checkpoints.checkpoint_step(pod.job)) if step is not None]
    reported = tools.checkpoints.step(pod.job)
    return _with(
        pod,
        last_step=pod.last_step if reported is None else reported,
        checkpoint_step=max(on_disk, default=None),
    )


def _with(pod: MovingPod, **changes: Any) -> MovingPod:
    return msgspec.structs.replace(pod, **changes)


def give_room(successor: CachedPod, pod: MovingPod, record: MoveRecord, tools: MoveTools) -> None:
    """A successor that waits gets the room that is held; also once more, if its bind has failed."""
    left_s = room_left_s(pod, record, tools)
    if left_s <= 0 or successor.node or successor.uid in tools.cache.table.placed:
        return
    waiting, expected = tools.cache.waiting(successor.uid), tools.expected(pod)
    if waiting is not None and expected is not None and not tools.rooms.node_of(successor.uid):
        tools.rooms.pass_on(pod.uid, expected, waiting, pod.target, left_s, record.why)


# --- pods that nobody else makes -------------------------------------------------------------------------------------


async def _made(pod: MovingPod, record: MoveRecord, tools: MoveTools) -> MovingPod | str:
    """Make the successor, once nothing of the pod is left: never are there two."""
    if not await tools.mover.is_gone(pod):
        return pod
    tools.check_lead()
    try:
        made = await tools.mover.create(_wanted(pod, record, tools))
        if made is None:
            made = await tools.mover.find(pod.namespace, pod.successor_name)
            if made is None or (made["metadata"].get("annotations") or {}).get(MOVE) != record.id:
                return _with(pod, made=pod.made + 1)  # the name is another's
    except ClusterError as error:
        if _is_for_ever(error):
            return f"move unfinished: {error}"
        get_logger().warning("successor_not_made", pod=pod.full_name, name=pod.successor_name, error=str(error))
        tools.tell(pod, record, f"its successor could not be made, and is tried again: {error}")
        await asyncio.sleep(BETWEEN_TRIES_S)
        return pod
    return _with(pod, successor=made["metadata"]["uid"])


def _is_for_ever(error: ClusterError) -> bool:
    """Whether the namespace is gone or going, with all that its tenant had there."""
    return isinstance(error, NotFound) or (isinstance(error, Forbidden) and "being terminated" in error.message)


def _wanted(pod: MovingPod, record: MoveRecord, tools: MoveTools) -> Object:
    expected = pod.expected
    if _is_steered(pod, tools) and room_left_s(pod, record, tools) > 0:
        expected = successors.only_on(expected, pod.target)
    metadata = expected["metadata"]
    annotations = {**(metadata.get("annotations") or {}), MOVE: record.id}
    return successors.named({**expected, "metadata": {**metadata, "annotations": annotations}}, pod.successor_name)


def _is_steered(pod: MovingPod, tools: MoveTools) -> bool:
    """Whether a successor says itself where it is to go, as no room is kept for it; not once that has failed."""
    return pod.owner is None and not tools.rooms.keeps and not pod.made


async def _not_stuck(pod: MovingPod, successor: CachedPod, record: MoveRecord, tools: MoveTools) -> MovingPod:
    """A successor that may go nowhere but to a node that is full is made anew, to go wherever there is room."""
    if successor.node or not _is_steered(pod, tools) or room_left_s(pod, record, tools) > 0:
        return pod
    found = await tools.mover.find(pod.namespace, pod.successor_name)
    if found is not None and not found["spec"].get("nodeName"):
        tools.check_lead()
        try:
            await tools.mover.remove(found)
        except ClusterError as error:
            get_logger().info("successor_not_removed", pod=successor.full_name, error=str(error))
            return pod
    return _with(pod, successor="", made=pod.made + 1)
