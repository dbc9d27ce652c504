"""Work in pods with limits on CPU, where the tasks of a job will run: a pod for each amount of CPU, one at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from foresail.errors import ForesailError, OptionError
from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.client import Object
from foresail.kube.api.connect import Connection
from foresail.kube.api.errors import NotFound
from foresail.kube.objects.quantity import milli
from foresail.measure.pods import log_of, own_namespace, ready_nodes, why_not_running
from foresail.measure.stress.run import Work
from foresail.workloads.stress import StressTook

_LOOK_EVERY_S = 0.5
_GONE_S = 120.0


class StressOnKube:
    """Pods on one node, in a namespace that goes at the end."""

    def __init__(
        self, api: BlockingClient, namespace: str, image: str, node: Object, *, give_up_s: float = 3600.0
    ) -> None:
        self._api, self._image, self._node, self._give_up_s = api, image, node, give_up_s
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._made = 0

    @classmethod
    @contextmanager
    def connected(cls, connection: Connection, image: str, node: str | None = None) -> Iterator[StressOnKube]:
        """On a node of a cluster; without a name, on the one with the most CPU."""
        with BlockingClient(connection) as api:
            nodes = {str(one["metadata"]["name"]): one for one in ready_nodes(api)}
            if node is not None and node not in nodes:
                raise OptionError(f'no node "{node}" is ready; there are {", ".join(nodes)}')
            chosen = nodes[node] if node is not None else max(nodes.values(), key=_allocatable_milli)
            with own_namespace(api) as namespace:
                yield cls(api, namespace, image, chosen)

    @property
    def where(self) -> dict[str, str]:
        return {"on": "kube", "image": self._image, "node": str(self._node["metadata"]["name"])}

    @property
    def most_milli(self) -> int:
        return _allocatable_milli(self._node)

    def do(self, cpu_milli: int, works: Sequence[Work]) -> Generator[StressTook]:
        self._made += 1
        name = f"stress-{self._made}"
        self._api.create(self._pods, _pod(name, self._image, self.where["node"], cpu_milli, works))
        try:
            yield from self._listen(name, len(works))
        finally:
            # Also when nobody listens to the end: a node has room for the next one only when it is gone.
            self._remove(name)

    def _listen(self, name: str, count: int) -> Generator[StressTook]:
        told = 0
        heard_s = time.monotonic()
        while told < count:
            pod = self._api.get(f"{self._pods}/{name}")
            # After the pod: what it had printed when it ended is all there.
            found = took_in(log_of(self._api, f"{self._pods}/{name}/log"))
            for took in found[told:]:
                yield took
                heard_s = time.monotonic()
            told = max(told, len(found))
            if told < count:
                self._check(pod, name, told, count, heard_s)
                time.sleep(_LOOK_EVERY_S)

    def _remove(self, name: str) -> None:
        until_s = time.monotonic() + _GONE_S
        try:
            self._api.delete(f"{self._pods}/{name}")
            while time.monotonic() < until_s:
                self._api.get(f"{self._pods}/{name}")
                time.sleep(_LOOK_EVERY_S / 5)
        except NotFound:
            return
        raise ForesailError(
            f"pod {name} is not gone from {self.where['node']} after {_GONE_S:g} s; is its kubelet there?"
        )

    def _check(self, pod: Object, name: str, told: int, count: int, heard_s: float) -> None:
        phase = pod["status"].get("phase")
        if phase in {"Failed", "Succeeded"} or (why := why_not_running(pod)):
            said = " ".join(log_of(self._api, f"{self._pods}/{name}/log").split()[-30:])
            reason = " ".join(str(pod["status"].get(key) or "") for key in ("reason", "message")).strip()
            told_why = said or reason or "it told nothing; is it an image with foresail.workloads?"
            raise ForesailError(
                f"stress-ng failed in its pod on {self.where['node']} after {told} of {count} pieces of work: "
                f"{told_why if phase in {'Failed', 'Succeeded'} else why}"
            )
        if time.monotonic() - heard_s > self._give_up_s:
            raise ForesailError(f"pod {name} on {self.where['node']} has told nothing for {self._give_up_s:g} s")


def _allocatable_milli(node: Object) -> int:
    return milli(node["status"]["allocatable"]["cpu"])


def took_in(log: str) -> list[StressTook]:
    """What a pod has told so far, whole lines alone."""
    whole = log.rpartition("\n")[0].splitlines()
    return [StressTook(**json.loads(line)) for line in whole if line.startswith("{")]


def _pod(name: str, image: str, node: str, cpu_milli: int, works: Sequence[Work]) -> dict[str, Any]:
    cpu = {"cpu": f"{cpu_milli}m"}
    return {
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "stress",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-m", "foresail.workloads.stress"],
                    "args": [":".join(map(str, work)) for work in works],
                    "resources": {"requests": cpu, "limits": cpu},
                }
            ],
        },
    }
