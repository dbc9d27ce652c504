"""All forms of gangs, in the order in which they count for a pod that names gangs in several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foresail.kube.objects.gangs.coscheduling import COSCHEDULING, CoschedulingGroups
from foresail.kube.objects.gangs.form import Form, GangName, Limits
from foresail.kube.objects.gangs.plain import PlainGangs
from foresail.kube.objects.gangs.pod_group import KUBERNETES, PodGroups
from foresail.kube.objects.gangs.volcano import VolcanoGroups
from foresail.kube.objects.gangs.workload import WorkloadGroups
from foresail.kube.objects.quantity import mapping
from foresail.kube.objects.values import named_metadata, string

FORMS: tuple[Form, ...] = (PodGroups(), WorkloadGroups(), CoschedulingGroups(), VolcanoGroups(), PlainGangs())
FORM_OF: dict[str, Form] = {form.title: form for form in FORMS}
GROUP_KINDS = frozenset(title.partition(".")[0] for title in FORM_OF if title)
"""Kinds of the objects that have the limits of gangs."""


def gang_named(
    spec: Mapping[str, Any], labels: Mapping[str, Any], annotations: Mapping[str, Any], namespace: str
) -> GangName | None:
    """The gang that a pod belongs to, None for one that stands alone."""
    for form in FORMS:
        found = form.named(spec, labels, annotations, namespace)
        if found is not None:
            return found
    return None


def groups_of(form: str, value: Mapping[str, Any]) -> list[tuple[GangName, Limits]]:
    """The groups of an object of a form, and what each says of itself."""
    metadata, name = named_metadata(value)
    return FORM_OF[form].groups(value, string(metadata.get("namespace"), "metadata.namespace") or "default", name)


def form_of(kind: str, value: Mapping[str, Any]) -> str:
    """The form of an object in a file; empty for one that is of none, such as a Workload that is a mere template. Where
    a PodGroup does not say which API it is of, its fields do.
    """
    group, _, version = str(value.get("apiVersion") or "").rpartition("/")
    if kind == "Workload" and version not in {"", "v1alpha1"}:
        return ""
    if kind == "PodGroup" and not group:
        return KUBERNETES if "schedulingPolicy" in mapping(value.get("spec"), "spec") else COSCHEDULING
    title = f"{kind}.{group or 'scheduling.k8s.io'}"
    return title if title in FORM_OF else ""
