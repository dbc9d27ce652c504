"""Which nodes a selector selects: masks over all nodes and domains, worked out once as long as the nodes stay."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from foresail.core.kubernetes import KubernetesPod, NodeTerm, Requirement
from foresail.core.model import Ints, Mask, Pod, Rows, Shape
from foresail.core.table import NodeTable

NOTHING_SPECIAL = KubernetesPod()
"""Stands in for pods of traces that know nothing of Kubernetes."""

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

_MOST_REMEMBERED = 1 << 14

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def remembered(work_out: Callable[[NodeTable, Key], Value]) -> Callable[[NodeTable, Key], Value]:
    """Work an answer out once, as long as neither nodes nor objects of the cluster change. Nobody may write to it."""
    known: WeakKeyDictionary[NodeTable, tuple[int, dict[Key, Value]]] = WeakKeyDictionary()

    @functools.wraps(work_out)
    def answer(table: NodeTable, key: Key) -> Value:
        structure, answers = known.get(table, (-1, {}))
        if structure != table.structure or len(answers) > _MOST_REMEMBERED:
            answers = {}
            known[table] = (table.structure, answers)
        if key not in answers:
            answers[key] = work_out(table, key)
        return answers[key]

    return answer


def special(pod: Pod | Shape) -> KubernetesPod:
    """What only Kubernetes says of a pod."""
    return pod.spec.kubernetes or NOTHING_SPECIAL


@remembered
def nodes_with(table: NodeTable, requirement: Requirement) -> Mask:
    """Nodes whose labels meet a requirement; shape (all nodes,)."""
    accepted = [requirement.accepts(value) for value in table.label_values(requirement.key)]
    # A node without the label has code -1, which is the last place.
    accepted.append(requirement.accepts(None))
    return np.array(accepted, dtype=np.bool_)[table.label(requirement.key)]


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


def wants_any_node(shape: Shape) -> bool:
    """Whether the pod names no nodes, neither by a selector nor by a required node affinity."""
    return not shape.spec.node_selector and special(shape).required_nodes is None


@remembered
def nodes_wanted(table: NodeTable, shape: Shape) -> Mask:
    """Nodes that the pod's selector and its required node affinity allow; shape (all nodes,)."""
    selected = tuple(Requirement(key, "In", (value,)) for key, value in shape.spec.node_selector)
    return nodes_with_all(table, selected) & nodes_of_terms(table, special(shape).required_nodes)


class Domains(NamedTuple):
    """Which nodes share a value of a label, and which of them count."""

    of: Ints
    """Number of each node's domain, -1 for none: in what is kept by domain that is the last place."""
    counted: Ints
    """The same, with the last place for nodes that do not count."""
    eligible: Ints
    """The domains with a node that counts."""
    size: int
    alone: bool
    """Whether every node is a domain of its own, and counts; as hosts are."""

    def sums(self, by_node: Ints) -> Ints:
        """Sums over the nodes of each domain that count; one more place, for no domain, holds 0."""
        sums = np.bincount(self.counted, weights=by_node, minlength=self.size + 1).astype(np.int64)
        sums[-1] = 0
        return sums

    def near(self, by_node: Ints, rows: Rows) -> Ints:
        """What these rows have in their domains, 0 without one; shape (rows,)."""
        return by_node[rows] if self.alone else self.sums(by_node)[self.of[rows]]


def domains_among(table: NodeTable, topology_key: str, among: Mask) -> Domains:
    """The domains of a topology, where only these nodes count."""
    return domains(table, topology_key) if among.all() else _domains(table, topology_key, among)


@remembered
def domains(table: NodeTable, topology_key: str) -> Domains:
    """The domains of a topology, where all nodes count."""
    return _domains(table, topology_key, np.ones(table.count, dtype=np.bool_))


def _domains(table: NodeTable, topology_key: str, among: Mask) -> Domains:
    of, size = table.label(topology_key), len(table.label_values(topology_key))
    counts = among & (of >= 0)
    eligible = np.unique(of[counts])
    return Domains(of, np.where(counts, of, size), eligible, size, alone=len(eligible) == table.count)
