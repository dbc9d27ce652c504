"""PreFilter: what is wrong with a pod on every node, and nodes that its affinity does not name."""

from __future__ import annotations

import numpy as np

from foresail.core.kubernetes import NodeTerm
from foresail.core.model import Codes, Nodes, Pod, Shape
from foresail.core.objects import ClusterObjects
from foresail.policies.kubernetes.selecting import special

_NOT_NAMED, _EVERYWHERE = 1, 2


class KubePreFilter:
    """Refuse what kube-scheduler refuses before it looks at single nodes; its reasons then count for all of them.

    A claim that is missing, lost or being deleted, one that should be bound by now and is not, one bound to a volume
    that is gone: then no node will do. Where every required term of the node affinity names nodes (`metadata.name`),
    the other nodes are not looked at further.

    `names` and `claims` say which of the two is looked at.
    """

    row_wise = True
    resolvable = False

    def __init__(self, *, names: bool = True, claims: bool = True) -> None:
        self._names = names
        self._claims = claims
        self._said: dict[Shape, str] = {}

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        named = _named_nodes(special(pod).required_nodes) if self._names else None
        said = "pod affinity terms conflict" if named == set() else ""
        if not said and self._claims:
            said = _claims_fault(pod, nodes.table.objects)
        if said:
            self._said[pod.shape] = said
            return np.full(len(nodes), _EVERYWHERE, dtype=np.uint8)
        codes = np.zeros(nodes.table.count, dtype=np.uint8)
        if named is not None:
            codes[:] = _NOT_NAMED
            codes[[nodes.table.row_of[name] for name in named if name in nodes.table.row_of]] = 0
        return codes[nodes.index]

    def why(self, pod: Pod, code: int) -> tuple[str, ...]:
        return (self._said[pod.shape] if code == _EVERYWHERE else "node(s) didn't satisfy plugin(s) [NodeAffinity]",)

    def skips(self, pod: Pod, _nodes: Nodes) -> bool:
        own = special(pod)
        return not own.claims and own.required_nodes is None


def _named_nodes(terms: tuple[NodeTerm, ...] | None) -> set[str] | None:
    """The nodes that the terms name; None if one of them leaves it open."""
    if not terms:
        return None
    named: set[str] = set()
    for term in terms:
        lists = [set(line.values) for line in term.names if line.key == "metadata.name" and line.operator == "In"]
        if not lists:
            return None
        named |= set.intersection(*lists)
    return named


def _claims_fault(pod: Pod, objects: ClusterObjects) -> str:
    """What keeps the pod's claims from being used anywhere, empty if nothing does."""
    found = [(volume, objects.claim(pod.spec.namespace, volume.claim)) for volume in special(pod).claims]
    for volume, claim in found:
        if claim is None and not volume.ephemeral:
            return f'persistentvolumeclaim "{volume.claim}" not found'
    for volume, claim in found:
        if claim is None:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{volume.claim}"'
        if claim.phase == "Lost":
            return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume}"'
        if claim.deleting:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
    claims = [claim for volume, claim in found if claim is not None]
    if any(not claim.bound and not objects.binds_later(claim) for claim in claims):
        return "pod has unbound immediate PersistentVolumeClaims"
    gone = (
        claim.volume
        for volume, claim in found
        if claim is not None and not volume.ephemeral and claim.volume and claim.volume not in objects.volumes
    )
    return next((f'persistentvolume "{name}" not found' for name in gone), "")
