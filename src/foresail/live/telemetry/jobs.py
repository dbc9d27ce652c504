"""Who a pod is across moves and restarts, where every successor is a new pod."""

from __future__ import annotations

from foresail.kube.objects.values import COMPLETION_INDEX, JOB
from foresail.live.cache.cache import Cache
from foresail.live.cache.listener import Listener
from foresail.live.cache.pods import CachedPod, discard


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


def names_of(pod: CachedPod) -> tuple[str, ...]:
    """What a pod may call its job when it reports, the likeliest first.

    The reporter says what its environment or else its host is called: the label's value, the pod's name, or for pods of
    a Job that Job's name (with the index in an Indexed one).
    """
    found = [stated_job(pod), pod.name]
    if pod.owner is not None and pod.owner.kind == "Job":
        index = pod.labels.get(COMPLETION_INDEX)
        found.append(pod.owner.name if index is None else f"{pod.owner.name}-{index}")
    return tuple(dict.fromkeys(name for name in found if name))


class Jobs(Listener):
    """The jobs of one scheduler name that have a pod on a node, as the cache tells of them."""

    def __init__(self, cache: Cache, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._pods: dict[str, CachedPod] = {}
        self._uids: dict[str, dict[str, None]] = {}
        """Job to the uids of its pods; two while one takes the other's place."""
        self._named: dict[tuple[str, str], dict[str, None]] = {}
        """Namespace and a name that reports may carry, to the uids of pods that may carry it."""
        cache.tell(self)

    def running_changed(self, before: CachedPod | None, now: CachedPod | None) -> None:
        uid = (now or before).uid  # type: ignore[union-attr]  # one of them is always there
        known = self._pods.pop(uid, None)
        if known is not None:
            discard(self._uids, job_of(known), uid)
            for name in names_of(known):
                discard(self._named, (known.namespace, name), uid)
        if now is None or now.scheduler_name != self._scheduler_name:
            return
        self._pods[uid] = now
        self._uids.setdefault(job_of(now), {})[uid] = None
        for name in names_of(now):
            self._named.setdefault((now.namespace, name), {})[uid] = None

    def __contains__(self, job: str) -> bool:
        return job in self._uids

    def pods(self) -> list[CachedPod]:
        """All pods, those that are on their way out too: what they still say counts."""
        return list(self._pods.values())

    def pod(self, uid: str) -> CachedPod | None:
        return self._pods.get(uid)

    def reported_as(self, namespace: str, name: str) -> str | None:
        """The job that a report of this name is of; a label goes before a name that somebody else happens to have."""
        pods = [self._pods[uid] for uid in self._named.get((namespace, name), ())]
        stated = [pod for pod in pods if stated_job(pod) == name]
        return next((job_of(pod) for pod in (*stated, *pods)), None)

    def began_s(self, job: str) -> float:
        """When the youngest pod of a job was taken over by its kubelet, in seconds since 1970; 0 if nobody knows."""
        pods = (self._pods[uid] for uid in self._uids.get(job, ()))
        return max((pod.started_s or pod.created_s for pod in pods), default=0.0)
