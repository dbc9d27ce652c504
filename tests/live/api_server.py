"""A small API server in the test's own event loop: it keeps objects, tells watches, and does what the script says.

What it knows of Kubernetes is what Foresail asks for: lists, watches, Leases, bindings, evictions, resizes, merged
patches, preconditions by uid and version. Beside it no kubelet runs, unless the test plays one: pods that are bound
stay as they are, and those that are deleted are gone at once.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from aiohttp import web

Object = dict[str, Any]
Answer = tuple[int, Object]
Script = Callable[[str, str], int]
"""Method and path to the status that the request is refused with, 0 to let it pass."""


class ApiServer:
    """Objects by kind and name; all of one namespace."""

    def __init__(self, script: Script = lambda _method, _path: 0) -> None:
        self.objects: dict[str, dict[str, Object]] = defaultdict(dict)
        """Plural to name to object."""
        self.log: list[tuple[str, str]] = []
        """Every request that changed something or tried to: method, and path from the plural on."""
        self.bodies: list[Object] = []
        """What came with each of them."""
        self.answers = asyncio.Event()
        """Nobody gets an answer while it is cleared, and nothing is done."""
        self.answers.set()
        self.has_kubelets = False
        """Whether somebody plays them, and lets pods that are deleted end first."""
        self.budget_allows = True
        """Whether evictions are let through by disruption budgets."""
        self.texts: dict[str, str] = {}
        """Path to a plain text that is served there."""
        self._script = script
        self._version = 0
        self._uids: set[str] = set()
        self._history: dict[str, list[tuple[int, str, Object]]] = defaultdict(list)
        self._news = asyncio.Event()

    # --- what a test does to it ------------------------------------------------------------------------------------

    def put(self, plural: str, *values: Object) -> None:
        """Objects that come, or change."""
        for value in values:
            name = value["metadata"]["name"]
            self._tell(plural, "MODIFIED" if name in self.objects[plural] else "ADDED", value)

    def drop(self, plural: str, name: str) -> None:
        self._tell(plural, "DELETED", self.objects[plural].pop(name))

    def asked(self, method: str, end: str = "") -> list[str]:
        """Paths of the requests of a method that end so."""
        return [path for one, path in self.log if one == method and path.endswith(end)]

    def node_of(self, name: str) -> str:
        return str(self.objects["pods"][name]["spec"].get("nodeName", ""))

    def _tell(self, plural: str, kind: str, value: Object) -> Object:
        self._version += 1
        value = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self._version)}}
        self._uids.add(value["metadata"].get("uid", ""))
        if kind != "DELETED":
            self.objects[plural][value["metadata"]["name"]] = value
        self._history[plural].append((self._version, kind, value))
        self._news.set()
        self._news = asyncio.Event()
        return value

    # --- requests --------------------------------------------------------------------------------------------------

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        await self.answers.wait()
        if request.path in self.texts:
            return web.Response(text=self.texts[request.path])
        plural, name, sub = _parsed(request.path)
        if "watch" in request.query:
            return await self._watch(request, plural)
        body = await request.json() if request.can_read_body else {}
        refused = self._script(request.method, request.path)
        if request.method != "GET":
            self.log.append((request.method, "/".join(filter(None, (plural, name, sub)))))
            self.bodies.append(body)
        if refused:
            return web.json_response({"kind": "Status", "message": "as the script says"}, status=refused)
        if "dryRun" in request.query:
            allowed = sub != "eviction" or self.budget_allows
            return web.json_response({} if allowed else _OVER_BUDGET, status=201 if allowed else 429)
        status, answer = self._answer(request.method, plural, name, sub, body)
        if status == 200 and "fieldManager" in request.query and "replicas" in (body.get("spec") or {}):
            mine = {"manager": request.query["fieldManager"], "fieldsV1": {"f:spec": {"f:replicas": {}}}}
            self.objects[plural][name]["metadata"]["managedFields"] = [mine]
        return web.json_response(answer, status=status)

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        seen = int(request.query.get("resourceVersion") or 0)
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await self.answers.wait()
            for version, kind, value in self._history[plural]:
                if version > seen:
                    seen = version
                    await response.write(json.dumps({"type": kind, "object": value}).encode() + b"\n")
            await self._news.wait()

    def _answer(self, method: str, plural: str, name: str, sub: str, body: Object) -> Answer:
        if not name:
            if method == "GET":
                items = list(self.objects[plural].values())
                return 200, {"metadata": {"resourceVersion": str(self._version)}, "items": items}
            name = body["metadata"]["name"]
            if name in self.objects[plural]:
                return 409, {"kind": "Status", "reason": "AlreadyExists", "message": f"{plural} {name} already exists"}
            again = f"-{self._version}" if f"uid-{name}" in self._uids else ""
            value = {**body, "metadata": {"uid": f"uid-{name}{again}", "namespace": "default", **body["metadata"]}}
            return 201, self._tell(plural, "ADDED", value)
        found = self.objects[plural].get(name)
        if found is None:
            return 404, {"kind": "Status", "message": f"{plural} {name} not found"}
        about = (
            body.get("preconditions") or (body.get("deleteOptions") or {}).get("preconditions") or body.get("metadata")
        )
        for key in ("uid", "resourceVersion"):
            if (about or {}).get(key, found["metadata"].get(key)) != found["metadata"].get(key):
                return 409, {"kind": "Status", "message": f"another {key}"}
        return self._change(method, plural, found, sub, body)

    def _change(self, method: str, plural: str, found: Object, sub: str, body: Object) -> Answer:
        name = found["metadata"]["name"]
        if method == "GET":
            return 200, found
        if method == "DELETE" or sub == "eviction":
            if sub and not self.budget_allows:
                return 429, _OVER_BUDGET
            if plural == "pods" and self.has_kubelets and found["spec"].get("nodeName") and not _is_forced(body):
                going = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
                self._tell(plural, "MODIFIED", _merged(found, going))
            else:
                self.drop(plural, name)
            return 201 if sub else 200, {}
        if sub == "binding":
            return 201, self._tell(plural, "MODIFIED", _merged(found, {"spec": {"nodeName": body["target"]["name"]}}))
        return 200, self._tell(plural, "MODIFIED", body if method == "PUT" else _merged(found, body))


_OVER_BUDGET = {"kind": "Status", "message": "Cannot evict pod: the budget does not allow it"}


def _is_forced(body: Object) -> bool:
    return (body.get("deleteOptions") or body).get("gracePeriodSeconds") == 0


def _parsed(path: str) -> tuple[str, str, str]:
    """Plural, name and subresource."""
    parts = path.strip("/").split("/")
    rest = parts[2 if parts[0] == "api" else 3 :]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    plural, name, *_ = *rest, "", ""
    return plural, name, "/".join(rest[2:])


def _merged(value: Any, patch: Any) -> Any:
    """As a strategic merge patch, for what tests use: lists of things with a name or type are merged by it."""
    if isinstance(value, dict) and isinstance(patch, dict):
        merged = {**value, **{key: _merged(value.get(key), one) for key, one in patch.items()}}
        return {key: one for key, one in merged.items() if one is not None}
    if isinstance(value, list) and isinstance(patch, list) and patch and isinstance(patch[0], dict):
        key = "type" if "type" in patch[0] else "name"
        by_key = {one[key]: one for one in value}
        return list((by_key | {one[key]: _merged(by_key.get(one[key], {}), one) for one in patch}).values())
    return patch
