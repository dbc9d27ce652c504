"""What a pod's successor will look like: as its owner will make it, or as it is to be made here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from foresail.core.kubernetes import NodeTerm, Requirement
from foresail.core.spec import PodSpec
from foresail.kube.objects.values import GPU_DEVICES, PREFIX, SENT_TO, Object

_PLACEMENT_HIDES = frozenset({"env", "envFrom", "command", "args", "lifecycle", "livenessProbe", "readinessProbe"})
"""Parts of containers that no placement looks at, and that may hold what is not to be copied."""
_WRITTEN_BY_SERVER = frozenset({"nodeName", "priority", "preemptionPolicy", "ephemeralContainers", "schedulingGates"})
"""Parts of a spec that whoever makes a pod leaves to others."""
_MOST_HOST_NAME = 63


def as_placed(pod: Object, template: Object | None) -> Object:
    """The successor of an owned pod, as far as its placement looks at it.

    It is made from the owner's template: a pod that was resized in place has a successor that requests what the
    template says.
    """
    metadata, spec = pod["metadata"], dict(pod["spec"])
    for name in ("nodeName", "schedulingGates"):
        spec.pop(name, None)
    made = {} if template is None else template.get("spec") or {}
    for part in ("containers", "initContainers"):
        if part in spec:
            amounts = {one["name"]: one.get("resources") for one in made.get(part) or ()}
            spec[part] = [
                {
                    **{key: value for key, value in one.items() if key not in _PLACEMENT_HIDES},
                    "resources": amounts.get(one["name"], one.get("resources")) or {},
                }
                for one in spec[part]
            ]
    if "resources" in spec and template is not None:
        spec["resources"] = made.get("resources") or {}
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            **{key: metadata[key] for key in ("labels", "ownerReferences", "creationTimestamp") if key in metadata},
            "annotations": _without_devices(
                {key: value for key, value in (metadata.get("annotations") or {}).items() if _is_read(key)}
            ),
        },
        "spec": spec,
    }


def _is_read(annotation: str) -> bool:
    return annotation.startswith((PREFIX, "alibabacloud.com/"))


def to_be_made(pod: Object) -> Object:
    """A pod without an owner, as it is made once more; it is given its name when it is made.

    Its host name stays what it was, for those that know themselves by it.
    """
    metadata = pod["metadata"]
    spec = {key: value for key, value in pod["spec"].items() if key not in _WRITTEN_BY_SERVER}
    if len(metadata["name"]) <= _MOST_HOST_NAME and "." not in metadata["name"]:
        spec.setdefault("hostname", metadata["name"])
    kept = {key: metadata[key] for key in ("labels", "finalizers", "ownerReferences") if key in metadata}
    annotations = _without_devices(metadata.get("annotations") or {})
    spec = _not_sent(spec, annotations.pop(SENT_TO, ""))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": metadata["namespace"], **kept, "annotations": annotations},
        "spec": spec,
    }


def _without_devices(annotations: dict[str, Any]) -> dict[str, Any]:
    """GPUs are chosen anew on another node."""
    return {key: value for key, value in annotations.items() if key != GPU_DEVICES}


def named(expected: Object, name: str) -> Object:
    """A successor under its name."""
    return {**expected, "metadata": {**expected["metadata"], "name": name}}


# --- where another scheduler places pods -----------------------------------------------------------------------------

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def only_on(expected: Object, node: str) -> Object:
    """A successor that no scheduler places anywhere but on a node; it says that it was sent there."""
    spec, metadata = dict(expected["spec"]), expected["metadata"]
    affinity = dict(spec.get("affinity") or {})
    about_nodes = dict(affinity.get("nodeAffinity") or {})
    required = about_nodes.get(_REQUIRED) or {}
    # Terms are alternatives: each of them has to name the node.
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), _only(node)]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    about_nodes[_REQUIRED] = {"nodeSelectorTerms": terms}
    annotations = {**(metadata.get("annotations") or {}), SENT_TO: node}
    return {
        **expected,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**spec, "affinity": {**affinity, "nodeAffinity": about_nodes}},
    }


def _only(node: str) -> Object:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


def _not_sent(spec: Object, node: str) -> Object:
    """The same without what `only_on` has added: the next move goes elsewhere."""
    affinity = dict(spec.get("affinity") or {})
    about_nodes = dict(affinity.get("nodeAffinity") or {})
    terms = (about_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if not node or not all(_only(node) in (term.get("matchFields") or ()) for term in terms):
        return spec
    freed = []
    for term in terms:
        fields = [one for one in term["matchFields"] if one != _only(node)]
        left = {key: value for key, value in term.items() if key != "matchFields"}
        freed.append({**left, "matchFields": fields} if fields else left)
    # One that requires nothing besides was added whole; as a term of its own it would fit no node.
    if all(freed):
        about_nodes[_REQUIRED] = {"nodeSelectorTerms": freed}
    else:
        about_nodes.pop(_REQUIRED, None)
    affinity["nodeAffinity"] = about_nodes
    affinity = {key: value for key, value in affinity.items() if value}
    spec = {key: value for key, value in spec.items() if key != "affinity"}
    return {**spec, "affinity": affinity} if affinity else spec


def freed(spec: PodSpec, annotations: Mapping[str, str]) -> PodSpec:
    """What a running pod requests, as its successor will: not bound to the node that it was sent to."""
    about, node = spec.kubernetes, annotations.get(SENT_TO, "")
    if not node or about is None or about.required_nodes is None:
        return spec
    sent = Requirement("metadata.name", "In", (node,))
    if not all(sent in term.names for term in about.required_nodes):
        return spec
    terms = [NodeTerm(term.labels, tuple(one for one in term.names if one != sent)) for term in about.required_nodes]
    left = tuple(terms) if all(term.labels or term.names for term in terms) else None
    return replace(spec, kubernetes=replace(about, required_nodes=left))
