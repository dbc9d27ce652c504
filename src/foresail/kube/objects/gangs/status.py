"""What a gang's object says of how far its gang has come, and what it should say: each form has words of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from foresail.kube.objects.gangs.coscheduling import COSCHEDULING
from foresail.kube.objects.gangs.pod_group import KUBERNETES
from foresail.kube.objects.gangs.volcano import VOLCANO
from foresail.kube.objects.values import Object, mapping_or_empty

_SCHEDULED = "Scheduled"
_MOST_TEXT = 1024


class GangFacts(NamedTuple):
    """How far a gang has come."""

    least: int
    """How many members start together."""
    members: int
    """How many there are."""
    placed: int
    """Of those how many have a node and have not failed."""
    running: int
    succeeded: int
    failed: int
    why: str
    """What those that wait were told; empty if nobody was told anything."""


class GangStatus(NamedTuple):
    """The part of an object's status that is a scheduler's: a phase, or the condition that it is scheduled."""

    phase: str = ""
    condition: str = ""
    """True, False or empty."""
    reason: str = ""
    message: str = ""


def condition_type(version: str) -> str:
    """What Kubernetes calls the condition of a PodGroup; `version` as in `v1beta1`."""
    return "PodGroupScheduled" if version == "v1alpha2" else "PodGroupInitiallyScheduled"


def stated_status(form: str, version: str, value: Mapping[str, Any]) -> GangStatus:
    """What an object says now."""
    status = mapping_or_empty(value.get("status"))
    if form != KUBERNETES:
        return GangStatus(str(status.get("phase") or ""))
    stated = status.get("conditions")
    for one in stated if isinstance(stated, list) else ():
        if isinstance(one, Mapping) and one.get("type") == condition_type(version):
            return GangStatus("", *(str(one.get(name) or "") for name in ("status", "reason", "message")))
    return GangStatus()


def wanted_status(form: str, facts: GangFacts, stated: GangStatus) -> GangStatus:
    """What it should say; what it says already where nothing is to be added."""
    if form == KUBERNETES:
        return _kubernetes(facts, stated)
    if form == COSCHEDULING:
        return _coscheduling(facts, stated)
    if form == VOLCANO:
        return _volcano(facts, stated)
    return stated


def status_patch(version: str, wanted: GangStatus, stated: GangStatus, now: str) -> Object:
    """What is to be written; `now` as Kubernetes writes times."""
    if wanted.phase:
        return {"status": {"phase": wanted.phase}}
    condition = {"type": condition_type(version), "status": wanted.condition, "reason": wanted.reason}
    condition["message"] = wanted.message
    if wanted.condition != stated.condition:
        condition["lastTransitionTime"] = now  # when it came to be so, not when the words last changed
    return {"status": {"conditions": [condition]}}


def _kubernetes(facts: GangFacts, stated: GangStatus) -> GangStatus:
    # It tells of the first time; whatever becomes of the pods later, it stays.
    if stated.condition == "True":
        return stated
    if facts.placed >= facts.least:
        return GangStatus("", "True", _SCHEDULED, "")
    return GangStatus("", "False", "Unschedulable", facts.why[:_MOST_TEXT]) if facts.why else stated


def _coscheduling(facts: GangFacts, stated: GangStatus) -> GangStatus:
    ran = facts.running + facts.succeeded
    if facts.succeeded >= facts.least:
        return GangStatus("Finished")
    if facts.failed and ran + facts.failed >= facts.least:
        return GangStatus("Failed")
    if ran >= facts.least:
        return GangStatus("Running")
    if facts.placed >= facts.least:
        return stated if stated.phase == "Running" else GangStatus("Scheduling")
    return stated if stated.phase else GangStatus("Pending")


def _volcano(facts: GangFacts, stated: GangStatus) -> GangStatus:
    if facts.members and facts.succeeded == facts.members:
        return GangStatus("Completed")
    if facts.running + facts.succeeded >= facts.least:
        return GangStatus("Running")
    return stated if stated.phase else GangStatus("Pending")
