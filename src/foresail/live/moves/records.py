"""Where moves are written down; see `live.records`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from foresail.kube.api.client import Client
from foresail.live.moves.record import MoveRecord, describe
from foresail.live.records import MOST_BYTES, KeptRecord, Records, ReplacedError, size_bytes

__all__ = ["MOST_BYTES", "KeptMove", "MoveRecords", "ReplacedError", "size_bytes"]

KeptMove: TypeAlias = KeptRecord[MoveRecord]


class MoveRecords(Records[MoveRecord]):
    """The records of one scheduler's moves."""

    def __init__(
        self,
        api: Client,
        namespace: str,
        scheduler_name: str,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(
            api,
            namespace,
            scheduler_name,
            kind="move",
            of=MoveRecord,
            id_of=lambda record: record.id,
            hand_of=lambda record: record.hand,
            for_people=lambda record: {"move": describe(record), "phase": record.phase.value},
            sleep=sleep,
        )
