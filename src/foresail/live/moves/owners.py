"""What has to be so for a pod to be moved safely, and what mends it where it is not: by its owner and its volumes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import NotFound
from foresail.kube.api.kinds import (
    CLAIM,
    DEPLOYMENT,
    JOB,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    VOLUME,
    Kind,
)
from foresail.kube.objects.values import JOB as JOB_LABEL
from foresail.kube.objects.values import NO_MOVE
from foresail.live.cache.pods import CachedPod

OWNERS: dict[str, Kind] = {
    "Job": JOB,
    "ReplicaSet": REPLICA_SET,
    "ReplicationController": REPLICATION_CONTROLLER,
    "StatefulSet": STATEFUL_SET,
}
"""Those that are known to make a successor which may go to another node."""

_NEVER = {
    "DaemonSet": "a DaemonSet makes its successor for the same node",
    "Node": "it is a static pod of its node",
}
_MIRROR = "kubernetes.io/config.mirror"
_JOB_CONTROLLER = "kubernetes.io/job-controller"
_INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_SIGTERM_EXIT = 143
_BACKOFF_LIMIT = 6
"""A Job's that does not say."""
_FAILURES_LEFT = 2
"""Failures that must be left after a move is counted as one, or the job's own next one would be its end."""
_SHORT_GRACE_S = 10

IGNORE_DISRUPTIONS: Object = {
    "podFailurePolicy": {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    }
}


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that stands against a move, or that one should know before it."""

    problem: str
    stops: bool = True
    """Whether such a pod is not moved; else it is only told."""
    patch: Object | None = None
    """What mends it, as a merge patch of the object named in `of`."""
    of: str = ""
    """KIND/NAME that the patch is for."""
    remedy: str = ""
    """What to do, in words."""

    def command(self, namespace: str) -> str:
        """The patch as somebody would type it; empty if there is none."""
        if self.patch is None:
            return ""
        kind, _, name = self.of.partition("/")
        text = shlex.quote(json.dumps(self.patch, separators=(",", ":")))
        return f"kubectl -n {namespace} patch {kind} {name} --type merge -p {text}"


@dataclass(frozen=True, slots=True)
class Subject:
    """A pod to be moved, with what is to be known of it."""

    pod: Object
    owner: Object | None = None
    """Its controller; None if it has none, or one of a kind that is not known."""
    deployment: Object | None = None
    """The Deployment above its ReplicaSet."""
    claims: Mapping[str, Object] = field(default_factory=dict)
    volumes: Mapping[str, Object] = field(default_factory=dict)
    """Bound volumes by the claim's name."""

    @property
    def reference(self) -> Object | None:
        """The pod's controller as the pod names it."""
        return controller_of(self.pod)

    @property
    def template(self) -> Object | None:
        return None if self.owner is None else (self.owner.get("spec") or {}).get("template")

    @property
    def is_on_one_node_at_a_time(self) -> bool:
        """Whether a volume keeps a second pod from starting on another node beside the first."""
        modes = [set((one.get("spec") or {}).get("accessModes") or ()) for one in self.claims.values()]
        return any(not mode & {"ReadWriteMany", "ReadOnlyMany"} for mode in modes)


def controller_of(value: Object) -> Object | None:
    """The controller among an object's owners, as it names it."""
    references = value["metadata"].get("ownerReferences") or ()
    return next((one for one in references if one.get("controller")), None)


async def look_at(api: Client, namespace: str, name: str) -> Subject:
    """A pod and all that decides whether it can be moved. NotFound if the pod is gone; others may be missing."""
    pod = await api.get(POD.named(name, namespace))
    reference = controller_of(pod)
    owner = None if reference is None else await _owner(api, namespace, reference)
    above = None if owner is None else controller_of(owner)
    deployment = (
        await _or_none(api, DEPLOYMENT.named(above["name"], namespace))
        if above is not None and above.get("kind") == "Deployment"
        else None
    )
    claims, volumes = {}, {}
    for claim_name in claim_names(pod):
        claim = await _or_none(api, CLAIM.named(claim_name, namespace))
        if claim is None:
            continue
        claims[claim_name] = claim
        bound_to = (claim.get("spec") or {}).get("volumeName")
        volume = await _or_none(api, VOLUME.named(bound_to)) if bound_to else None
        if volume is not None:
            volumes[claim_name] = volume
    return Subject(pod, owner, deployment, claims, volumes)


async def _owner(api: Client, namespace: str, reference: Object) -> Object | None:
    kind = OWNERS.get(reference.get("kind", ""))
    if kind is None or reference.get("apiVersion") != kind.api_version:
        return None
    found = await _or_none(api, kind.named(reference["name"], namespace))
    # One that was deleted and made again under its name is another, and does not look after this pod.
    return found if found is not None and found["metadata"]["uid"] == reference.get("uid") else None


