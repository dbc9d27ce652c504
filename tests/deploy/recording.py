"""A client that notes which rights its requests need, and loses some on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import aiohttp

from foresail.kube.api.client import Client
from foresail.kube.api.connect import Connection
from foresail.kube.api.errors import ApiError

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Used(NamedTuple):
    """The right that a request needs."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""


def right_for(method: str, target: str) -> Used | None:
    """What RBAC is asked for a request, worked out from its path; None for one that everybody may make."""
    path, _, query = target.partition("?")
    api, *rest = path.strip("/").split("/")
    if api not in {"api", "apis"}:
        return None
    group, rest = ("", rest[1:]) if api == "api" else (rest[0], rest[2:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, part = (*rest, "", "")[:3]
    watches = parse_qs(query).get("watch") == ["true"]
    verb = _VERBS.get(method) or ("get" if name else "watch" if watches else "list")
    return Used(group, f"{resource}/{part}" if part else resource, verb, namespace, name)


class RecordingClient(Client):
    """Notes every request; what is refused; and lets the network fail where a test wants it to."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.used: set[Used] = set()
        self.refused: list[str] = []
        self.before: Callable[[Used], Awaitable[None]] | None = None
        self.lose_request: Callable[[Used], bool] = lambda _used: False
        self.lose_answer: Callable[[Used], bool] = lambda _used: False

    async def _answer(self, method: str, target: str, *about: Any) -> aiohttp.ClientResponse:
        used = right_for(method, target)
        if used is None:
            return await super()._answer(method, target, *about)
        self.used.add(used)
        if self.before is not None:
            await self.before(used)
        if self.lose_request(used):
            raise aiohttp.ClientConnectionError("lost on the way there")
        try:
            response = await super()._answer(method, target, *about)
        except ApiError as error:
            if error.status in {401, 403}:
                self.refused.append(str(error))
            raise
        if self.lose_answer(used):
            response.close()
            raise aiohttp.ClientConnectionError("lost on the way back")
        return response
