"""RESUME: the successor has its node, and is to go on at the checkpointed step or beyond."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from foresail.live.moves.leaving import BETWEEN_TRIES_S
from foresail.live.moves.record import MovePhase, MoveRecord, MovingPod
from foresail.live.moves.replacing import find_successor
from foresail.live.moves.tools import MoveTools

_BY_CLUSTER = "DisruptionTarget"
"""Condition of a pod that the cluster itself has made to go."""


class Resumed(NamedTuple):
    """A successor that goes on."""

    step: int | None = None
    """From where; None where nobody reports."""
    on_disk: int = 0
    """Step of the last checkpoint before the move."""


async def resume(record: MoveRecord, tools: MoveTools) -> MoveRecord | None:
    """See that the successors go on where the pods left off."""
    since_s: dict[str, float] = {}
    """When the old pod was last seen: what is reported after that is the successor's."""
    last: dict[str, int] = {}
    """The old pod's last step: it may be read after the pod has gone."""
    while True:
        pods = tuple([await _followed(pod, tools) for pod in record.pods])
        if any(not pod.successor for pod in pods):
            return record.with_pods(pods).to(MovePhase.REPLACE, tools.now_s())
        if pods != record.pods:
            return record.with_pods(pods)
        since_s.update({pod.uid: tools.now_s() for pod in pods if _may_report(pod, since_s, tools)})
        last.update({pod.uid: step for pod in pods if (step := _still_old(pod, since_s, tools)) is not None})
        ends = [_resumed(pod, since_s, tools) for pod in pods]
        if None not in ends or tools.now_s() >= record.phase_s + tools.settings.resume_s:
            for pod, end in zip(pods, ends, strict=True):
                _note(msgspec.structs.replace(pod, last_step=last.get(pod.uid, pod.last_step)), end, record, tools)
            return None
        await tools.look()


async def _followed(pod: MovingPod, tools: MoveTools) -> MovingPod:
    """The pod with its successor, or with that one's, should it be gone again; with none, if one is to be made."""
    if tools.running(pod.successor) is not None or tools.has_finished(pod.successor):
        return pod
    another = find_successor(pod, tools)
    if another is not None:
        return msgspec.structs.replace(pod, successor=another.uid, successor_node=another.node)
    if pod.owner is None and await _came_to_nothing(pod, tools):
        await asyncio.sleep(BETWEEN_TRIES_S)  # whatever it was may be so again
        return msgspec.structs.replace(pod, successor="", made=pod.made + 1)
    return pod


async def _came_to_nothing(pod: MovingPod, tools: MoveTools) -> bool:
    """Whether a successor that was made here is to be made again: its kubelet would not have it, or its node is gone.

    One that has failed by its own doing, or that somebody has deleted, is not: so it would have been without a move.
    """
    cached = tools.cache.pods.get(pod.successor)
    if cached is not None and not cached.ended:
        return False  # it is being deleted; never are there two
    found = await tools.mover.find(pod.namespace, pod.successor_name)
    if found is None or found["metadata"]["uid"] != pod.successor:
        return pod.successor_node not in tools.cache.table.row_of
    status = found.get("status") or {}
    began = any("terminated" in (one.get("state") or {}) for one in status.get("containerStatuses") or ())
    disrupted = any(one["type"] == _BY_CLUSTER for one in status.get("conditions") or ())
    return status.get("phase") == "Failed" and (disrupted or not began)


def _may_report(pod: MovingPod, since_s: dict[str, float], tools: MoveTools) -> bool:
    """Whether what is reported now may be the old pod's: it is there, or was never seen to be gone."""
    return pod.uid in tools.cache.pods or (not pod.left_s and pod.uid not in since_s)


def _still_old(pod: MovingPod, since_s: dict[str, float], tools: MoveTools) -> int | None:
    """The last step of the job, as long as nothing of its successor's is known."""
    return tools.checkpoints.step(pod.job) if _first_step(pod, since_s, tools) is None else None


def _first_step(pod: MovingPod, since_s: dict[str, float], tools: MoveTools) -> int | None:
    cached = tools.cache.pods.get(pod.successor)
    started_s = (0.0 if cached is None else cached.started_s) or 0.0
    return tools.checkpoints.first_step_since(pod.job, max(since_s.get(pod.uid, 0.0), pod.left_s, started_s))


def _resumed(pod: MovingPod, since_s: dict[str, float], tools: MoveTools) -> Resumed | None:
    """Where the successor goes on; None while that is not known."""
    if tools.has_finished(pod.successor):
        return Resumed()
    cached = tools.running(pod.successor)
    if cached is None or cached.phase != "Running":
        return None
    if pod.last_step is None and not pod.is_asked:
        return Resumed()
    step = _first_step(pod, since_s, tools)
    return None if step is None else Resumed(step, pod.checkpoint_step or 0)


def _note(pod: MovingPod, end: Resumed | None, record: MoveRecord, tools: MoveTools) -> None:
    if end is None:
        said = f"move unconfirmed: its successor was not seen to go on within {tools.settings.resume_s:g} s"
        tools.note_end(pod, record, "unconfirmed", said)
        return
    said, lost = f"from {pod.source} in {tools.now_s() - record.begun_s:.1f} s", None
    if end.step is not None:
        lost = max(0, (pod.last_step or 0) - end.step)
        said += f", goes on at step {end.step}, {lost} steps lost"
        if end.step < end.on_disk:
            said += f" (its last checkpoint was of step {end.on_disk})"
    tools.note_end(pod, record, "moved", f"{said}: {record.why}", lost)
