"""A Deployment's controllers as a test plays them: as many pods as it wants, and who goes if there are too many."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from tests.live.api_server import ApiServer
from tests.live.moves.stage import Stage, owned_by

Object = dict[str, Any]
COST = "controller.kubernetes.io/pod-deletion-cost"


def make_deployment(name: str, **spec: Any) -> tuple[Object, Object]:
    """A Deployment of one replica, and its ReplicaSet."""
    above = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"replicas": 1, "strategy": {"type": "RollingUpdate"}, **spec},
        "status": {"replicas": 1},
    }
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"uid-{name}", "controller": True}
    metadata = {"name": f"{name}-1", "namespace": "default", "uid": f"uid-{name}-1", "ownerReferences": [reference]}
    return above, {"metadata": metadata, "spec": {"replicas": 1}}


class Controllers:
    """Those of one Deployment."""

    def __init__(self, told: ApiServer, name: str, pod: Object) -> None:
        self._told = told
        self._name = name
        self._pod = copy.deepcopy(pod)
        self._pod["spec"].pop("nodeName", None)
        self.made = 0
        self.makes = True

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            wanted = self._told.objects["deployments"][self._name]["spec"]["replicas"]
            here = self._pods()
            if len(here) < wanted and self.makes:
                self.made += 1
                made = copy.deepcopy(self._pod)
                name = f"{self._pod['metadata']['name']}-{self.made}"
                made["metadata"] |= {"name": name, "uid": f"uid-{name}"}
                made["status"] = {"phase": "Pending"}
                self._told.put("pods", made)
            elif len(here) > wanted:
                self._told._change("DELETE", "pods", min(here, key=_order), "", {})

    def _pods(self) -> list[Object]:
        owner = self._pod["metadata"]["ownerReferences"][0]["uid"]
        return [
            one
            for one in self._told.objects["pods"].values()
            if one["metadata"].get("ownerReferences", [{}])[0].get("uid") == owner
            and "deletionTimestamp" not in one["metadata"]
            and one["status"].get("phase") not in {"Succeeded", "Failed"}
        ]


def _order(pod: Object) -> tuple[bool, bool, bool, int, int]:
    """As ReplicaSets rank those that may go: the first one does."""
    conditions = pod["status"].get("conditions") or ()
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    cost = int((pod["metadata"].get("annotations") or {}).get(COST, 0))
    newest_first = -int(pod["metadata"]["resourceVersion"])
    return bool(pod["spec"].get("nodeName")), pod["status"]["phase"] != "Pending", is_ready, cost, newest_first


def deployed(stage: Stage, name: str = "web", **spec: Any) -> Controllers:
    """A Deployment whose one pod, NAME-x, trains on node a."""
    above, below = make_deployment(name, **spec)
    stage.put("deployments", above)
    stage.put("replicasets", below)
    pod = owned_by(below, "ReplicaSet", stage.pod(f"{name}-x", job=name, restartPolicy="Always"))
    stage.put("pods", pod)
    made = Controllers(stage.told, name, pod)
    stage.owners.append(made)  # type: ignore[arg-type] - it is run like them
    return made
