"""Who a pod is across moves and restarts, where every successor is a new pod."""

from __future__ import annotations

from foresail.kube.objects.values import COMPLETION_INDEX, JOB
from foresail.live.cache.pods import CachedPod


def job_of(pod: CachedPod) -> str:
    """The job that a pod is, as `namespace/NAME`.

    NAME is what the pod's label `foresail.dev/job` says, else the uid of its controller, with `/INDEX` for pods of
    Indexed Jobs and StatefulSets, whose members differ; a pod that has neither is its own uid. The namespace stands
    first, so whatever a tenant writes on its pods names jobs of its own alone.
    """
    return f"{pod.namespace}/{stated_job(pod) or _of_owner(pod) or pod.uid}"


def stated_job(pod: CachedPod) -> str:
    """What a pod's label says; empty for a pod without it."""
    stated = pod.labels.get(JOB)
    return stated if isinstance(stated, str) else ""


def _of_owner(pod: CachedPod) -> str:
    if pod.owner is None or not pod.owner.uid:
        return ""
    if pod.owner.kind == "StatefulSet":
        return f"{pod.owner.uid}/{pod.name.rpartition('-')[2]}"
    index = pod.labels.get(COMPLETION_INDEX) if pod.owner.kind == "Job" else None
    return pod.owner.uid if index is None else f"{pod.owner.uid}/{index}"
