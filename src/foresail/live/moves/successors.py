"""What a pod's successor will look like: as its owner will make it, or as it is to be made here."""

from __future__ import annotations

from typing import Any

from foresail.kube.objects.values import GPU_DEVICES, PREFIX, Object

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


def only_on(expected: Object, node: str) -> Object:
    """A successor that no scheduler places anywhere but on a node."""
    spec = dict(expected["spec"])
    affinity = dict(spec.get("affinity") or {})
    about_nodes = dict(affinity.get("nodeAffinity") or {})
    required = about_nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    there = {"key": "metadata.name", "operator": "In", "values": [node]}
    # Terms are alternatives: each of them has to name the node.
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), there]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    about_nodes["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    return {**expected, "spec": {**spec, "affinity": {**affinity, "nodeAffinity": about_nodes}}}
