"""What has to be so for a pod to be moved safely, and what mends it where it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from foresail.core.control import NO_MOVE, is_not_to_move
from foresail.kube.api.client import Object
from foresail.kube.objects.values import JOB as JOB_LABEL
from foresail.live.cache.pods import CachedPod
from foresail.live.moves.subjects import OWNERS, Lack, Subject
from foresail.live.moves.surroundings import of_budgets, of_checkpoints, of_volumes

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
_ENOUGH_GRACE_S = 60

IGNORE_DISRUPTIONS: Object = {
    "podFailurePolicy": {
        "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    }
}


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
    found = [
        *_of_pod(subject),
        *of_volumes(subject),
        *(list(_of_kind(subject)) or _of_owner(subject)),
        *of_budgets(subject),
        *of_checkpoints(subject),
    ]
    return sorted(found, key=lambda one: not one.stops)


# --- the pod itself --------------------------------------------------------------------------------------------------


def _of_pod(subject: Subject) -> Iterator[Lack]:
    metadata, spec = subject.pod["metadata"], subject.pod["spec"]
    if "deletionTimestamp" in metadata:
        yield Lack("it is being deleted")
    phase = (subject.pod.get("status") or {}).get("phase")
    if phase in {"Succeeded", "Failed"}:
        yield Lack(f"it has ended ({phase})")
    if is_not_to_move(metadata.get("annotations") or {}):
        patch = {"metadata": {"annotations": {NO_MOVE: None}}}
        again = is_not_to_move(((subject.template or {}).get("metadata") or {}).get("annotations") or {})
        remedy = f"its successors carry it, too, until {subject.written_as} makes them without it" if again else ""
        yield Lack(f"its annotation {NO_MOVE} says so", patch=patch, of=f"pod/{metadata['name']}", remedy=remedy)
    grace_s = spec.get("terminationGracePeriodSeconds", 30)
    if grace_s < _SHORT_GRACE_S:
        told = (
            f"it is given {grace_s} s to end after SIGTERM (terminationGracePeriodSeconds), "
            "which may be too short for a last checkpoint"
        )
        yield mended_in_template(subject, told, {"spec": {"terminationGracePeriodSeconds": _ENOUGH_GRACE_S}})


def mended_in_template(subject: Subject, problem: str, template: Object, *, stops: bool = False) -> Lack:
    """Something that is to be said where the pod is made."""
    of = subject.written_as
    if of.startswith(("job/", "pod/")):
        manifest = template if of.startswith("pod/") else {"spec": {"template": template}}
        return Lack(
            problem, stops=stops, manifest=manifest, remedy=f"make {of} anew with this; it takes no patch of it"
        )
    # A Deployment and a StatefulSet replace their pods when their template changes.
    return Lack(
        problem, stops=stops, patch={"spec": {"template": template}}, of=of, remedy="the patch may replace its pods"
    )


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
    yield from _of_count(subject)


def _of_count(subject: Subject) -> Iterator[Lack]:
    """Pods of one owner that nothing tells apart are one job: a StatefulSet and an Indexed Job number theirs."""
    spec = (subject.owner or {}).get("spec") or {}
    kind = (subject.reference or {}).get("kind")
    if kind == "Job":
        count = 1 if spec.get("completionMode") == "Indexed" else int(spec.get("parallelism") or 1)
    else:
        count = 1 if kind == "StatefulSet" else int(spec.get("replicas") or 1)
    if count > 1:
        yield Lack(
            f"{subject.written_as} has {count} pods that nothing tells apart: a checkpoint that one of them confirms "
            "counts for all, and their progress is read as one job's",
            stops=False,
            remedy="give each a number (an Indexed Job or a StatefulSet), or an owner of its own",
        )


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
    name, spec = job["metadata"]["name"], job.get("spec") or {}
    of = f"job/{name}"
    if spec.get("managedBy", _JOB_CONTROLLER) != _JOB_CONTROLLER:
        yield Lack(f"its Job is managed by {spec['managedBy']}; what that makes in its place is not known")
    if spec.get("suspend"):
        yield Lack("its Job is suspended", patch={"spec": {"suspend": False}}, of=of)
    if has_ended(job):
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


def has_ended(job: Object) -> bool:
    """Whether a Job makes no pods any more."""
    found = (job.get("status") or {}).get("conditions") or ()
    ends = {"Complete", "SuccessCriteriaMet", "Failed", "FailureTarget"}
    return any(one["type"] in ends and one.get("status") == "True" for one in found)


def _of_failures(job: Object, pod: Object) -> Iterator[Lack]:
    """Each move counts as a failure of the Job."""
    name, spec, status = job["metadata"]["name"], job.get("spec") or {}, job.get("status") or {}
    limit, failed = int(spec.get("backoffLimit", _BACKOFF_LIMIT)), int(status.get("failed") or 0)
    what = "backoffLimit"
    if spec.get("backoffLimitPerIndex") is not None:
        limit, what = int(spec["backoffLimitPerIndex"]), "backoffLimitPerIndex"
        failed = int((pod["metadata"].get("annotations") or {}).get(_INDEX_FAILURES, 0))
    never = pod["spec"].get("restartPolicy") == "Never"
    wanted = {"restartPolicy": "Never"} if not never else {}
    manifest = {"spec": {**IGNORE_DISRUPTIONS, **({"template": {"spec": wanted}} if wanted else {})}}
    why = "" if never else ", which needs restartPolicy: Never"
    remedy = f"make job/{name} anew with this{why}; podFailurePolicy is immutable"
    if limit - failed < _FAILURES_LEFT:
        more = limit + 10
        raised = None if what != "backoffLimit" else {"spec": {"backoffLimit": more}}
        yield Lack(
            f"each move counts as a failure of its Job, which has had {failed} of {limit} ({what})",
            patch=raised,
            of=f"job/{name}" if raised else "",
            remedy=remedy,
            manifest=manifest,
        )
    else:
        yield Lack(
            f"each move counts as a failure of its Job: {failed} of {limit} so far ({what})",
            stops=False,
            remedy=remedy,
            manifest=manifest,
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
