"""PodTopologySpread: pods of a kind stand evenly over zones, racks and nodes."""

from __future__ import annotations

import numpy as np

from foresail.core.kubernetes import Requirement, Selector, SpreadConstraint
from foresail.core.model import Codes, Mask, Nodes, Pod, Scores
from foresail.core.table import NodeTable
from foresail.policies.fit import Taints
from foresail.policies.kubernetes.scaling import BEST
from foresail.policies.kubernetes.selecting import (
    HOSTNAME,
    ZONE,
    nodes_wanted,
    pods_by_node,
    special,
    sum_by_domain,
)

_UNEVEN, _NO_LABEL = 1, 2
_REASONS = {
    _UNEVEN: "node(s) didn't match pod topology spread constraints",
    _NO_LABEL: "node(s) didn't match pod topology spread constraints (missing required label)",
}
_DEFAULTS = ((HOSTNAME, 3), (ZONE, 5))
"""Topologies with the skew that Kubernetes spreads pods of services and replica sets by, if they say nothing."""


class KubeTopologySpreadFilter:
    """Keep to nodes where the pod would not stand more unevenly than it allows; as kube-scheduler's PodTopologySpread.

    A node passes a constraint if pods in its domain + (1 if the pod meets its own selector) - the fewest pods in any
    domain ≤ maxSkew. Nodes count that have the labels of all hard constraints and that the constraint's policies
    include; with fewer domains than minDomains the fewest is 0. Pods that are ending do not count.
    """

    row_wise = False

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        table = nodes.table
        hard = [constraint for constraint in special(pod).spread if constraint.hard]
        complete = _with_labels(table, hard)
        codes = np.zeros(table.count, dtype=np.uint8)
        for constraint in hard:
            domain = table.label(constraint.topology_key)
            among = complete & _included(pod, table, constraint)
            counts = pods_by_node(table, pod.spec.namespace, constraint.selector)
            sums = sum_by_domain(table, constraint.topology_key, counts, among)
            domains = np.unique(domain[among])
            fewest = int(sums[domains].min()) if len(domains) >= constraint.min_domains else 0
            uneven = sums[domain] + _meets_itself(pod, constraint) - fewest > constraint.max_skew
            refusal = np.where(domain < 0, _NO_LABEL, np.where(uneven, _UNEVEN, 0))
            codes = np.where(codes == 0, refusal, codes).astype(np.uint8)
        return codes[nodes.index]

    def why(self, _pod: Pod, code: int) -> tuple[str, ...]:
        return (_REASONS[code],)

    def skips(self, pod: Pod, _nodes: Nodes) -> bool:
        return not any(constraint.hard for constraint in special(pod).spread)


class KubeTopologySpreadScore:
    """Prefer nodes whose domains have few pods like this one; as kube-scheduler's PodTopologySpread.

    raw = round(Σ pods in the domain · ln(domains + 2) + maxSkew - 1) over the soft constraints, and score =
    100·(max + min - raw) div max over the feasible nodes. A node that lacks a label of the pod's own constraints scores
    0. Pods without constraints are spread by their service and owner over nodes (skew 3) and zones (skew 5).
    """

    row_wise = False
    keeps_best = False

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        table, index = nodes.table, nodes.index
        constraints = _soft(pod, table)
        scored = self._scored(pod, table, constraints)
        total = np.zeros(len(nodes))
        # Constraints mostly share one selector, the defaults always do.
        counted = {selector: pods_by_node(table, pod.spec.namespace, selector) for selector in _selectors(constraints)}
        for constraint in constraints:
            domain = table.label(constraint.topology_key)[index]
            counts = counted[constraint.selector]
            if constraint.topology_key == HOSTNAME:
                size, by_node = int(scored[index].sum()), counts[index]
            else:
                # Nodes without the label are a domain too when it is not asked for.
                size = len(np.unique(domain[scored[index]]))
                among = scored & _included(pod, table, constraint)
                by_node = sum_by_domain(table, constraint.topology_key, counts, among)[domain]
            total += np.where(domain >= 0, by_node * np.log(size + 2) + (constraint.max_skew - 1), 0.0)
        rounded = np.floor(total)
        rounded += total - rounded >= 0.5
        return np.where(scored[index], rounded, 0).astype(np.int64)

    def normalize(self, pod: Pod, nodes: Nodes, raw: Scores) -> Scores:
        constraints = _soft(pod, nodes.table)
        scored = self._scored(pod, nodes.table, constraints)[nodes.index]
        result = np.zeros(len(raw), dtype=np.int64)
        if not constraints or not scored.any():
            return result
        counts = raw[scored].astype(np.int64)
        most = int(counts.max())
        result[scored] = BEST * (most + int(counts.min()) - counts) // most if most else BEST
        return result

    @staticmethod
    def _scored(pod: Pod, table: NodeTable, constraints: list[SpreadConstraint]) -> Mask:
        return _with_labels(table, constraints if special(pod).spread else [])


def _soft(pod: Pod, table: NodeTable) -> list[SpreadConstraint]:
    own = special(pod).spread
    if own:
        return [constraint for constraint in own if not constraint.hard]
    selector = _default_selector(pod, table)
    if not selector.requirements:
        return []
    return [SpreadConstraint(skew, key, selector, hard=False) for key, skew in _DEFAULTS]


def _default_selector(pod: Pod, table: NodeTable) -> Selector:
    """The pods that belong with this one: what its services and its owner select, all together."""
    objects, labels = table.objects, dict(pod.spec.labels)
    exact: dict[str, str] = {}
    for (namespace, _), chosen in objects.services.items():
        if namespace == pod.spec.namespace and all(labels.get(key) == value for key, value in chosen.items()):
            exact |= chosen
    kind, _, name = pod.spec.owner.partition("/")
    owner = objects.controllers.get((kind, pod.spec.namespace, name), Selector())
    return Selector((*(Requirement(key, "In", (value,)) for key, value in exact.items()), *owner.requirements))


def _selectors(constraints: list[SpreadConstraint]) -> set[Selector | None]:
    return {constraint.selector for constraint in constraints}


def _with_labels(table: NodeTable, constraints: list[SpreadConstraint]) -> Mask:
    """Nodes that have the labels of all the constraints; shape (all nodes,)."""
    mask = np.ones(table.count, dtype=np.bool_)
    for constraint in constraints:
        mask &= table.label(constraint.topology_key) >= 0
    return mask


def _included(pod: Pod, table: NodeTable, constraint: SpreadConstraint) -> Mask:
    """Nodes whose pods the constraint counts; shape (all nodes,)."""
    mask = np.ones(table.count, dtype=np.bool_)
    if constraint.honors_affinity:
        mask &= nodes_wanted(pod, table)
    if constraint.honors_taints:
        mask &= Taints().passes(pod, table.all)
    return mask


def _meets_itself(pod: Pod, constraint: SpreadConstraint) -> int:
    return int(constraint.selector is not None and constraint.selector.selects(dict(pod.spec.labels)))
