"""A board of Leases on the API server: one for the job and one a task, changed by compare-and-swap.

What is said stands in an annotation; who has a task, and since when there is no sign of it, in the fields that Leases
have for that.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from foresail.workloads.supersteps.api_server import ApiAccess, PlainApi, Watching
from foresail.workloads.supersteps.board import JOB, BoardError, Stored, StoreTroubleError

RECORD = "foresail.dev/superstep-record"
"""Annotation of a Lease: what the job or the task has said last, as JSON."""
JOB_LABEL = "foresail.dev/superstep-job"
"""Label of all Leases of a job."""
LEASE_S = 15
"""A task without a sign of life for so long is not present."""
_RENEW_S = 5.0
_WATCH_S = 300
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

Lease = dict[str, Any]


class LeaseStore:
    """Leases NAME and NAME.TASK in a namespace."""

    def __init__(self, access: ApiAccess, namespace: str, name: str) -> None:
        for what, word in (("namespace", namespace), ("job", name)):
            if not _NAME.fullmatch(word):
                raise BoardError(f'{what} "{word}"; write up to 63 of a-z, 0-9 and -, not - at an end')
        self.address = f"lease://{namespace}/{name}"
        self._api = PlainApi(access)
        self._name = name
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace
        self._seen: dict[str, Lease] = {}
        """By name: what was read last, to change it."""
        self._mine = threading.local()
        self._watching: tuple[str | None, Watching] | None = None
        self._streamed: dict[str, str] = {}
        """By Lease: its record in the last event of the stream, to tell news from signs of life."""
        self._signs: dict[str, tuple[Any, float]] = {}
        self._keeper: LeaseKeeper | None = None

    def read(self, name: str, by_s: float) -> Stored | None:
        # A list, though of one: it says as of when there is none, so that a watch from there misses nothing.
        items, self._versions[name] = self._list(self._only(name), by_s)
        if not items:
            self._seen.pop(name, None)
            return None
        self._seen[name] = items[0]
        return _stored(items[0])

    def read_tasks(self, by_s: float, wanted: Collection[str] | None = None) -> Mapping[str, Stored]:  # noqa: ARG002 - one list has them all
        items, self._versions[None] = self._list(self._selector, by_s)
        before = f"{self._name}."
        found = {
            name.removeprefix(before): one for one in items if (name := one["metadata"]["name"]).startswith(before)
        }
        for task, lease in found.items():
            self._seen[task] = lease
            spec = lease.get("spec") or {}
            sign = (spec.get("renewTime"), spec.get("leaseTransitions"))
            if self._signs.get(task, (None, 0.0))[0] != sign:
                # No clock of another machine is trusted: what counts is when we saw it change.
                self._signs[task] = (sign, time.monotonic())
        return {task: _stored(lease) for task, lease in found.items()}

    def write(self, name: str, text: str, was: Stored | None, by_s: float) -> bool:
        about: dict[str, Any]
        if was is None:
            about = {"name": self._lease(name), "namespace": self._namespace, "labels": {JOB_LABEL: self._name}}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": about, "spec": {}}
            method, path = "POST", self._leases
        else:
            there = self._seen.get(name)
            if there is None or there["metadata"]["resourceVersion"] != was.version:
                return False
            about = dict(there["metadata"])
            about.pop("managedFields", None)
            about["labels"] = {**(about.get("labels") or {}), JOB_LABEL: self._name}
            lease = {**there, "metadata": about}
            method, path = "PUT", self._path(name)
        about["annotations"] = {**(about.get("annotations") or {}), RECORD: text}
        status, found = self._api.request(method, path, lease, by_s=by_s)
        if status in {404, 409} and (was is not None or found.get("reason") == "AlreadyExists"):
            return False
        if status not in {200, 201}:
            raise StoreTroubleError(f"{method} {path}: {status} {found.get('message', '')}")
        self._seen[name] = found
        return True

    def wait(self, name: str | None, by_s: float) -> None:
        watching = self._watch(name, by_s)
        if watching is None:
            return
        try:
            while time.monotonic() < by_s:
                event = watching.next(by_s)
                if event is None or event.get("type") not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}:
                    # The server ends a watch now and then, or no longer has the version to go on from.
                    self._end_watch()
                    return
                if event["type"] != "BOOKMARK" and self._is_news(event):
                    return
        except StoreTroubleError:
            self._end_watch()
            if time.monotonic() < by_s:
                raise

    def announce(self, task: str, pod_uid: str, attempt: int, by_s: float) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        self._keeper = LeaseKeeper(self._api.another(), self._path(task), pod_uid or task, attempt)
        self._keeper.renew(by_s)
        self._keeper.start()

    def present(self, by_s: float) -> Mapping[str, int]:
        self.read_tasks(by_s)
        now_s, found = time.monotonic(), {}
        for task, (sign, since_s) in self._signs.items():
            if isinstance(sign[1], int) and isinstance(sign[0], str) and now_s - since_s < LEASE_S:
                found[task] = sign[1]
        return found

    def remove(self, by_s: float) -> None:
        # One by one: whoever may delete a Lease need not be allowed to delete all of a kind.
        items, _version = self._list(self._selector, by_s)
        for lease in items:
            path = f"{self._leases}/{lease['metadata']['name']}"
            status, found = self._api.request("DELETE", path, by_s=by_s)
            if status not in {200, 202, 404}:
                raise StoreTroubleError(f"DELETE {path}: {status} {found.get('message', '')}")

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
            self._keeper = None
        self._end_watch()
        self._api.close()

    @property
    def _versions(self) -> dict[str | None, str]:
        """By what is watched: the version that this thread has read last; what others have read may be news to it."""
        if not hasattr(self._mine, "versions"):
            self._mine.versions = {}
        found: dict[str | None, str] = self._mine.versions
        return found

    @property
    def _selector(self) -> str:
        return f"labelSelector={quote(f'{JOB_LABEL}={self._name}')}"

    def _only(self, name: str) -> str:
        return f"fieldSelector=metadata.name%3D{self._lease(name)}"

    def _lease(self, name: str) -> str:
        return self._name if name == JOB else f"{self._name}.{name}"

    def _path(self, name: str) -> str:
        return f"{self._leases}/{self._lease(name)}"

    def _list(self, selector: str, by_s: float) -> tuple[list[Lease], str]:
        status, found = self._api.request("GET", f"{self._leases}?{selector}", by_s=by_s)
        if status != 200:
            raise StoreTroubleError(f"GET {self._leases}: {status} {found.get('message', '')}")
        return found.get("items") or [], found["metadata"]["resourceVersion"]

    def _watch(self, name: str | None, by_s: float) -> Watching | None:
        """The stream that is open, or one from what was read last; None if nothing was read."""
        if self._watching is not None:
            if self._watching[0] == name:
                return self._watching[1]
            self._end_watch()
        version = self._versions.get(name)
        if version is None:
            return None
        selector = self._selector if name is None else self._only(name)
        path = f"{self._leases}?watch=1&{selector}&resourceVersion={version}&timeoutSeconds={_WATCH_S}"
        self._watching = (name, self._api.another().watch(path, by_s))
        return self._watching[1]

    def _is_news(self, event: Mapping[str, Any]) -> bool:
        """Whether it says anything but that somebody is still there."""
        lease = event.get("object") or {}
        name, record = str((lease.get("metadata") or {}).get("name", "")), _record(lease)
        was = self._streamed.get(name)
        self._streamed[name] = record
        return event["type"] != "MODIFIED" or record != was

    def _end_watch(self) -> None:
        if self._watching is not None:
            self._watching[1].close()
            self._watching = None
            self._streamed.clear()


class LeaseKeeper:
    """Renews a task's Lease while the task works; stops by itself once another has the task."""

    def __init__(self, api: PlainApi, path: str, holder: str, attempt: int) -> None:
        self._api, self._path, self._holder, self._attempt = api, path, holder, attempt
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="foresail-lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_RENEW_S)

    def renew(self, by_s: float) -> None:
        """Say once that we are there."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self._holder, "leaseDurationSeconds": LEASE_S, "renewTime": now}
        body = {"spec": {**spec, "leaseTransitions": self._attempt}}
        status, found = self._api.request(
            "PATCH", self._path, body, by_s=by_s, content_type="application/merge-patch+json"
        )
        if status != 200:
            raise StoreTroubleError(f"PATCH {self._path}: {status} {found.get('message', '')}")

    def _renewed(self, by_s: float) -> bool:
        """Renew, unless another has come after us."""
        status, found = self._api.request("GET", self._path, by_s=by_s)
        attempt = (found.get("spec") or {}).get("leaseTransitions")
        if status == 404 or (isinstance(attempt, int) and attempt > self._attempt):
            return False
        self.renew(by_s)
        return True

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_RENEW_S):
                with suppress(StoreTroubleError):
                    if not self._renewed(time.monotonic() + _RENEW_S):
                        return
        finally:
            self._api.close()


def _record(lease: Mapping[str, Any]) -> str:
    found = ((lease.get("metadata") or {}).get("annotations") or {}).get(RECORD, "")
    return found if isinstance(found, str) else ""


def _stored(lease: Lease) -> Stored:
    return Stored(_record(lease), lease["metadata"]["resourceVersion"])
