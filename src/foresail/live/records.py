"""What is under way, written down: one ConfigMap each, in the namespace of the Lease.

Tenants write on their own pods as they like, and a pod that is evicted takes its annotations with it. What a change
rests on stands where neither can happen. Each write names the version it is based on, so of two who drive one change,
one is refused, and stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ClusterError, Conflict, NotFound, Unreachable
from foresail.kube.api.kinds import CONFIG_MAP
from foresail.kube.api.retries import ATTEMPTS, may_pass, pause_s
from foresail.logs import get_logger

RECORD_LABEL = "foresail.dev/record"
SCHEDULER_LABEL = "foresail.dev/scheduler"
MOST_BYTES = 900_000
"""A ConfigMap holds a little more."""

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class KeptRecord(NamedTuple, Generic[R]):
    """A record as the API server has it."""

    record: R
    version: str


class ReplacedError(ClusterError):
    """Another goes on with it."""


class Records(Generic[R]):
    """The records of one kind that one scheduler has."""

    def __init__(
        self,
        api: Client,
        namespace: str,
        scheduler_name: str,
        *,
        kind: str,
        of: type[R],
        id_of: Callable[[R], str],
        for_people: Callable[[R], dict[str, str]],
        hand_of: Callable[[R], str] = lambda _: "",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`kind` is a word that names and labels have; `for_people` is what stands beside the record for who looks.
        `hand_of` tells who goes on with one, where a write of one's own that arrives late is to be gone on with.
        """
        self._api = api
        self._namespace = namespace
        self._kind = kind
        self._key = f"{kind}.json"
        self._labels = {RECORD_LABEL: kind, SCHEDULER_LABEL: scheduler_name}
        self._decode = msgspec.json.Decoder(of).decode
        self._id_of = id_of
        self._for_people = for_people
        self._hand_of = hand_of
        self._sleep = sleep

    async def all(self) -> list[KeptRecord[R]]:
        """Every one that is not done; one that cannot be read is told and left as it is."""
        wanted = ",".join(f"{name}={value}" for name, value in self._labels.items())
        items, _ = await self._api.list(CONFIG_MAP.within(self._namespace), labelSelector=wanted)
        found = []
        for item in items:
            try:
                found.append(KeptRecord(self._decode(item["data"][self._key]), item["metadata"]["resourceVersion"]))
            except (msgspec.DecodeError, KeyError, TypeError) as error:
                name = f"{self._namespace}/{item['metadata']['name']}"
                get_logger().error(f"{self._kind}_record_unreadable", record=name, error=str(error))
        return found

    async def create(self, record: R) -> KeptRecord[R]:
        """Write down a new one; a Conflict if there is one of this id."""
        path, body = CONFIG_MAP.within(self._namespace), self._object(record)

        async def ask() -> KeptRecord[R]:
            try:
                return self._kept(await self._api.post(path, body))
            except Conflict as error:
                found = await self.find(record)
                if found is None:
                    raise _nobodys(error) from error
                if found.record == record:
                    return found  # an earlier attempt had its effect, only the answer was lost
                raise

        return await self._insist(ask)

    async def replace(self, kept: KeptRecord[R], record: R) -> KeptRecord[R]:
        """Write how it goes on; ReplacedError if another has written since.

        What is there then is returned: an earlier write of our own may have arrived after it was given up.
        """
        body = self._object(record, kept.version)

        async def ask() -> KeptRecord[R]:
            try:
                return self._kept(await self._api.put(self._path(record), body))
            except (Conflict, NotFound) as error:
                found = await self.find(record)
                if found is not None and found.version == kept.version:
                    raise _nobodys(error) from error
                if found is not None and (found.record == record or self._is_own(found.record, record)):
                    return found
                raise self._replaced(record, error) from error

        return await self._insist(ask)

    async def delete(self, kept: KeptRecord[R]) -> None:
        """It is done. One that another has written to since is left to that one."""

        async def ask() -> None:
            now: KeptRecord[R] | None = kept
            while now is not None:
                about = {"preconditions": {"resourceVersion": now.version}}
                try:
                    await self._api.delete(self._path(kept.record), about)
                except NotFound:
                    return
                except Conflict as error:
                    before, now = now, await self.find(kept.record)
                    if now is not None and now.version == before.version:
                        raise _nobodys(error) from error
                    if now is not None and not self._is_own(now.record, kept.record):
                        raise self._replaced(kept.record, error) from error
                else:
                    return

        await self._insist(ask)

    def _is_own(self, found: R, record: R) -> bool:
        """Whether what is there was written by the hand that writes now."""
        return self._hand_of(found) == self._hand_of(record) != ""

    def _replaced(self, record: R, error: ClusterError) -> ReplacedError:
        return ReplacedError(f"{self._for_people(record)[self._kind]}: another goes on with it ({error})")

    async def find(self, record: R) -> KeptRecord[R] | None:
        """A record as it is written down now; None if it is not."""
        try:
            return self._kept(await self._api.get(self._path(record)))
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

    def _path(self, record: R) -> str:
        return CONFIG_MAP.named(self._name(record), self._namespace)

    def _name(self, record: R) -> str:
        return f"foresail-{self._kind}-{self._id_of(record)}"

    def _object(self, record: R, version: str = "") -> Object:
        metadata: Object = {"name": self._name(record), "namespace": self._namespace, "labels": self._labels}
        if version:
            metadata["resourceVersion"] = version
        data = {self._key: _encode(record).decode(), **self._for_people(record)}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def _kept(self, value: Object) -> KeptRecord[R]:
        try:
            return KeptRecord(self._decode(value["data"][self._key]), value["metadata"]["resourceVersion"])
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            name = value["metadata"].get("name")
            raise ClusterError(f"ConfigMap {name} is no record of a {self._kind}: {error}") from error


def _nobodys(error: ClusterError) -> Unreachable:
    """A conflict with nobody, as a busy server may tell it: it is asked again."""
    return Unreachable(f"{error}; nobody has written to it since")


def size_bytes(record: msgspec.Struct) -> int:
    """What a record takes; more than `MOST_BYTES` cannot be kept."""
    return len(_encode(record))
