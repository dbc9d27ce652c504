"""The first half of a move: a checkpoint, then the pod goes; until it does, all is undone if something fails."""

from __future__ import annotations

import asyncio

import msgspec

from foresail.live.actions.moving import LeaveResult, Leaving
from foresail.live.moves.record import MovePhase, MoveRecord, MovingPod
from foresail.live.moves.tools import MoveTools
from foresail.live.telemetry.checkpoints import VolumeFullError
from foresail.logs import get_logger

BETWEEN_TRIES_S = 5.0
_FULL = "its checkpoint cannot be asked for: {}"


async def checkpoint(record: MoveRecord, tools: MoveTools) -> MoveRecord | None:
    """Ask the job for a checkpoint and wait for its word that there is one; one that cannot be asked goes as it is."""
    try:
        pods = tuple([await _asked(pod, record, tools) for pod in record.pods])
    except VolumeFullError as error:
        return tools.undone(record, _FULL.format(error))
    except Exception as error:  # noqa: BLE001 - nobody is made to go for a checkpoint that is not there
        get_logger().exception("checkpoint_not_asked_for", move=record.id)
        return tools.undone(record, f"its checkpoint could not be asked for: {error}")
    if pods != record.pods:
        return record.with_pods(pods)  # whoever goes on with this knows that there is an answer to wait for
    while True:
        pods = tuple(_confirmed(pod, record.id, tools) for pod in pods)
        missing = [pod for pod in pods if pod.is_asked and pod.checkpoint_step is None]
        refused = against(record, tools) or _finds_no_room(missing, record.id, tools)
        if refused:
            return tools.undone(record, refused)
        if not missing:
            return record.with_pods(pods).to_leave(tools.now_s())
        if tools.now_s() >= record.phase_s + tools.settings.checkpoint_s:
            said = f"{missing[0].full_name} confirmed no checkpoint within {tools.settings.checkpoint_s:g} s"
            return tools.undone(record, said)
        await tools.look()


async def _asked(pod: MovingPod, record: MoveRecord, tools: MoveTools) -> MovingPod:
    """The pod, asked if it can be. It may take a while until it is known how, after a start and in particular of one
    that was asked before.
    """
    until_s = record.phase_s + tools.settings.checkpoint_s
    while not tools.checkpoints.ask(pod.job, record.id):
        late = tools.now_s() >= until_s
        if late or against(record, tools) or (tools.knows_jobs() and not pod.is_asked):
            return pod
        await tools.look()
    return msgspec.structs.replace(pod, is_asked=True)


def _finds_no_room(pods: list[MovingPod], request_id: str, tools: MoveTools) -> str:
    """Which volume has no room for the request, and so none for a checkpoint; it is known when it was tried."""
    try:
        for pod in pods:
            tools.checkpoints.ask(pod.job, request_id)
    except VolumeFullError as error:
        return _FULL.format(error)
    return ""


def _confirmed(pod: MovingPod, request_id: str, tools: MoveTools) -> MovingPod:
    if not pod.is_asked or pod.checkpoint_step is not None:
        return pod
    return msgspec.structs.replace(pod, checkpoint_step=tools.checkpoints.confirmed_step(pod.job, request_id))


def against(record: MoveRecord, tools: MoveTools) -> str:
    """Why nobody is to go for this move any more; empty if nothing speaks against it."""
    for pod in record.pods:
        cached = tools.cache.pods.get(pod.uid)
        if cached is None or cached.terminating:
            return f"{pod.full_name} was deleted meanwhile"
        if cached.ended:
            return f"{pod.full_name} has ended meanwhile"
        if pod.target not in tools.cache.table.row_of:
            return f"node {pod.target} is gone"
        if not tools.rooms.node_of(pod.uid):
            return f"the room on {pod.target} is held no longer"
        expected = tools.expected(pod)
        refused = (
            ""
            if expected is None
            else tools.rooms.refusal(pod.uid, pod.target, expected, beside=pod.deployment is not None)
        )
        if refused:
            return refused
    return ""


async def evict(record: MoveRecord, tools: MoveTools) -> MoveRecord | None:
    """Make the pods go. As soon as one of them does there is no way back, and the others follow when they may."""
    while True:
        tools.check_lead()
        results = await _evict_all(record, tools)
        # Whoever goes is succeeded; whoever has ended by itself is not.
        going = tuple(pod for pod in record.pods if results[pod.uid].leaving is Leaving.GOES)
        staying = [one for one in results.values() if one.leaving in {Leaving.BUDGET, Leaving.STAYS}]
        if going and not staying:
            return record.with_pods(going).to(MovePhase.REPLACE, tools.now_s())
        if not going:
            if not staying:
                return tools.undone(record, next(iter(results.values())).why)
            is_late = tools.now_s() >= record.phase_s + tools.settings.budget_s
            hopeless = next((one.why for one in staying if is_late or one.leaving is Leaving.STAYS), "")
            if hopeless or against(record, tools):
                return tools.undone(record, hopeless or against(record, tools))
        await asyncio.sleep(BETWEEN_TRIES_S)


async def _evict_all(record: MoveRecord, tools: MoveTools) -> dict[str, LeaveResult]:
    """Evict the pods; nobody of a gang that is whole, if one of it may not go."""
    if len(record.pods) > 1 and all(tools.running(pod.uid) is not None for pod in record.pods):
        asked = {pod.uid: await tools.mover.evict(pod, dry_run=True) for pod in record.pods}
        refused = next((one for one in asked.values() if one.leaving in {Leaving.BUDGET, Leaving.STAYS}), None)
        if refused is not None:
            return dict.fromkeys(asked, refused)
    return {pod.uid: await tools.mover.evict(pod) for pod in record.pods}
