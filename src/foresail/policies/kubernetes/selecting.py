"""Which nodes and pods a selector means: masks over all nodes, worked out once for each distinct label value."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from foresail.core.kubernetes import KubernetesPod, NodeTerm, Requirement, Selector
from foresail.core.model import Ints, Mask, Pod
from foresail.core.table import NodeTable

NOTHING_SPECIAL = KubernetesPod()
"""Stands in for pods of traces that know nothing of Kubernetes."""

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

_MASKS: WeakKeyDictionary[NodeTable, tuple[int, dict[Requirement, Mask]]] = WeakKeyDictionary()


def special(pod: Pod) -> KubernetesPod:
    """What only Kubernetes says of a pod."""
    return pod.spec.kubernetes or NOTHING_SPECIAL


def nodes_with(table: NodeTable, requirement: Requirement) -> Mask:
    """Nodes whose labels meet a requirement; shape (all nodes,)."""
    structure, masks = _MASKS.get(table, (-1, {}))
    if structure != table.structure:
        masks = {}
        _MASKS[table] = (table.structure, masks)
    mask = masks.get(requirement)
    if mask is None:
        accepted = [requirement.accepts(value) for value in table.label_values(requirement.key)]
        # A node without the label has code -1, which is the last place.
        accepted.append(requirement.accepts(None))
        mask = masks[requirement] = np.array(accepted, dtype=np.bool_)[table.label(requirement.key)]
    return mask


def nodes_with_all(table: NodeTable, requirements: tuple[Requirement, ...]) -> Mask:
    mask = np.ones(table.count, dtype=np.bool_)
    for requirement in requirements:
        mask &= nodes_with(table, requirement)
    return mask


def nodes_of_term(table: NodeTable, term: NodeTerm, *, by_name: bool = True) -> Mask:
    """Nodes that meet one term. Volumes know labels alone, so their terms leave names out."""
    if not term.labels and not term.names:
        return np.zeros(table.count, dtype=np.bool_)
    mask = nodes_with_all(table, term.labels)
    for requirement in term.names if by_name else ():
        named = np.zeros(table.count, dtype=np.bool_)
        named[[table.row_of[name] for name in requirement.values if name in table.row_of]] = True
        mask &= named if requirement.operator == "In" else ~named
    return mask


def nodes_of_terms(table: NodeTable, terms: tuple[NodeTerm, ...] | None, *, by_name: bool = True) -> Mask:
    """Nodes that meet one of the terms; all of them where there are no terms to meet."""
    if terms is None:
        return np.ones(table.count, dtype=np.bool_)
    mask = np.zeros(table.count, dtype=np.bool_)
    for term in terms:
        mask |= nodes_of_term(table, term, by_name=by_name)
    return mask


def nodes_wanted(pod: Pod, table: NodeTable) -> Mask:
    """Nodes that the pod's selector and its required node affinity allow; shape (all nodes,)."""
    selected = tuple(Requirement(key, "In", (value,)) for key, value in pod.spec.node_selector)
    return nodes_with_all(table, selected) & nodes_of_terms(table, special(pod).required_nodes)


def pods_by_node(table: NodeTable, namespace: str, selector: Selector | None) -> Ints:
    """Pods of a namespace that a selector means, without those that are ending; shape (all nodes,)."""
    if selector is None or not selector.requirements:
        # Spreading takes an empty selector for one that counts nobody, though the pod itself meets it.
        return np.zeros(table.count, dtype=np.int64)
    tenants = table.tenants
    return tenants.count(
        rows
        for pods, rows in tenants.labels.items()
        if pods.namespace == namespace and not pods.terminating and selector.selects(dict(pods.labels))
    )


def sum_by_domain(table: NodeTable, topology_key: str, by_node: Ints, among: Mask | None = None) -> Ints:
    """Sums over the nodes that share a value of a label, by the label's code; one more place, for no label, holds 0."""
    codes = table.label(topology_key)
    counted = codes >= 0 if among is None else among & (codes >= 0)
    sums = np.zeros(len(table.label_values(topology_key)) + 1, dtype=np.int64)
    np.add.at(sums, codes[counted], by_node[counted])
    return sums
