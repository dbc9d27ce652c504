"""Where moves are written down: one ConfigMap each, in the namespace of the Lease.

Tenants write on their own pods as they like, and a pod that is evicted takes its annotations with it. What a move rests
on stands where neither can happen. Each write names the version it is based on, so of two who drive one move, one is
refused, and stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import msgspec

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ClusterError, Conflict, NotFound
from foresail.kube.api.kinds import CONFIG_MAP
from foresail.kube.api.retries import ATTEMPTS, may_pass, pause_s
from foresail.live.moves.record import MoveRecord, describe
from foresail.logs import get_logger

RECORD_LABEL = "foresail.dev/record"
SCHEDULER_LABEL = "foresail.dev/scheduler"
MOST_BYTES = 900_000
"""A ConfigMap holds a little more."""

T = TypeVar("T")

_KEY = "move.json"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(MoveRecord).decode


class KeptMove(NamedTuple):
    """A move as the API server has it."""

    record: MoveRecord
    version: str


class ReplacedError(ClusterError):
    """Another goes on with the move."""


class MoveRecords:
    """The records of one scheduler's moves."""

    def __init__(
        self,
        api: Client,
        namespace: str,
        scheduler_name: str,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._labels = {RECORD_LABEL: "move", SCHEDULER_LABEL: scheduler_name}
        self._sleep = sleep

    async def all(self) -> list[KeptMove]:
        """Every move that is not done; one that cannot be read is told and left as it is."""
        wanted = ",".join(f"{name}={value}" for name, value in self._labels.items())
        items, _ = await self._api.list(CONFIG_MAP.within(self._namespace), labelSelector=wanted)
        found = []
        for item in items:
            try:
                found.append(KeptMove(_decode(item["data"][_KEY]), item["metadata"]["resourceVersion"]))
            except (msgspec.DecodeError, KeyError, TypeError) as error:
                name = f"{self._namespace}/{item['metadata']['name']}"
                get_logger().error("move_record_unreadable", record=name, error=str(error))
        return found

    async def create(self, record: MoveRecord) -> KeptMove:
        """Write down a new move; a Conflict if there is one of this id."""
        path, body = CONFIG_MAP.within(self._namespace), self._object(record)

        async def ask() -> KeptMove:
            try:
                return _kept(await self._api.post(path, body))
            except Conflict:
                found = await self._look(record.id)
                if found is not None and found.record == record:
                    return found  # an earlier attempt had its effect, only the answer was lost
                raise

        return await self._insist(ask)

    async def replace(self, kept: KeptMove, record: MoveRecord) -> KeptMove:
        """Write the move's next phase; ReplacedError if another has written since."""
        body = self._object(record, kept.version)

        async def ask() -> KeptMove:
            try:
                return _kept(await self._api.put(self._path(record.id), body))
            except (Conflict, NotFound) as error:
                found = await self._look(record.id)
                if found is not None and found.record == record:
                    return found
                raise ReplacedError(f"{describe(record)}: another goes on with it ({error})") from error

        return await self._insist(ask)

    async def delete(self, kept: KeptMove) -> None:
        """The move is done. One that another has written to since is left to that one."""
        options = {"preconditions": {"resourceVersion": kept.version}}

        async def ask() -> None:
            try:
                await self._api.delete(self._path(kept.record.id), options)
            except NotFound:
                return
            except Conflict as error:
                if await self._look(kept.record.id) is not None:
                    raise ReplacedError(f"{describe(kept.record)}: another goes on with it ({error})") from error

        await self._insist(ask)

    async def _look(self, move_id: str) -> KeptMove | None:
        try:
            return _kept(await self._api.get(self._path(move_id)))
        except NotFound:
            return None

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        attempt = 0
        while True:
            try:
                return await ask()
            except (Conflict, ReplacedError):
                raise
            except ClusterError as error:
                attempt += 1
                if attempt == ATTEMPTS or not may_pass(error):
                    raise
                await self._sleep(pause_s(attempt - 1, error))

    def _path(self, move_id: str) -> str:
        return CONFIG_MAP.named(_name(move_id), self._namespace)

    def _object(self, record: MoveRecord, version: str = "") -> Object:
        metadata: Object = {"name": _name(record.id), "namespace": self._namespace, "labels": self._labels}
        if version:
            metadata["resourceVersion"] = version
        # The rest is for people who look.
        data = {_KEY: _encode(record).decode(), "move": describe(record), "phase": record.phase.value}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def size_bytes(record: MoveRecord) -> int:
    """What a record takes; more than `MOST_BYTES` cannot be kept."""
    return len(_encode(record))


def _name(move_id: str) -> str:
    return f"foresail-move-{move_id}"


def _kept(value: Object) -> KeptMove:
    try:
        return KeptMove(_decode(value["data"][_KEY]), value["metadata"]["resourceVersion"])
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise ClusterError(f"ConfigMap {value['metadata'].get('name')} is no record of a move: {error}") from error
