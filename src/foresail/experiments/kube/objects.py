"""What the pods of a trace are on a cluster: pods, and Jobs, Deployments or pods that run a real trainer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from foresail.core.spec import Workload
from foresail.errors import OptionError
from foresail.kube.api.client import Object
from foresail.kube.objects.values import JOB, SHARED_VOLUMES
from foresail.kube.objects.write import pod_objects

TRACE_POD = "foresail.dev/trace-pod"
"""Label: which pod of the trace this is."""
_SHARED = "/foresail"
"""Where the shared volume is mounted in a trainer's container."""
_VOLUME = "shared"
_MANY = 1000
DEPLOYED = ("ReplicaSet", "Deployment")
"""Owners whose pods are made anew for ever, also when a trainer is done."""


class SubmittedObject(NamedTuple):
    """One object to make, and when."""

    name: str
    arrival_s: float
    path: str
    body: Object


@dataclass(frozen=True, slots=True)
class Submitting:
    """How trainers run on the cluster."""

    image: str = ""
    """With Python, numpy and `foresail.workloads`; needed for traces with training jobs."""
    volume: tuple[tuple[str, Any], ...] = ()
    """The volume that trainers on all nodes share, as a pod's `volumes` has it without the name."""
    step_cpu_s: tuple[tuple[str, float], ...] = ()
    """CPU-seconds that a step of each model takes."""
    grace_s: int = 30
    """How long a trainer has for its checkpoint when it is told to go."""


def submissions(
    workload: Workload, submitting: Submitting, namespace: str, scheduler_name: str
) -> Iterator[SubmittedObject]:
    """Every pod of the trace as an object of this namespace, for this scheduler."""
    trains = workload.training_of >= 0
    if trains.any() and not (submitting.image and submitting.volume):
        raise OptionError(
            "the trace has training jobs; on a cluster they need an image (--image) and a volume that all nodes share "
            "(--shared-folder)"
        )
    for index, pod in enumerate(pod_objects(workload)):
        name, arrival_s = workload.names[index], float(workload.arrival_s[index])
        metadata, spec = pod["metadata"], pod["spec"]
        spec.pop("priority", None)
        spec["schedulerName"] = scheduler_name
        if trains[index]:
            template = _training_pod(workload, index, metadata["name"], spec, submitting)
            owner = workload.spec(index).owner.partition("/")[0]
            yield SubmittedObject(name, arrival_s, *_owned(owner, metadata["name"], template, namespace))
            continue
        body = {
            "metadata": {
                "name": metadata["name"],
                "labels": {**metadata.get("labels", {}), TRACE_POD: name},
                "annotations": metadata.get("annotations", {}),
            },
            "spec": {"restartPolicy": "Never", **spec},
        }
        yield SubmittedObject(name, arrival_s, f"/api/v1/namespaces/{namespace}/pods", body)


def _training_pod(workload: Workload, index: int, name: str, pod: Object, submitting: Submitting) -> Object:
    labels = {TRACE_POD: workload.names[index], JOB: name}
    # A folder of the host is the same on all nodes, or nobody could train there; moves ask.
    annotations = {SHARED_VOLUMES: _VOLUME}
    spec = {
        **pod,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": submitting.grace_s,
        "volumes": [{"name": _VOLUME, **dict(submitting.volume)}],
        "containers": [_trainer(workload, index, name, pod["containers"][0]["resources"], submitting)],
    }
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def _owned(owner: str, name: str, template: Object, namespace: str) -> tuple[str, Object]:
    """Where an object is made that runs such a pod, and the object."""
    metadata = {"name": name, "labels": template["metadata"]["labels"]}
    if not owner:
        about = {**template["metadata"], "name": name}
        return f"/api/v1/namespaces/{namespace}/pods", {**template, "metadata": about}
    if owner == "Job":
        spec = {
            # A move is no failure of the job, and its successor must not run beside it.
            "backoffLimit": _MANY,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}],
            },
            "template": template,
        }
        return f"/apis/batch/v1/namespaces/{namespace}/jobs", {"metadata": metadata, "spec": spec}
    if owner in DEPLOYED:
        spec = {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {JOB: name}},
            # Nothing else is allowed there; a trainer that is done is seen to be, and its Deployment deleted.
            "template": {**template, "spec": {**template["spec"], "restartPolicy": "Always"}},
        }
        return f"/apis/apps/v1/namespaces/{namespace}/deployments", {"metadata": metadata, "spec": spec}
    raise OptionError(f"{name} belongs to a {owner}; on a cluster training jobs are Jobs, Deployments or bare pods")


def _trainer(workload: Workload, index: int, job: str, resources: Object, submitting: Submitting) -> Object:
    training = workload.trainings[workload.training_of[index]]
    cpu_s = dict(submitting.step_cpu_s).get(training.name)
    if not cpu_s:
        known = ", ".join(sorted(name for name, _ in submitting.step_cpu_s)) or "none"
        raise OptionError(f'no trainer of ours is called "{training.name}" (there are {known})')
    steps = max(1, round(float(workload.work_cpu_s[index]) / cpu_s))
    env: dict[str, Any] = {
        "FORESAIL_JOB": job,
        "FORESAIL_PROGRESS_DIR": f"{_SHARED}/progress",
        "FORESAIL_CHECKPOINT_DIR": f"{_SHARED}/checkpoints",
    }
    from_pod = {"FORESAIL_POD_UID": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    report_every = max(1, min(training.report_every, steps // 20))
    arguments = ["--steps", steps, "--report-every", report_every, "--save-every", max(1, steps // 10)]
    return {
        "name": "train",
        "image": submitting.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "foresail.workloads.trainers", training.name, *map(str, arguments)],
        "env": [
            *({"name": key, "value": value} for key, value in env.items()),
            *({"name": key, "valueFrom": value} for key, value in from_pod.items()),
        ],
        "resources": resources,
        "volumeMounts": [{"name": _VOLUME, "mountPath": _SHARED}],
    }
