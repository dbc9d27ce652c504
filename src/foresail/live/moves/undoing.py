"""UNDO: nothing has happened to the pod, and nothing is to."""

from __future__ import annotations

from foresail.live.moves.record import MoveRecord
from foresail.live.moves.surging import take_back
from foresail.live.moves.tools import MoveTools
from foresail.logs import get_logger


async def undo(record: MoveRecord, tools: MoveTools) -> MoveRecord | None:
    """Withdraw what was asked for, give back room and replica; the pod runs on as if nothing had been."""
    for pod in record.pods:
        try:
            tools.checkpoints.withdraw(pod.job, record.id)
        except Exception:  # noqa: BLE001 - a checkpoint more does no harm
            get_logger().exception("checkpoint_not_withdrawn", move=record.id)
        if record.has_surged:
            await take_back(pod, record, tools)
        tools.rooms.release(pod.uid)
        tools.note_end(pod, record, "undone", f"move undone: {record.reason}")
    return None
