"""Give a pod its volumes before it is bound: write down which ones, and wait until the cluster has made it so."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from foresail.core.objects import Claim, Volume
from foresail.core.volumes import Taken
from foresail.kube.api import kinds
from foresail.kube.api.client import MERGE, Client
from foresail.kube.api.errors import ClusterError
from foresail.live.cache.cache import Cache
from foresail.live.cache.volume_books import CLAIM, VOLUME
from foresail.policies.kubernetes.volume_binding import reaching

BIND_TIMEOUT_S = 600.0
"""How long a pod's claims may take to be bound; kube-scheduler's default."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"

_LOOK_EVERY_S = 1.0
"""A volume may be told later than the claim that is bound to it, and then nothing else is told."""


class VolumeBinder:
    """Carries the volumes that a decision took to the API server, as kube-scheduler does in its PreBind.

    Volumes that exist get a reference to their claim, claims whose volume is to be made get the node's name; the
    cluster's volume controller and the provisioners do the rest. What was written stays there whatever happens to the
    pod: the next decision finds it, also that of another process.
    """

    def __init__(self, api: Client, cache: Cache, *, timeout_s: float = BIND_TIMEOUT_S) -> None:
        self.stopped = ""
        """Why nobody may wait any longer, empty as long as they may."""
        self._api = api
        self._cache = cache
        self._books = cache.volumes
        self._timeout_s = timeout_s

    def stop(self, why: str) -> None:
        """Let nobody wait any longer until `stopped` is emptied."""
        self.stopped = why
        for taken in self._books.by_pod.values():
            taken.on_news()

    async def write(self, uid: str, taken: Taken) -> str:
        """Tell the API server; returns what went wrong, empty for nothing."""
        try:
            for claim, volume in taken.plan.static:
                await self._keep_volume(uid, taken, claim, volume)
            for claim in taken.plan.dynamic:
                await self._select_node(uid, taken, claim)
        except (ClusterError, _TakenElsewhereError) as error:
            return f"binding volumes: {error}"
        return ""

    async def wait(self, uid: str, taken: Taken) -> str:
        """Wait until all claims are bound; returns what went wrong, empty for nothing."""
        news = asyncio.Event()
        taken.on_news = news.set
        until_s = time.monotonic() + self._timeout_s
        while True:
            news.clear()
            why = self.stopped or self._progress(taken)
            if why is not None:
                break
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                why = f"{self._unbound(taken)} not bound within {self._timeout_s:g} s"
                break
            with contextlib.suppress(TimeoutError):
                # Before Python 3.12 wait_for loses a cancel that comes together with news.
                async with asyncio.timeout(min(left_s, _LOOK_EVERY_S)):
                    await news.wait()
        if why:
            return f"binding volumes: {why}"
        self._books.finish(uid)
        return ""

    # --- writing ---------------------------------------------------------------------------------------------------

    async def _keep_volume(self, uid: str, taken: Taken, claim: Claim, volume: Volume) -> None:
        self._check(taken)
        told, kept_for = self._books.volume_as_told(volume.name), _reference(claim)
        if told is None or (told.claim is not None and told.claim not in (kept_for, (*kept_for[:2], ""))):
            raise _TakenElsewhereError(f'volume "{volume.name}" is gone, or another claim has it')
        if told.claim != kept_for:
            metadata: dict[str, Any] = {"resourceVersion": self._books.version(VOLUME, volume.name)}
            if told.claim is None:
                # Says that the controller may release the volume again; one that its owner kept for the claim stays so.
                metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
            reference = {
                "apiVersion": "v1",
                "kind": CLAIM,
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
                "resourceVersion": self._books.version(CLAIM, (claim.namespace, claim.name)),
            }
            body = {"metadata": metadata, "spec": {"claimRef": reference}}
            await self._patch(VOLUME, kinds.VOLUME.named(volume.name), body)
        self._books.volume_carried(uid, volume.name)

    async def _select_node(self, uid: str, taken: Taken, claim: Claim) -> None:
        self._check(taken)
        key = (claim.namespace, claim.name)
        told = self._books.claim_as_told(key)
        if told is None or told.uid != claim.uid or told.selected_node not in {"", taken.node}:
            raise _TakenElsewhereError(f'claim "{claim.name}" is gone, or its volume is made on another node')
        if told.selected_node != taken.node and not told.bound:
            metadata = {
                "resourceVersion": self._books.version(CLAIM, key),
                "annotations": {SELECTED_NODE: taken.node},
            }
            path = kinds.CLAIM.named(claim.name, claim.namespace)
            await self._patch(CLAIM, path, {"metadata": metadata})
        self._books.claim_carried(uid, key)

    def _check(self, taken: Taken) -> None:
        if taken.is_over:
            raise _TakenElsewhereError(self._lost(taken))

    async def _patch(self, kind: str, path: str, body: dict[str, Any]) -> None:
        # The version is a precondition: who else wrote meanwhile may have had the same in mind for another claim.
        answer = await self._api.patch(path, body, content_type=MERGE)
        if self._books.wrote(kind, answer):
            self._cache.put_object(kind, answer)

    # --- waiting ---------------------------------------------------------------------------------------------------

    def _progress(self, taken: Taken) -> str | None:
        """What went wrong, empty if all is done, None if there is more to wait for."""
        table = self._cache.table
        row = table.row_of.get(taken.node)
        if taken.is_over or row is None:
            return self._lost(taken)
        volumes, claims = table.objects.volumes, table.objects.claims
        done = True
        for claim, volume in taken.plan.static:
            kept = volumes.get(volume.name)
            if kept is None or kept.claim != _reference(claim):
                return f'volume "{volume.name}" is no longer kept for claim "{claim.name}"'
        selected = {claim.name for claim in taken.plan.dynamic}
        for claim in taken.plan.claims:
            now = claims.get((claim.namespace, claim.name))
            if now is None or now.uid != claim.uid:
                return f'claim "{claim.name}" was deleted'
            if claim.name in selected and now.selected_node != taken.node:
                # That is how a provisioner says so.
                return f'provisioning failed for PVC "{claim.name}"'
            used = volumes.get(now.volume)
            if used is not None and not reaching(table, used)[row]:
                return f'pv "{used.name}" node affinity doesn\'t match node "{taken.node}"'
            done = done and now.bound and used is not None
        return "" if done else None

    def _lost(self, taken: Taken) -> str:
        if taken.node in self._cache.table.row_of:
            return "the pod was deleted"
        return f'node "{taken.node}" went away'

    def _unbound(self, taken: Taken) -> str:
        claims = self._cache.table.objects.claims
        names = [
            f'"{claim.name}"'
            for claim in taken.plan.claims
            if (now := claims.get((claim.namespace, claim.name))) is None or not now.bound
        ]
        return f"claims {', '.join(names)} were"


class _TakenElsewhereError(Exception):
    """What was decided cannot be carried out: another was quicker."""


def _reference(claim: Claim) -> tuple[str, str, str]:
    return claim.namespace, claim.name, claim.uid