async def _or_none(api: Client, path: str) -> Object | None:
    try:
        return await api.get(path)
    except NotFound:
        return None


def claim_names(pod: Object) -> list[str]:
    """Names of the claims that a pod uses."""
    found = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            found.append(f"{pod['metadata']['name']}-{volume['name']}")
    return found


def obstacle(subject: Subject) -> str:
    """Why the pod is not to be moved; empty if it may be."""
    return next((one.problem for one in lacks(subject) if one.stops), "")


def early_obstacle(pod: CachedPod) -> str:
    """The same as far as the cache knows, before anything is asked of the API server."""
    metadata: Object = {"name": pod.name, "labels": dict(pod.labels), "annotations": dict(pod.annotations)}
    if pod.terminating:
        metadata["deletionTimestamp"] = "now"
    if pod.owner is not None:
        metadata["ownerReferences"] = [{**pod.owner._asdict(), "controller": True}]
    subject = Subject({"metadata": metadata, "spec": {}, "status": {"phase": pod.phase}})
    found = [*_of_pod(subject), *_of_kind(subject)]
    return next((one.problem for one in found if one.stops), "")


def lacks(subject: Subject) -> list[Lack]:
    """All that stands against moving the pod, then what one should know."""
    found = [*_of_pod(subject), *_of_volumes(subject), *(list(_of_kind(subject)) or _of_owner(subject))]
    return sorted(found, key=lambda one: not one.stops)


# --- the pod itself --------------------------------------------------------------------------------------------------


def _of_pod(subject: Subject) -> Iterator[Lack]:
    metadata, spec = subject.pod["metadata"], subject.pod["spec"]
    annotations = metadata.get("annotations") or {}
    if "deletionTimestamp" in metadata:
        yield Lack("it is being deleted")
    phase = (subject.pod.get("status") or {}).get("phase")
    if phase in {"Succeeded", "Failed"}:
        yield Lack(f"it has ended ({phase})")
    if annotations.get(NO_MOVE, "false").lower() != "false":
        patch = {"metadata": {"annotations": {NO_MOVE: None}}}
        yield Lack(f"its annotation {NO_MOVE} says so", patch=patch, of=f"pod/{metadata['name']}")
    grace_s = spec.get("terminationGracePeriodSeconds", 30)
    if grace_s < _SHORT_GRACE_S:
        yield Lack(
            f"it is given {grace_s} s to end after SIGTERM (terminationGracePeriodSeconds), "
            "which may be too short for a last checkpoint",
            stops=False,
            remedy="set terminationGracePeriodSeconds to what a checkpoint takes, where the pod is made",
        )


def _of_volumes(subject: Subject) -> Iterator[Lack]:
    elsewhere = "keep the data on a ReadWriteMany volume"
    for volume in subject.pod["spec"].get("volumes") or ():
        name = volume["name"]
        if "hostPath" in volume:
            yield Lack(f"its volume {name} is a path on its node (hostPath)", remedy=elsewhere)
        elif "emptyDir" in volume:
            yield Lack(f"its volume {name} (emptyDir) is empty after a move", stops=False, remedy=elsewhere)
    for claim, found in subject.volumes.items():
        spec = found.get("spec") or {}
        kind = next((one for one in ("local", "hostPath") if one in spec), "")
        if kind:
            yield Lack(f"its claim {claim} is bound to a volume on its node ({kind})", remedy=elsewhere)


# --- owners ----------------------------------------------------------------------------------------------------------


def _of_kind(subject: Subject) -> Iterator[Lack]:
    """What the kind of owner says, whatever the owner is like."""
    reference, metadata = subject.reference, subject.pod["metadata"]
    if _MIRROR in (metadata.get("annotations") or {}):
        yield Lack(_NEVER["Node"])
    elif reference is None:
        yield from _of_bare_pod(metadata)
    elif reference["kind"] in _NEVER:
        yield Lack(_NEVER[reference["kind"]])
    elif reference["kind"] not in OWNERS:
        known = ", ".join(OWNERS)
        yield Lack(f"its owner is a {reference['kind']}; what that makes in its place is not known ({known} are)")


def _of_owner(subject: Subject) -> Iterator[Lack]:
    reference = subject.reference
    if reference is None:
        return
    if subject.owner is None:
        yield Lack(f"its owner {reference['kind']} {reference['name']} is gone")
    elif "deletionTimestamp" in subject.owner["metadata"]:
        yield Lack(f"its owner {reference['kind']} {reference['name']} is being deleted")
    elif reference["kind"] == "Job":
        yield from _of_job(subject.owner, subject.pod)


