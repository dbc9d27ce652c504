"""One random cluster on a real API server: made, decided on by kube-scheduler, and taken down again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.client import MERGE
from foresail.kube.api.errors import ApiError
from foresail.kube.api.kinds import KINDS, PRIORITY_CLASS, RUNTIME_CLASS
from foresail.kube.objects.values import Object
from foresail.lab.errors import LabError
from foresail.parity.random_cluster import Case, ParityCluster
from foresail.parity.random_pod import NAMESPACES, ZONE
from foresail.parity.random_storage import BIND_COMPLETED, BOUND_BY_CONTROLLER, HOLD
from foresail.parity.recorded import counted_reasons
from foresail.parity.recorder import CANARY, HELD_BACK, POLL_S, RecordingExtender, SchedulerLog

_KINDS = {**KINDS, RUNTIME_CLASS.kind: RUNTIME_CLASS, PRIORITY_CLASS.kind: PRIORITY_CLASS}
_WORKLOADS = ("Service", "ReplicaSet", "StatefulSet", "ReplicationController")
_UNTOLD = (*_WORKLOADS, "VolumeAttachment")
"""Kinds that kube-scheduler reads without a word in its log; made first, and given time."""
_TOLD = (
    "StorageClass",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "PersistentVolume",
    "PersistentVolumeClaim",
)
_IN_NAMESPACES = (*_WORKLOADS, "CSIStorageCapacity", "PersistentVolumeClaim")
_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)
"""What the API server answers to an object that contradicts itself; anything else is a fault."""
_SETTLE_S = 0.1
_DECIDED_S = 60.0
_NOT_STATED = ("creationTimestamp", "resourceVersion", "managedFields", "generation", "selfLink", "finalizers")


@dataclass(slots=True)
class Recording:
    """What came of a recording."""

    clusters: int = 0
    pods: int = 0
    schedulable: int = 0
    refused: list[str] = field(default_factory=list)
    """What the API server said about objects that it did not take; these are left out."""


def path_of(kind: str, namespace: str = "", name: str = "") -> str:
    """All objects of a kind, those of a namespace, or one of them."""
    found = _KINDS[kind]
    return found.named(name, namespace) if name else found.within(namespace) if namespace else found.path


class ClusterRun:
    """One cluster: made, decided on, and taken down again."""

    def __init__(
        self,
        api: BlockingClient,
        log: SchedulerLog,
        extender: RecordingExtender,
        cluster: ParityCluster,
        result: Recording,
    ) -> None:
        self._api = api
        self._log = log
        self._extender = extender
        self._cluster = cluster
        self._result = result
        self._on: dict[str, dict[str, Any]] = {}
        """Pods on nodes, as the lines have them, by name."""
        self._namespace: dict[str, str] = {}
        self._changed: list[Object] = []
        """Volumes and claims to be told in the next line."""

    def lines(self) -> Iterator[Object]:
        first = self._set_up()
        case = 0
        for asked in self._cluster.cases:
            self._let_leave(asked)
            stated = self._decide(asked.pod)
            if stated is None:
                continue
            yield {"seed": self._cluster.seed, "case": case, **first, **stated}
            first, case = {}, case + 1
        self._tear_down()

    # -- making the cluster ------------------------------------------------------------------------------------------

    def _set_up(self) -> Object:
        cluster, log = self._cluster, self._log
        for name, labels in cluster.namespaces.items():
            merged = {"env": None, "team": None} | labels
            self._api.patch(path_of("Namespace", name=name), {"metadata": {"labels": merged}}, MERGE)
        made: dict[str, int] = dict.fromkeys(_TOLD, 0)
        for value in cluster.objects:
            if value["kind"] in _UNTOLD:
                self._make(value)
        before = log.seen["Add event for node",]
        nodes = [found for node in cluster.nodes if (found := self._make(node)) is not None]
        log.wait("the nodes", lambda: log.seen["Add event for node",] >= before + len(nodes))
        self._make_canary()
        events = dict(log.seen)
        updates = dict.fromkeys(_TOLD, 0)
        for value in cluster.objects:
            kind = value["kind"]
            if kind in made and self._make(value) is not None:
                made[kind] += 1
                updates[kind] += self._bring_into_state(value)
        for kind in _TOLD:
            for action, count in (("Add", made[kind]), ("Update", updates[kind])):
                self._await_events(events, f"{kind}{action}", count)
        time.sleep(_SETTLE_S)
        stated: Object = {
            "namespaces": [
                {"name": one["metadata"]["name"], "labels": one["metadata"].get("labels", {})}
                for one in self._api.items(path_of("Namespace"))
            ]
        }
        for kind in (*_UNTOLD, *_TOLD[:-2]):
            stated[_KINDS[kind].plural] = [_selector_only(_slim(one, kind)) for one in self._api.items(path_of(kind))]
        self._changed = [_slim(one, kind) for kind in _TOLD[-2:] for one in self._api.items(path_of(kind))]
        return {"nodes": [_slim(node, "Node") for node in nodes], "cluster": stated}

    def _make(self, value: Object) -> Object | None:
        """Create an object; one that the API server does not take is left out and counted."""
        metadata = value["metadata"]
        try:
            return self._api.create(path_of(value["kind"], metadata.get("namespace", "")), value)
        except ApiError as error:
            if error.status not in _REFUSED:
                raise
            self._result.refused.append(str(error))
            return None

    def _bring_into_state(self, value: Object) -> int:
        """What an object can only become after it was made; returns the number of changes."""
        kind, metadata = value["kind"], value["metadata"]
        path = path_of(kind, metadata.get("namespace", ""), metadata["name"])
        changes = 0
        if "phase" in value.get("status", {}):
            self._api.patch(f"{path}/status", {"status": value["status"]}, MERGE)
            changes += 1
        if kind == "PersistentVolumeClaim" and HOLD in metadata.get("finalizers", []):
            self._api.delete(path)
            changes += 1
        return changes

    def _make_canary(self) -> None:
        namespace, name = CANARY.split("/")
        field_term = {"key": "metadata.name", "operator": "In", "values": ["foresail-no-such-node"]}
        term = {"nodeSelectorTerms": [{"matchFields": [field_term]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
        spec = {"containers": [{"name": "c", "image": "none"}], "affinity": affinity}
        self._api.create(path_of("Pod", namespace), {"metadata": {"name": name}, "spec": spec})
        deadline = time.monotonic() + _DECIDED_S
        while time.monotonic() < deadline:
            for line in self._log.lines():
                if line.message.startswith("Unable to schedule pod") and line.fields["pod"] == CANARY:
                    return
            time.sleep(POLL_S)
        raise LabError(f"kube-scheduler did not look at pod {CANARY} within {_DECIDED_S:g} s")

    def _await_events(self, before: dict[tuple[str, ...], int], event: str, count: int) -> None:
        if count:
            wanted = before.get(("event", event), 0) + count
            self._log.wait(f"{count} × {event}", lambda: self._log.seen["event", event] >= wanted)

    # -- one decision ------------------------------------------------------------------------------------------------

    def _let_leave(self, case: Case) -> None:
        if case.leaver is None or not self._on:
            return
        standing = sorted(self._on)
        name = standing[int(case.leaver * len(standing))]
        path = path_of("Pod", self._namespace[name], name)
        log = self._log
        if case.lingers and not self._on[name].get("terminating"):
            # Without a kubelet nobody confirms the end, so the pod stays as it is.
            before = log.seen["Update event for scheduled pod",]
            self._api.delete(path)
            log.wait("a terminating pod", lambda: log.seen["Update event for scheduled pod",] > before)
            self._on[name] = self._on[name] | {"terminating": True}
            return
        before = log.seen["Delete event for scheduled pod",]
        self._api.delete(path, {"gracePeriodSeconds": 0})
        log.wait("a pod that left", lambda: log.seen["Delete event for scheduled pod",] > before)
        del self._on[name]

    def _decide(self, wanted: Object) -> Object | None:
        pod = self._make(wanted)
        if pod is None:
            return None
        metadata = pod["metadata"]
        attempts = self._extender.asked.setdefault(metadata["uid"], [])
        answer = self._await_answer(f"{metadata['namespace']}/{metadata['name']}", attempts)
        feasible = attempts[0] if attempts else []
        if any(other != feasible for other in attempts[1:]):
            raise LabError(f"{metadata['name']}: kube-scheduler found {attempts} feasible without a change in between")
        failed = counted_reasons(answer.message)
        if failed.pop(HELD_BACK, 0) != len(feasible):
            raise LabError(f"{metadata['name']}: {len(feasible)} nodes were held back, but it says: {answer.message}")
        stated = {
            "existing": list(self._on.values()),
            "objects": self._changed,
            "pod": _slim(pod, "Pod"),
            "feasible": feasible,
            "failed": failed,
            "weighted_scores": answer.scores,
            "final": answer.final,
            "node": answer.node or None,
            "unschedulable": None if answer.node else answer.message,
        }
        self._changed = []
        self._result.pods += 1
        if answer.node:
            self._result.schedulable += 1
            self._namespace[metadata["name"]] = metadata["namespace"]
            self._on[metadata["name"]] = {"pod": metadata["name"], "node": answer.node}
            self._bind_volumes(pod, answer)
        else:
            log = self._log
            before = log.seen["Delete event for unscheduled pod",]
            self._api.delete(path_of("Pod", metadata["namespace"], metadata["name"]))
            log.wait("a pod given up", lambda: log.seen["Delete event for unscheduled pod",] > before)
        del self._extender.asked[metadata["uid"]]
        return stated

    def _await_answer(self, key: str, attempts: list[list[str]]) -> _Decided:
        answer = _Decided()
        deadline = time.monotonic() + _DECIDED_S
        while time.monotonic() < deadline:
            for line in self._log.lines():
                told = line.fields
                if told.get("pod") != key:
                    continue
                if line.message == "Plugin scored node for pod":
                    answer.scores.setdefault(told["node"], {})[told["plugin"]] = int(told["score"])
                elif line.message.startswith("Calculated node"):
                    answer.final[told["node"]] = int(told["score"])
                elif line.message.startswith("AssumePodVolumes"):
                    answer.volumes[told["PVC"]] = told["PV"]
                elif line.message.startswith("Unable to schedule pod"):
                    answer.message = told["err"]
                    if not attempts:
                        return answer
                elif line.message.startswith("Successfully bound"):
                    answer.node = told["node"]
                    return answer
                elif line.message.startswith("Error scheduling pod"):
                    raise LabError(f"kube-scheduler failed on pod {key}: {told.get('err')}")
            time.sleep(POLL_S)
        raise LabError(f"kube-scheduler did not decide about pod {key} within {_DECIDED_S:g} s")

    # -- volumes -----------------------------------------------------------------------------------------------------

    def _bind_volumes(self, pod: Object, answer: _Decided) -> None:
        """What the controller of volumes and a provisioner would do for the claims that waited for this pod."""
        namespace = pod["metadata"]["namespace"]
        events = dict(self._log.seen)
        made = updated = claims = 0
        for volume in pod["spec"].get("volumes", []):
            if "persistentVolumeClaim" not in volume:
                continue
            name = volume["persistentVolumeClaim"]["claimName"]
            claim = self._api.get(path_of("PersistentVolumeClaim", namespace, name))
            if BIND_COMPLETED in claim["metadata"].get("annotations", {}):
                continue
            chosen = answer.volumes.get(f"{namespace}/{name}")
            if chosen is None:
                chosen = f"pvc-{namespace}-{name}"
                bound = self._provision(chosen, claim, answer.node)
                made += 1
            else:
                body: Object = {"spec": {"claimRef": _claim_ref(claim)}}
                bound = self._api.patch(path_of("PersistentVolume", name=chosen), body, MERGE)
                updated += 1
            done = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
            body = {"metadata": {"annotations": done}, "spec": {"volumeName": chosen}}
            claim = self._api.patch(path_of("PersistentVolumeClaim", namespace, name), body, MERGE)
            claims += 1
            self._changed += [_slim(bound, "PersistentVolume"), _slim(claim, "PersistentVolumeClaim")]
        self._await_events(events, "PersistentVolumeAdd", made)
        self._await_events(events, "PersistentVolumeUpdate", updated)
        self._await_events(events, "PersistentVolumeClaimUpdate", claims)

    def _provision(self, name: str, claim: Object, node: str) -> Object:
        labels = next(one for one in self._cluster.nodes if one["metadata"]["name"] == node)["metadata"]["labels"]
        classes = [one for one in self._cluster.objects if one["kind"] == "StorageClass"]
        stated = claim["spec"]
        driver = next(one["provisioner"] for one in classes if one["metadata"]["name"] == stated["storageClassName"])
        spec: Object = {
            "capacity": {"storage": stated["resources"]["requests"]["storage"]},
            "accessModes": stated["accessModes"],
            "storageClassName": stated["storageClassName"],
            "csi": {"driver": driver, "volumeHandle": f"h-{name}"},
            "claimRef": _claim_ref(claim),
        }
        if ZONE in labels:
            requirement = {"key": ZONE, "operator": "In", "values": [labels[ZONE]]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
        return self._api.create(path_of("PersistentVolume"), {"metadata": {"name": name}, "spec": spec})

    # -- taking the cluster down -------------------------------------------------------------------------------------

    def _tear_down(self) -> None:
        log = self._log
        before = dict(log.seen)
        for namespace in NAMESPACES:
            for name, own in self._namespace.items():
                if own == namespace and name in self._on:
                    self._api.delete(path_of("Pod", namespace, name), {"gracePeriodSeconds": 0})
        gone = before.get(("Delete event for scheduled pod",), 0) + len(self._on)
        log.wait("that all pods left", lambda: log.seen["Delete event for scheduled pod",] >= gone)
        for claim in self._api.items(path_of("PersistentVolumeClaim")):
            if claim["metadata"].get("finalizers"):
                metadata = claim["metadata"]
                path = path_of("PersistentVolumeClaim", metadata["namespace"], metadata["name"])
                self._api.patch(path, {"metadata": {"finalizers": None}}, MERGE)
        for kind in (*_UNTOLD, *_TOLD):
            self._delete_all(kind)
        namespace, name = CANARY.split("/")
        self._api.delete(path_of("Pod", namespace, name), {"gracePeriodSeconds": 0})
        removed = before.get(("Delete event for node",), 0) + len(self._api.items(path_of("Node")))
        self._api.delete(path_of("Node"))
        log.wait("that all nodes left", lambda: log.seen["Delete event for node",] >= removed)

    def _delete_all(self, kind: str) -> None:
        namespaces: tuple[str, ...] = NAMESPACES if kind in _IN_NAMESPACES else ("",)
        before = dict(self._log.seen)
        count = len(self._api.items(path_of(kind)))
        for namespace in namespaces:
            if kind == "Service":
                for service in self._api.items(path_of(kind, namespace)):
                    if service["metadata"]["name"] != "kubernetes":
                        self._api.delete(path_of(kind, namespace, service["metadata"]["name"]))
                continue
            # Controllers orphan their pods unless told otherwise, which takes a controller.
            self._api.delete(path_of(kind, namespace), {"propagationPolicy": "Background"})
        if kind in _TOLD:
            self._await_events(before, f"{kind}Delete", count)


@dataclass(slots=True)
class _Decided:
    """What the log told about one pod."""

    message: str = ""
    node: str = ""
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    final: dict[str, int] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    """Claim to the volume that was chosen for it; claims that wait for a new one are not there."""


def _claim_ref(claim: Object) -> Object:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _slim(value: Object, kind: str) -> Object:
    """An object as stored, without what only a server needs."""
    metadata = {key: one for key, one in value["metadata"].items() if key not in _NOT_STATED}
    if kind != "PersistentVolumeClaim":
        metadata.pop("uid", None)
    slim = {"kind": kind, **value, "metadata": metadata}
    if kind in {"Pod", "CSINode", "Service"}:
        slim.pop("status", None)
    return slim


def _selector_only(value: Object) -> Object:
    """Of a service or controller only its selector matters."""
    if value["kind"] in _WORKLOADS:
        value = {
            "kind": value["kind"],
            "metadata": value["metadata"],
            "spec": {"selector": value["spec"].get("selector")},
        }
    return value
