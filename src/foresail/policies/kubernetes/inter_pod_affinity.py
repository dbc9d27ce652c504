"""InterPodAffinity: pods that want to stand near others, or far from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from foresail.core.kubernetes import PodTerm
from foresail.core.model import Codes, Ints, Mask, Nodes, Pod, Scores
from foresail.core.table import NodeTable
from foresail.core.tenants import LabelSet
from foresail.policies.kubernetes.scaling import BEST
from foresail.policies.kubernetes.selecting import special, sum_by_domain

_NOT_NEAR, _TOO_NEAR, _NOT_WELCOME = 1, 2, 3
_REASONS = {
    _NOT_NEAR: "node(s) didn't match pod affinity rules",
    _TOO_NEAR: "node(s) didn't match pod anti-affinity rules",
    _NOT_WELCOME: "node(s) didn't satisfy existing pods anti-affinity rules",
}
_REQUIRED_WEIGHT = 1
"""What a required term of a pod on a node adds to the score."""

Meant = Callable[[LabelSet], bool]


class KubeInterPodAffinityFilter:
    """Keep to nodes that the affinities of the pod and of the pods there allow; as kube-scheduler's InterPodAffinity.

    Affinity: in each term's domain stands a pod that meets all terms. If none does anywhere, a pod that meets its own
    terms may be the first. Anti-affinity: no pod in the domain meets a term, neither of this pod's terms nor this pod a
    term of theirs.
    """

    row_wise = False

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        table = nodes.table
        codes = np.where(self._is_unwelcome(pod, table), _NOT_WELCOME, 0)
        codes[self._is_too_near(pod, table)] = _TOO_NEAR
        codes[~self._is_near(pod, table)] = _NOT_NEAR
        return codes[nodes.index].astype(np.uint8)

    def why(self, _pod: Pod, code: int) -> tuple[str, ...]:
        return (_REASONS[code],)

    @staticmethod
    def _is_near(pod: Pod, table: NodeTable) -> Mask:
        terms = special(pod).affinity
        if not terms:
            return np.ones(table.count, dtype=np.bool_)
        meant = [_meant_by_waiting(term, table) for term in terms]
        pods = _pods(table, lambda labels: all(means(labels) for means in meant))
        has_keys = np.ones(table.count, dtype=np.bool_)
        near = has_keys.copy()
        anywhere = False
        for term in terms:
            sums = sum_by_domain(table, term.topology_key, pods)
            domain = table.label(term.topology_key)
            has_keys &= domain >= 0
            near &= sums[domain] > 0
            anywhere |= bool(sums.any())
        if not anywhere and all(means(_label_set(pod)) for means in meant):
            return has_keys
        return has_keys & near

    @staticmethod
    def _is_too_near(pod: Pod, table: NodeTable) -> Mask:
        near = np.zeros(table.count, dtype=np.bool_)
        for term in special(pod).anti_affinity:
            near |= _by_node(table, term, _pods(table, _meant_by_waiting(term, table))) > 0
        return near

    @staticmethod
    def _is_unwelcome(pod: Pod, table: NodeTable) -> Mask:
        near = np.zeros(table.count, dtype=np.bool_)
        tenants = table.tenants
        for terms, rows in tenants.terms.items():
            for term in terms.anti_affinity:
                if _means_waiting(term, pod, table):
                    near |= _by_node(table, term, tenants.count([rows])) > 0
        return near


class KubeInterPodAffinityScore:
    """Prefer nodes near pods the pod likes and that like it, and far from the others; as InterPodAffinity.

    raw = Σ weights of preferred terms, of this pod's and of the pods there, over all pods in the terms' domains;
    anti-affinity counts against, a required affinity of a pod there counts 1. score = int(100·(raw - min)/(max - min))
    over the feasible nodes, 0 if they are all alike.
    """

    row_wise = False
    keeps_best = True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        table, own = nodes.table, special(pod)
        total = np.zeros(table.count, dtype=np.int64)
        for sign, preferred in ((1, own.preferred_affinity), (-1, own.preferred_anti_affinity)):
            for wish in preferred:
                pods = _pods(table, _meant_by_waiting(wish.term, table))
                total += sign * wish.weight * _by_node(table, wish.term, pods)
        tenants = table.tenants
        for terms, rows in tenants.terms.items():
            wishes = [
                *((_REQUIRED_WEIGHT, term) for term in terms.affinity),
                *((wish.weight, wish.term) for wish in terms.preferred_affinity),
                *((-wish.weight, wish.term) for wish in terms.preferred_anti_affinity),
            ]
            for weight, term in wishes:
                if _means_waiting(term, pod, table):
                    total += weight * _by_node(table, term, tenants.count([rows]))
        return total[nodes.index]

    def normalize(self, _pod: Pod, _nodes: Nodes, raw: Scores) -> Scores:
        if not len(raw) or raw.min() == raw.max():
            return np.zeros(len(raw), dtype=np.int64)
        least, most = raw.min(), raw.max()
        scaled: Scores = (BEST * ((raw - least) / (most - least))).astype(np.int64)
        return scaled


def _label_set(pod: Pod) -> LabelSet:
    return LabelSet(pod.spec.namespace, pod.spec.labels, terminating=False)


def _meant_by_waiting(term: PodTerm, table: NodeTable) -> Meant:
    """Which pods a term of the waiting pod means."""
    chosen = term.namespace_selector
    namespaces = set(term.namespaces)
    everywhere = False
    if chosen is not None:
        namespaces |= {name for name, labels in table.objects.namespaces.items() if chosen.selects(labels)}
        # Kubernetes matches the selector against no labels as well, so one that only forbids means every namespace.
        everywhere = chosen.selects({})
    selector = term.selector

    def meant(pods: LabelSet) -> bool:
        return (
            selector is not None
            and (everywhere or pods.namespace in namespaces)
            and selector.selects(dict(pods.labels))
        )

    return meant


def _means_waiting(term: PodTerm, pod: Pod, table: NodeTable) -> bool:
    """Whether a term of a pod on a node means the waiting pod."""
    chosen, namespace = term.namespace_selector, pod.spec.namespace
    if namespace not in term.namespaces and (
        chosen is None or not chosen.selects(table.objects.namespaces.get(namespace, {}))
    ):
        return False
    return term.selector is not None and term.selector.selects(dict(pod.spec.labels))


def _pods(table: NodeTable, meant: Meant) -> Ints:
    """Pods that are meant, on each node; shape (all nodes,)."""
    tenants = table.tenants
    found: Iterable[dict[int, int]] = (rows for pods, rows in tenants.labels.items() if meant(pods))
    return tenants.count(found)


def _by_node(table: NodeTable, term: PodTerm, pods: Ints) -> Ints:
    """Pods in each node's domain, 0 for nodes outside all of them; shape (all nodes,)."""
    return sum_by_domain(table, term.topology_key, pods)[table.label(term.topology_key)]
