"""A small API server with kubelets that resize pods in place, and what the node's sums come to at every moment.

The sums are reckoned here from the objects alone, by kube-scheduler's rule: the largest of what is asked for, set aside
and run with; what is asked for does not count once it is infeasible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.kube.scripted_server import serving
from tests.live.api_server import ApiServer
from tests.live.cluster import make_cache, make_node, make_pod
from tests.live.scheduler.test_scheduler import LoopClock

from foresail.core.journal import Journal, Record
from foresail.live.resizes.record import ResizeRecords
from foresail.live.resizes.resizes import Resizes
from foresail.live.resizes.settings import ResizeSettings
from foresail.live.resizes.tools import ResizeEnd

Object = dict[str, Any]


def milli(amount: str) -> int:
    return int(amount[:-1]) if amount.endswith("m") else int(amount) * 1000


class KubeletServer(ApiServer):
    """Nodes by name with their milli-CPU; each has a kubelet that takes a moment for everything."""

    def __init__(self, script: Callable[[str, str], int] = lambda _method, _path: 0, **nodes: int) -> None:
        super().__init__(script)
        self.nodes = nodes
        self.allocate_s, self.effect_s = 0.3, 0.2
        self.never: set[str] = set()
        """Pods of whom kubelets say that more is infeasible."""
        self.later: set[str] = set()
        """Pods of whom kubelets say that more is deferred."""
        self.silent: set[str] = set()
        """Pods of whom kubelets say nothing."""
        self.peaks: dict[str, int] = dict.fromkeys(nodes, 0)
        self.over: list[str] = []
        """Moments at which a node's pods requested more than there is."""
        self.followers: list[Resizing] = []
        """Those who watch, with a little lag."""
        self.writes = asyncio.Condition()
        self._had: dict[str, Object] = {}
        """What pods asked for before their first resize."""
        for name, cpu in nodes.items():
            self.put("nodes", make_node(name, f"{cpu}m"))

    def pod(self, name: str, cpu: str, node: str, limit: str = "", **more: Any) -> Object:
        """A pod that runs with what it asks for."""
        made = make_pod(name, cpu, node, phase="Running", **more)
        resources = made["spec"]["containers"][0]["resources"]
        if limit:
            resources["limits"] = {"cpu": limit}
        made["metadata"]["generation"] = 1
        made["status"]["containerStatuses"] = [
            {"name": "main", "allocatedResources": resources["requests"], "resources": resources}
        ]
        self.put("pods", made)
        return made

    async def __call__(self, request: Any) -> Any:
        answer = await super().__call__(request)
        async with self.writes:
            self.writes.notify_all()
        return answer

    async def wrote(self, count: int, end: str = "") -> None:
        """Until there were so many requests that change something and whose path ends so."""
        async with self.writes:
            await self.writes.wait_for(lambda: sum(path.endswith(end) for _, path in self.log) >= count)

    # --- kubelets --------------------------------------------------------------------------------------------------

    def _change(self, method: str, plural: str, found: Object, sub: str, body: Object) -> Any:
        if sub == "resize":
            self._had.setdefault(found["metadata"]["name"], found["spec"]["containers"][0]["resources"])
        status, value = super()._change(method, plural, found, sub, body)
        if sub == "resize" and status == 200:
            name = found["metadata"]["name"]
            if value["spec"] != found["spec"]:
                generation = value["metadata"].get("generation", 1) + 1
                value = self._tell(
                    "pods", "MODIFIED", {**value, "metadata": {**value["metadata"], "generation": generation}}
                )
            asyncio.get_running_loop().call_later(self.allocate_s, self._sync, name)
        return status, value

    def _sync(self, name: str) -> None:
        """A kubelet looks at a pod."""
        pod = self.objects["pods"].get(name)
        if pod is None or name in self.silent:
            return
        wanted = pod["spec"]["containers"][0]["resources"]
        state = self._state(pod)
        before, after = milli(state["allocatedResources"]["cpu"]), milli(wanted["requests"]["cpu"])
        node = pod["spec"]["nodeName"]
        others = sum(
            milli(self._state(one)["allocatedResources"]["cpu"])
            for one in self.objects["pods"].values()
            if one["spec"].get("nodeName") == node and one is not pod
        )
        most = self.nodes.get(node, after + others)
        if after > before and (name in self.never or after > most):
            self._say(pod, "PodResizePending", "Infeasible", "not so much")
        elif after > before and (name in self.later or others + after > most):
            self._say(pod, "PodResizePending", "Deferred", "not yet")
        elif state["resources"] != wanted:
            self._say(pod, "PodResizeInProgress", allocatedResources=wanted["requests"])
            asyncio.get_running_loop().call_later(self.effect_s, self._effect, name)
        else:
            self._say(pod, "")

    def _effect(self, name: str) -> None:
        pod = self.objects["pods"].get(name)
        if pod is None:
            return
        stated = pod["spec"]["containers"][0]["resources"]
        allocated = self._state(pod)["allocatedResources"]
        self._say(pod, "", resources={**stated, "requests": allocated})
        for other, one in list(self.objects["pods"].items()):
            if any(each["type"].startswith("PodResize") for each in one["status"].get("conditions") or ()):
                self._sync(other)

    def _state(self, pod: Object) -> Object:
        """What a kubelet has given a pod's container; what it first asked for, if nothing was said of it."""
        first = self._had.get(pod["metadata"]["name"]) or pod["spec"]["containers"][0]["resources"]
        plain = {"name": "main", "allocatedResources": first["requests"], "resources": first}
        return next(iter((pod.get("status") or {}).get("containerStatuses") or ()), plain)

    def _say(self, pod: Object, kind: str, reason: str = "", message: str = "", **state: Object) -> None:
        condition = {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "observedGeneration": pod["metadata"].get("generation", 1),
        }
        container = {**self._state(pod), **state}
        kept = [one for one in pod["status"].get("conditions") or () if not one["type"].startswith("PodResize")]
        conditions = [*kept, *([condition] if kind else [])]
        status = {**pod["status"], "containerStatuses": [container], "conditions": conditions}
        self._had.pop(pod["metadata"]["name"], None)
        self._tell("pods", "MODIFIED", {**pod, "status": status})

    # --- the oracle ------------------------------------------------------------------------------------------------

    def _tell(self, plural: str, kind: str, value: Object) -> Object:
        told = super()._tell(plural, kind, value)
        for follower in self.followers:
            asyncio.get_running_loop().call_later(0.2, follower.catch_up)
        if plural == "pods":
            for node in self.nodes:
                total = self.total(node)
                self.peaks[node] = max(self.peaks[node], total)
                if total > self.nodes[node]:
                    self.over.append(f"{node}: {total} of {self.nodes[node]}")
        return told

    def total(self, node: str) -> int:
        """What the pods of a node request together."""
        return sum(counted(pod) for pod in self.objects["pods"].values() if pod["spec"].get("nodeName") == node)

    def asks(self, name: str) -> tuple[int, int]:
        """What a pod's container requests and may use."""
        resources = self.objects["pods"][name]["spec"]["containers"][0]["resources"]
        return milli(resources["requests"]["cpu"]), milli(resources.get("limits", {}).get("cpu", "0m"))

    def has(self, name: str) -> int:
        """What a pod runs with."""
        state = self.objects["pods"][name]["status"]["containerStatuses"][0]
        return milli(state["resources"]["requests"]["cpu"])