def _of_bare_pod(metadata: Object) -> Iterator[Lack]:
    if not (metadata.get("labels") or {}).get(JOB_LABEL):
        patch = {"metadata": {"labels": {JOB_LABEL: metadata["name"][:63]}}}
        yield Lack(
            f"it has no owner that would make a successor; with the label {JOB_LABEL} it is made anew here, under "
            "another name",
            patch=patch,
            of=f"pod/{metadata['name']}",
        )


def _of_job(job: Object, pod: Object) -> Iterator[Lack]:
    name, spec, status = job["metadata"]["name"], job.get("spec") or {}, job.get("status") or {}
    of = f"job/{name}"
    if spec.get("managedBy", _JOB_CONTROLLER) != _JOB_CONTROLLER:
        yield Lack(f"its Job is managed by {spec['managedBy']}; what that makes in its place is not known")
    if spec.get("suspend"):
        yield Lack("its Job is suspended", patch={"spec": {"suspend": False}}, of=of)
    ended = [one for one in status.get("conditions") or () if one["type"] in {"Complete", "Failed", "FailureTarget"}]
    if any(one.get("status") == "True" for one in ended):
        yield Lack("its Job has ended")
    if spec.get("podReplacementPolicy") != "Failed":
        yield Lack(
            "its Job starts a successor while the old pod still ends, so that two train at once "
            "(podReplacementPolicy is not Failed)",
            patch={"spec": {"podReplacementPolicy": "Failed"}},
            of=of,
        )
    fails = _fails_job(spec)
    if fails:
        yield Lack(f"its Job would fail ({fails})", remedy="make the Job anew without that rule; it is immutable")
    elif not _ignores_disruptions(spec):
        yield from _of_failures(job, pod)


def _of_failures(job: Object, pod: Object) -> Iterator[Lack]:
    """Each move counts as a failure of the Job."""
    name, spec, status = job["metadata"]["name"], job.get("spec") or {}, job.get("status") or {}
    limit, failed = int(spec.get("backoffLimit", _BACKOFF_LIMIT)), int(status.get("failed") or 0)
    what = "backoffLimit"
    if spec.get("backoffLimitPerIndex") is not None:
        limit, what = int(spec["backoffLimitPerIndex"]), "backoffLimitPerIndex"
        failed = int((pod["metadata"].get("annotations") or {}).get(_INDEX_FAILURES, 0))
    never = pod["spec"].get("restartPolicy") == "Never"
    remedy = (
        f"make the Job anew with {json.dumps(IGNORE_DISRUPTIONS)} in its spec; podFailurePolicy is immutable"
        if never
        else "podFailurePolicy, with which moves would not count, needs restartPolicy: Never"
    )
    if limit - failed < _FAILURES_LEFT:
        more = limit + 10
        raised = None if what != "backoffLimit" else {"spec": {"backoffLimit": more}}
        yield Lack(
            f"each move counts as a failure of its Job, which has had {failed} of {limit} ({what})",
            patch=raised,
            of=f"job/{name}" if raised else "",
            remedy=remedy,
        )
    else:
        yield Lack(
            f"each move counts as a failure of its Job: {failed} of {limit} so far ({what})", stops=False, remedy=remedy
        )


def _rules(spec: Object) -> list[Object]:
    return list((spec.get("podFailurePolicy") or {}).get("rules") or ())


def _fails_job(spec: Object) -> str:
    """The rule of a Job's podFailurePolicy by which a pod that was moved makes it fail; empty if there is none.

    The first rule that matches decides.
    """
    for at, rule in enumerate(_rules(spec)):
        what = _matches(rule)
        if what:
            return f"rule {at} of its podFailurePolicy: {rule['action']} on {what}" if _is_end(rule) else ""
    return ""


def _ignores_disruptions(spec: Object) -> bool:
    for rule in _rules(spec):
        if _matches(rule):
            return bool(rule["action"] == "Ignore")
    return False


def _is_end(rule: Object) -> bool:
    return rule["action"] in {"FailJob", "FailIndex"}


def _matches(rule: Mapping[str, Any]) -> str:
    """By what a rule matches a pod that was evicted and left with 143; empty if it does not."""
    for condition in rule.get("onPodConditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status", "True") == "True":
            return "DisruptionTarget"
    codes = rule.get("onExitCodes") or {}
    values = codes.get("values") or ()
    if codes.get("operator") == "In" and _SIGTERM_EXIT in values:
        return f"exit code {_SIGTERM_EXIT}"
    if codes.get("operator") == "NotIn" and _SIGTERM_EXIT not in values:
        return f"exit codes other than {', '.join(map(str, values))}"
    return ""
