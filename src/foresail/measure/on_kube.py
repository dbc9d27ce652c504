"""Measure trainers where they will run: in pods of an image, on nodes of a cluster, under the nodes' caps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from foresail.errors import ForesailError
from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.client import Object
from foresail.kube.api.connect import Connection
from foresail.measure.pods import log_of, own_namespace, ready_nodes, why_not_running

_LOOK_EVERY_S = 1.0
_LABEL = "foresail.dev/measures"


class TrainersOnKube:
    """A pod for each model, all at once and spread over the nodes, as busy as they are in a run."""

    def __init__(self, connection: Connection, image: str, *, give_up_s: float = 3600.0) -> None:
        self._connection, self._image, self._give_up_s = connection, image, give_up_s

    @property
    def where(self) -> dict[str, str]:
        """What seconds depend on."""
        return {"image": self._image}

    def measure(
        self, models: Sequence[str], arguments: Sequence[str], on_progress: Callable[[int, int], None] | None = None
    ) -> Generator[tuple[str, dict[str, Any]]]:
        """What each model took, as soon as its pod has told."""
        with BlockingClient(self._connection) as api, own_namespace(api) as namespace:
            nodes = [node["metadata"]["name"] for node in ready_nodes(api)]
            pods = f"/api/v1/namespaces/{namespace}/pods"
            for at, model in enumerate(models):
                api.create(pods, _pod(model, self._image, nodes[at % len(nodes)], arguments))
            shares = dict.fromkeys(models, 0.0)
            until_s = time.monotonic() + self._give_up_s
            left = set(models)
            while left:
                for pod in api.items(pods):
                    model = pod["metadata"]["labels"][_LABEL]
                    if model not in left:
                        continue
                    told = log_of(api, f"{pods}/{pod['metadata']['name']}/log")
                    shares[model] = max(shares[model], share_done(told))
                    phase = pod["status"].get("phase")
                    if phase == "Failed" or (why := why_not_running(pod)):
                        said = " ".join(told.split()[-30:]) if phase == "Failed" else why
                        raise ForesailError(f"trainer {model} failed in its pod on {pod['spec']['nodeName']}: {said}")
                    if phase == "Succeeded":
                        shares[model] = 1.0
                        left.discard(model)
                        yield model, result_in(told, model)
                if on_progress is not None:
                    on_progress(round(100 * sum(shares.values())), 100 * len(models))
                if left and time.monotonic() > until_s:
                    raise ForesailError(f"{', '.join(sorted(left))} did not end within {self._give_up_s:g} s")
                if left:
                    time.sleep(_LOOK_EVERY_S)


def _pod(model: str, image: str, node: str, arguments: Sequence[str]) -> Object:
    return {
        "metadata": {"name": f"measure-{model}", "labels": {_LABEL: model}},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "measure",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-m", "foresail.workloads.trainers.measuring", model, *arguments],
                }
            ],
        },
    }


def share_done(log: str) -> float:
    """How far a trainer has come, by what it has printed."""
    for line in reversed(log.splitlines()):
        done, slash, total = line.strip().partition("/")
        if slash and done.isdecimal() and total.isdecimal() and int(total):
            return min(1.0, int(done) / int(total))
    return 0.0


def result_in(log: str, model: str) -> dict[str, Any]:
    """What a trainer printed of itself."""
    for line in reversed(log.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise ForesailError(f"trainer {model} ended in its pod and told nothing; is it an image with foresail.workloads?")
