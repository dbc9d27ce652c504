"""What is moved: training jobs under every kind of owner, as their users write them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.live.faults.world import RUN_LABEL, Object

JOB = "foresail.dev/job"
INDEX = "batch.kubernetes.io/job-completion-index"
GRACE_S = 5
CPU = 2
_NAMESPACE = "/namespaces/default"
JOBS = f"/apis/batch/v1{_NAMESPACE}/jobs"
STATEFUL_SETS = f"/apis/apps/v1{_NAMESPACE}/statefulsets"
DEPLOYMENTS = f"/apis/apps/v1{_NAMESPACE}/deployments"
PODS = f"/api/v1{_NAMESPACE}/pods"


class Kind(StrEnum):
    """Who makes the pods."""

    JOB = "job"
    INDEXED = "indexed"
    STATEFUL_SET = "statefulset"
    DEPLOYMENT = "deployment"
    """One whose strategy does not allow two pods at once."""
    SURGED = "surged"
    """A Deployment that allows two."""
    BARE = "bare"
    BESIDE = "beside"
    """A pod without an owner that another scheduler places: `foresail control` moves it."""


OWNED = (Kind.JOB, Kind.INDEXED, Kind.STATEFUL_SET, Kind.DEPLOYMENT)
EVICTED = (*OWNED, Kind.BARE)
PLACED_BY_US = (*EVICTED, Kind.SURGED)
ALL = (*PLACED_BY_US, Kind.BESIDE)
_REPLICATED = {Kind.STATEFUL_SET, Kind.DEPLOYMENT, Kind.SURGED}
OTHER_SCHEDULER = "default-scheduler"


@dataclass(frozen=True)
class Work:
    """Something that trains in one pod or several, of which one is to be moved."""

    kind: Kind
    name: str
    grace_s: int = GRACE_S

    @property
    def jobs(self) -> tuple[str, ...]:
        """Who trains, by the names that trainers know."""
        return (self.job, f"{self.name}-1") if self.kind in {Kind.INDEXED, Kind.STATEFUL_SET} else (self.job,)

    @property
    def job(self) -> str:
        """Who is moved."""
        return f"{self.name}-0" if self.kind in {Kind.INDEXED, Kind.STATEFUL_SET} else self.name

    @property
    def starts_with(self) -> str:
        """How the names of the pods begin that are moved."""
        return f"{self.name}-0" if self.kind in {Kind.INDEXED, Kind.STATEFUL_SET} else self.name

    @property
    def path(self) -> str:
        paths = {
            Kind.JOB: JOBS,
            Kind.INDEXED: JOBS,
            Kind.STATEFUL_SET: STATEFUL_SETS,
            Kind.DEPLOYMENT: DEPLOYMENTS,
            Kind.SURGED: DEPLOYMENTS,
        }
        return paths.get(self.kind, PODS)


def job_of(pod: Object) -> str:
    """The job that a pod trains; one that is nobody's is its own."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    if JOB in labels:
        return str(labels[JOB])
    owner = next(iter(metadata.get("ownerReferences") or ()), {})
    if owner.get("kind") == "Job":
        return f"{owner['name']}-{labels[INDEX]}"
    return str(metadata["name"])


def pod_template(
    run: str, scheduler: str, labels: dict[str, str], cpu: float = CPU, grace_s: int = GRACE_S, **spec: Any
) -> Object:
    amounts = {"requests": {"cpu": f"{round(1000 * cpu)}m", "memory": "64Mi"}}
    return {
        "metadata": {"labels": {RUN_LABEL: run, **labels}, "annotations": {}},
        "spec": {
            "schedulerName": scheduler,
            "nodeSelector": {RUN_LABEL: run},
            "terminationGracePeriodSeconds": grace_s,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none", "resources": amounts}],
            **spec,
        },
    }


def manifest(work: Work, run: str, scheduler: str, *, annotations: dict[str, str], **spec: Any) -> Object:
    """The object that the user makes; `spec` is for its owner."""
    name, kind = work.name, work.kind
    app = {"app": name}
    stated = {JOB: name} if kind not in {Kind.INDEXED, Kind.STATEFUL_SET} else {}
    restarts = {} if kind in _REPLICATED else {"restartPolicy": "Never"}
    template = pod_template(run, scheduler, {**app, **stated}, grace_s=work.grace_s, **restarts)
    template["metadata"]["annotations"] = annotations
    metadata = {"name": name, "namespace": "default", "labels": {RUN_LABEL: run}}
    if kind in {Kind.BARE, Kind.BESIDE}:
        about = {**metadata, "labels": template["metadata"]["labels"], "annotations": annotations}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": template["spec"]}
    if kind in {Kind.JOB, Kind.INDEXED}:
        ignore = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        common = {"podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [ignore]}, "template": template}
        indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2} if kind is Kind.INDEXED else {}
        wanted = {key: value for key, value in {**common, **indexed, **spec}.items() if value is not None}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": wanted}
    common = {"selector": {"matchLabels": app}, "template": template}
    if kind is Kind.STATEFUL_SET:
        several = {"replicas": 2, "serviceName": "none", "podManagementPolicy": "Parallel"}
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": metadata,
            "spec": {**common, **several, **spec},
        }
    strategy = {"type": "RollingUpdate" if kind is Kind.SURGED else "Recreate"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {**common, "replicas": 1, "strategy": strategy, **spec},
    }