def counted(pod: Object) -> int:
    asked = milli(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    (state,) = pod["status"].get("containerStatuses") or [{}]
    granted = [
        milli(one["cpu"])
        for one in (state.get("allocatedResources"), (state.get("resources") or {}).get("requests"))
        if one
    ]
    refused = any(one.get("reason") == "Infeasible" for one in pod["status"].get("conditions") or ())
    return max(granted if refused and granted else [asked, *granted])


class Resizing:
    """Resizes of the pods of a server, as one process has them."""

    def __init__(self, server: KubeletServer, api: Any, **settings: Any) -> None:
        self.server = server
        self.ends: list[ResizeEnd] = []
        self.noted: list[tuple[str, str, str]] = []
        self.cache, _ = make_cache()
        self.leads = True
        clock = LoopClock()
        self.resizes = Resizes(
            api,
            self.cache,
            clock,
            Journal(clock, self._note),
            ResizeRecords(api, "kube-system", "foresail"),
            settings=ResizeSettings(**settings),
            ended=self.ends.append,
        )
        self.resizes.may_act = lambda: self.leads
        self._seen = 0
        server.followers.append(self)
        self.catch_up()

    def _note(self, record: Record) -> None:
        self.noted.append((record.what.value, record.pod.removeprefix("default/"), record.detail))

    def catch_up(self) -> None:
        events = [
            (version, plural, kind, value)
            for plural in ("nodes", "pods")
            for version, kind, value in self.server._history[plural]
            if version > self._seen
        ]
        for version, plural, kind, value in sorted(events, key=lambda event: event[0]):
            self._seen = version
            self.cache.handler("Node" if plural == "nodes" else "Pod").apply(kind, value)

    def ask(self, **cpu_milli: int) -> dict[str, str]:
        """Let pods have so much each, as one answer of a controller; who cannot, and why."""
        self.catch_up()
        counted_milli = {name: self.resizes._tools.counted_milli(f"uid-{name}") or 0 for name in cpu_milli}
        said = {}
        for name in sorted(cpu_milli, key=lambda name: cpu_milli[name] >= counted_milli[name]):
            pod = self.cache.pods.get(f"uid-{name}")
            said[name] = "gone" if pod is None else self.resizes.ask(pod, cpu_milli[name], None, "test")
        self.resizes.start()
        return {name: why for name, why in said.items() if why}

    async def done(self, most_s: float = 600.0) -> None:
        async with asyncio.timeout(most_s):
            while self.resizes.tasks:
                await asyncio.wait(self.resizes.tasks.values())

    def kill(self) -> None:
        """As SIGKILL does."""
        if self in self.server.followers:
            self.server.followers.remove(self)
        for task in self.resizes.tasks.values():
            task.cancel()

    @property
    def outcomes(self) -> list[str]:
        return sorted(end.outcome.value for end in self.ends)


@asynccontextmanager
async def resizing(server: KubeletServer, **settings: Any):
    async with serving(server) as api:
        one = Resizing(server, api, **settings)
        one.api = api
        try:
            yield one
        finally:
            one.kill()
