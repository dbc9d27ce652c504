"""What a surge asks of the API server: one replica more of a Deployment, and one less; and which pod goes then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import Conflict, NotFound
from foresail.kube.api.kinds import DEPLOYMENT, POD
from foresail.kube.api.retries import until_done
from foresail.live.actions.binding import PodName

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
FIRST_TO_GO = "-2147483648"
_CALLED_OFF = "foresail.dev/called-off"


class Scaler:
    """Changes a Deployment's replicas, for as long as nobody else does.

    Each change names the version that it is based on, and writes as a field manager of its own. So it is known later,
    to whoever asks, whether the number of replicas is still ours.
    """

    def __init__(self, api: Client, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep

    async def read(self, namespace: str, name: str, uid: str) -> Object | None:
        """The Deployment; None if it is gone."""
        path = DEPLOYMENT.named(name, namespace)
        try:
            found = await until_done(lambda: self._api.get(path), attempts=None, sleep=self._sleep)
        except NotFound:
            return None
        return found if found["metadata"]["uid"] == uid else None

    async def scale(self, deployment: Object, replicas: int, manager: str) -> bool:
        """Set the replicas of a Deployment as it was read; False if it has changed since.

        Asks until there is an answer: then the Deployment has another version, for which nothing was asked.
        """
        return await self._write(deployment, {"spec": {"replicas": replicas}}, manager)

    async def call_off(self, deployment: Object, manager: str) -> bool:
        """Give the Deployment a new version, so that no change of replicas that is still on its way has an effect."""
        marked = await self._write(deployment, {"metadata": {"annotations": {_CALLED_OFF: manager}}}, manager)
        metadata = deployment["metadata"]
        found = await self.read(metadata["namespace"], metadata["name"], metadata["uid"])
        if found is not None and _CALLED_OFF in (found["metadata"].get("annotations") or {}):
            await self._write(found, {"metadata": {"annotations": {_CALLED_OFF: None}}}, manager)
        return marked

    async def _write(self, deployment: Object, patch: Object, manager: str) -> bool:
        metadata = deployment["metadata"]
        about = {name: metadata[name] for name in ("uid", "resourceVersion")}
        body = {**patch, "metadata": {**about, **patch.get("metadata", {})}}
        path = DEPLOYMENT.named(metadata["name"], metadata["namespace"])

        async def patched() -> bool:
            try:
                await self._api.patch(path, body, fieldManager=manager)
            except (Conflict, NotFound):
                return False
            return True

        return await until_done(patched, attempts=None, sleep=self._sleep)

    async def say_who_goes(self, pod: PodName, *, goes: bool = True) -> None:
        """Let a ReplicaSet that has a pod too many take this one, of those that are ready; or any again."""
        cost = FIRST_TO_GO if goes else None
        body = {"metadata": {"uid": pod.uid, "annotations": {DELETION_COST: cost}}}
        try:
            await self._api.patch(POD.named(pod.name, pod.namespace), body)
        except (Conflict, NotFound):
            return  # it has left, and another has its name


def replicas_of(deployment: Object) -> int:
    """How many pods a Deployment wants."""
    stated = (deployment.get("spec") or {}).get("replicas")
    return 1 if stated is None else int(stated)


def is_scaled_by(deployment: Object, manager: str) -> bool:
    """Whether the number of replicas is what this manager has written."""
    return any(
        one.get("manager") == manager and "f:replicas" in ((one.get("fieldsV1") or {}).get("f:spec") or {})
        for one in deployment["metadata"].get("managedFields") or ()
    )
