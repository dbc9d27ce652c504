"""InterPodAffinity: pods that want to stand near others, or far from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from foresail.core.kubernetes import PodTerm, Selector
from foresail.core.model import Codes, Mask, Nodes, Pod, Rows, Scores, Shape
from foresail.core.table import NodeTable
from foresail.core.tallies import LabelSet, PodSelector, Tally
from foresail.errors import OptionError
from foresail.policies.kubernetes.scaling import BEST
from foresail.policies.kubernetes.selecting import Domains, domains, remembered, special

_NOT_NEAR, _TOO_NEAR, _KEPT_AWAY = 1, 2, 3
_REASONS = {
    _NOT_NEAR: "node(s) didn't match pod affinity rules",
    _TOO_NEAR: "node(s) didn't match pod anti-affinity rules",
    _KEPT_AWAY: "node(s) didn't satisfy existing pods anti-affinity rules",
}


class KubeInterPodAffinityFilter:
    """Keep to nodes that the affinities of the pod and of the pods there allow; as kube-scheduler's InterPodAffinity.

    Affinity: in each term's domain stands a pod that meets all terms. If none does anywhere, a pod that meets its own
    terms may be the first. Anti-affinity: no pod in the domain meets a term, neither of this pod's terms nor this pod a
    term of theirs.
    """

    row_wise = False
    unresolvable = (_NOT_NEAR,)
    only_worsens = True

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        table, index = nodes.table, nodes.index
        terms = _terms(table, pod.shape)
        codes = np.zeros(len(nodes), dtype=np.uint8)
        codes[self._is_kept_away(terms, table, index)] = _KEPT_AWAY
        codes[self._is_too_near(terms, table, index)] = _TOO_NEAR
        if terms.affinity:
            codes[~self._is_near(terms, table, index)] = _NOT_NEAR
        return codes

    def why(self, _pod: Pod, code: int) -> tuple[str, ...]:
        return (_REASONS[code],)

    def skips(self, pod: Pod, nodes: Nodes) -> bool:
        terms = _terms(nodes.table, pod.shape)
        if terms.affinity or terms.anti_affinity:
            return False
        others = nodes.table.tenants.tallies.terms_about(terms.as_waiting)
        return not any(tally.pods for tally in others.anti_affinity.values())

    @staticmethod
    def _is_near(terms: _OwnTerms, table: NodeTable, index: Rows) -> Mask:
        pods = table.tenants.tallies.pods_selected(*(term.selector for term in terms.affinity))
        has_keys = np.ones(len(index), dtype=np.bool_)
        near = has_keys.copy()
        anywhere = False
        for term in terms.affinity:
            sums = term.domains.sums(pods.by_node)
            domain = term.domains.of[index]
            has_keys &= domain >= 0
            near &= sums[domain] > 0
            anywhere |= bool(sums.any())
        return has_keys if not anywhere and terms.meets_itself else has_keys & near

    @staticmethod
    def _is_too_near(terms: _OwnTerms, table: NodeTable, index: Rows) -> Mask:
        near = np.zeros(len(index), dtype=np.bool_)
        for term in terms.anti_affinity:
            pods = table.tenants.tallies.pods_selected(term.selector)
            if pods.pods:
                near |= term.domains.near(pods.by_node, index) > 0
        return near

    @staticmethod
    def _is_kept_away(terms: _OwnTerms, table: NodeTable, index: Rows) -> Mask:
        near = np.zeros(len(index), dtype=np.bool_)
        for topology_key, pods in table.tenants.tallies.terms_about(terms.as_waiting).anti_affinity.items():
            if pods.pods:
                near |= domains(table, topology_key).near(pods.by_node, index) > 0
        return near


class KubeInterPodAffinityScore:
    """Prefer nodes near pods the pod likes and that like it, and far from the others; as InterPodAffinity.

    raw = Σ weights of preferred terms, of this pod's and of the pods there, over all pods in the terms' domains;
    anti-affinity counts against, a required affinity of a pod there counts 1. score = int(100·(raw - min)/(max - min))
    over the feasible nodes, 0 if they are all alike.

    `hard_weight` is what a required affinity of a pod there counts instead. With `ignore_existing`, pods that prefer
    nothing themselves are all alike.
    """

    row_wise = False
    keeps_best = True

    def __init__(self, *, hard_weight: int = 1, ignore_existing: bool = False) -> None:
        if not 0 <= hard_weight <= 100:
            raise OptionError(f"kube-inter-pod-affinity: hard_weight is {hard_weight}; it is from 0 to 100")
        self._hard_weight = hard_weight
        self._ignore_existing = ignore_existing

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        total = np.zeros(len(nodes), dtype=np.int64)
        for amount, pods, of_key in self._counted_terms(pod, nodes.table):
            total += amount * of_key.near(pods.by_node, nodes.index)
        return total

    def same_for_all(self, pod: Pod, nodes: Nodes) -> float | None:
        return 0.0 if next(self._counted_terms(pod, nodes.table), None) is None else None

    def _counted_terms(self, pod: Pod, table: NodeTable) -> Iterator[tuple[int, Tally, Domains]]:
        """Terms that select any pod: weight, the pods or weights on each node, and the domains they count in."""
        terms, tallies = _terms(table, pod.shape), table.tenants.tallies
        for weight, term in terms.preferred:
            pods = tallies.pods_selected(term.selector)
            if pods.pods:
                yield weight, pods, term.domains
        if self._ignore_existing and not terms.preferred:
            return
        others = tallies.terms_about(terms.as_waiting)
        for weight, by_key in ((1, others.preferred), (self._hard_weight, others.affinity)):
            for topology_key, pods in by_key.items():
                if weight and pods.pods:
                    yield weight, pods, domains(table, topology_key)

    def normalize(self, _pod: Pod, _nodes: Nodes, raw: Scores) -> Scores:
        if not len(raw) or raw.min() == raw.max():
            return np.zeros(len(raw), dtype=np.int64)
        least, most = raw.min(), raw.max()
        scaled: Scores = (BEST * ((raw - least) / (most - least))).astype(np.int64)
        return scaled


class _Term(NamedTuple):
    """A term of a waiting pod: which pods it selects, and where."""

    selector: PodSelector
    domains: Domains


class _OwnTerms(NamedTuple):
    """All terms of a waiting pod, with all that does not change as pods come and go."""

    affinity: list[_Term]
    anti_affinity: list[_Term]
    preferred: list[tuple[int, _Term]]
    """By weight, negative for anti-affinity."""
    as_waiting: LabelSet
    """The pod as terms of others see it."""
    meets_itself: bool
    """Whether it meets its own affinity."""


@remembered
def _terms(table: NodeTable, shape: Shape) -> _OwnTerms:
    own, spec = special(shape), shape.spec
    affinity = [_term(table, term) for term in own.affinity]
    seen = LabelSet(spec.namespace, spec.labels)
    return _OwnTerms(
        affinity,
        [_term(table, term) for term in own.anti_affinity],
        [
            *((term.weight, _term(table, term.term)) for term in own.preferred_affinity),
            *((-term.weight, _term(table, term.term)) for term in own.preferred_anti_affinity),
        ],
        seen._replace(namespace_labels=tuple(sorted(table.objects.namespaces.get(spec.namespace, {}).items()))),
        all(term.selector.selects(seen) for term in affinity),
    )


def _term(table: NodeTable, term: PodTerm) -> _Term:
    chosen, namespaces = term.namespace_selector, frozenset(term.namespaces)
    everywhere = None
    if chosen is not None:
        namespaces |= {name for name, labels in table.objects.namespaces.items() if chosen.selects(labels)}
        # Kubernetes matches the selector against no labels as well, so one that only forbids means every namespace.
        everywhere = Selector() if chosen.selects({}) else None
    return _Term(PodSelector(term.selector, namespaces, everywhere), domains(table, term.topology_key))
