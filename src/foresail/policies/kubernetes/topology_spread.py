"""PodTopologySpread: pods of a kind stand evenly over zones, racks and nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from foresail.core.kubernetes import Requirement, Selector, SpreadConstraint
from foresail.core.model import Codes, Ints, Mask, Nodes, Pod, Scores, Shape
from foresail.core.objects import Labels
from foresail.core.table import NodeTable
from foresail.core.tallies import PodSelector
from foresail.policies.kubernetes.scaling import BEST
from foresail.policies.kubernetes.selecting import (
    HOSTNAME,
    ZONE,
    Domains,
    domains_among,
    nodes_wanted,
    remembered,
    special,
    wants_any_node,
)
from foresail.policies.kubernetes.stated_terms import read_spread
from foresail.policies.plain.fit import Taints

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

    `defaults` lists the constraints (maxSkew, topologyKey, whenUnsatisfiable) of pods that state none.
    """

    row_wise = False
    unresolvable = (_NO_LABEL,)
    only_worsens = True

    def __init__(self, *, defaults: list[dict[str, Any]] | None = None) -> None:
        self._defaults = None if defaults is None else read_spread(defaults)

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        table, index = nodes.table, nodes.index
        codes = np.zeros(len(nodes), dtype=np.uint8)
        for rule in _hard(table, (pod.shape, self._defaults)):
            sums = rule.domains.sums(_counts(table, rule))
            eligible = rule.domains.eligible
            fewest = int(sums[eligible].min()) if len(eligible) >= rule.constraint.min_domains else 0
            of_domain = np.where(sums + rule.meets_itself - fewest > rule.constraint.max_skew, _UNEVEN, 0)
            of_domain[-1] = _NO_LABEL
            refusal = of_domain.astype(np.uint8)[rule.domains.of[index]]
            codes = np.where(codes == 0, refusal, codes)
        return codes

    def why(self, _pod: Pod, code: int) -> tuple[str, ...]:
        return (_REASONS[code],)

    def skips(self, pod: Pod, nodes: Nodes) -> bool:
        return not _hard(nodes.table, (pod.shape, self._defaults))


class KubeTopologySpreadScore:
    """Prefer nodes whose domains have few pods like this one; as kube-scheduler's PodTopologySpread.

    raw = round(Σ pods in the domain · ln(domains + 2) + maxSkew - 1) over the soft constraints, and score =
    100·(max + min - raw) div max over the feasible nodes. A node that lacks a label of the pod's own constraints scores
    0. Pods without constraints are spread by their service and owner over nodes (skew 3) and zones (skew 5).

    `defaults` lists the constraints (maxSkew, topologyKey, whenUnsatisfiable) of such pods instead.
    """

    row_wise = False
    keeps_best = False

    def __init__(self, *, defaults: list[dict[str, Any]] | None = None) -> None:
        self._defaults = None if defaults is None else read_spread(defaults)

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        table, rows = nodes.table, nodes.index
        soft = _soft(table, (pod.shape, self._defaults))
        if not soft.rules:
            return np.zeros(len(nodes), dtype=np.int64)
        total = np.zeros(len(nodes))
        for rule in soft.rules:
            counts, of, size = _counts(table, rule), rule.domains.of, rule.domains.size
            if rule.constraint.topology_key == HOSTNAME:
                # A host counts its own pods, even those that the constraint's policies leave out.
                found, by_node = int(np.count_nonzero(soft.scored[rows])), counts
            else:
                found, by_node = _count_domains(rows, soft.scored, of, size), rule.domains.sums(counts)[of]
            _add(total, rows, of, by_node, np.log(found + 2), rule.constraint.max_skew - 1)
        raw: Scores = _rounded(total, rows, soft.scored)
        return raw

    def normalize(self, pod: Pod, nodes: Nodes, raw: Scores) -> Scores:
        soft = _soft(nodes.table, (pod.shape, self._defaults))
        if not soft.rules:
            return np.zeros(len(raw), dtype=np.int64)
        scaled: Scores = _scaled(raw.astype(np.int64), nodes.index, soft.scored)
        return scaled

    def same_for_all(self, pod: Pod, nodes: Nodes) -> float | None:
        return None if _soft(nodes.table, (pod.shape, self._defaults)).rules else 0.0


@njit(cache=True)
def _count_domains(rows: Any, scored: Any, of: Any, size: int) -> int:
    """Domains of the scored rows; those without a label are a domain too when it is not asked for."""
    seen = np.zeros(size + 1, dtype=np.bool_)
    for row in rows:
        if scored[row]:
            seen[of[row]] = True
    return int(seen.sum())


@njit(cache=True)
def _add(total: Any, rows: Any, of: Any, by_node: Any, factor: float, more: int) -> None:
    for at in range(len(rows)):
        row = rows[at]
        if of[row] >= 0:
            total[at] += by_node[row] * factor + more


@njit(cache=True)
def _rounded(total: Any, rows: Any, scored: Any) -> Any:
    """Halves are rounded up."""
    rounded = np.zeros(len(rows), dtype=np.int64)
    for at in range(len(rows)):
        if scored[rows[at]]:
            whole = np.floor(total[at])
            rounded[at] = int(whole) + (1 if total[at] - whole >= 0.5 else 0)
    return rounded


@njit(cache=True)
def _scaled(raw: Any, rows: Any, scored: Any) -> Any:
    scaled = np.zeros(len(rows), dtype=np.int64)
    most, least = -1, -1
    for at in range(len(rows)):
        if scored[rows[at]]:
            most = max(most, raw[at])
            least = raw[at] if least < 0 else min(least, raw[at])
    for at in range(len(rows)):
        if scored[rows[at]]:
            scaled[at] = BEST * (most + least - raw[at]) // most if most > 0 else BEST
    return scaled


class _Rule(NamedTuple):
    """A constraint of a pod, with all that does not change as pods come and go."""

    constraint: SpreadConstraint
    selector: PodSelector | None
    """None counts nobody."""
    domains: Domains
    meets_itself: int


class _Soft(NamedTuple):
    """The soft constraints of a pod, and the nodes that have all their labels."""

    rules: list[_Rule]
    scored: Mask


_NO_RULES = _Soft([], np.zeros(0, dtype=np.bool_))


Defaults = tuple[SpreadConstraint, ...] | None
"""Constraints without a selector for pods that state none; None for Kubernetes' own."""


@remembered
def _hard(table: NodeTable, asked: tuple[Shape, Defaults]) -> list[_Rule]:
    shape, defaults = asked
    hard = [constraint for constraint in _constraints(table, shape, defaults) if constraint.hard]
    if not hard:
        return []
    complete = _with_labels(table, hard)
    return [_rule(table, shape, constraint, complete) for constraint in hard]


@remembered
def _soft(table: NodeTable, asked: tuple[Shape, Defaults]) -> _Soft:
    shape, defaults = asked
    constraints = [constraint for constraint in _constraints(table, shape, defaults) if not constraint.hard]
    if not constraints:
        return _NO_RULES
    # Kubernetes' own defaults do without labels that a node lacks; what somebody has stated does not.
    is_stated = bool(special(shape).spread) or defaults is not None
    scored = _with_labels(table, constraints if is_stated else [])
    return _Soft([_rule(table, shape, constraint, scored) for constraint in constraints], scored)


def _constraints(table: NodeTable, shape: Shape, defaults: Defaults) -> tuple[SpreadConstraint, ...]:
    """The pod's own, or else those by which pods of services and controllers are spread."""
    own = special(shape).spread
    if own or defaults == ():
        return own
    selector = _default_selector(table, shape)
    if not selector.requirements:
        return ()
    if defaults is None:
        return tuple(SpreadConstraint(skew, key, selector, hard=False) for key, skew in _DEFAULTS)
    return tuple(replace(constraint, selector=selector) for constraint in defaults)


def _rule(table: NodeTable, shape: Shape, constraint: SpreadConstraint, among: Mask) -> _Rule:
    among = _included(table, shape, constraint, among)
    selector = constraint.selector
    # Spreading takes an empty selector for one that counts nobody, though the pod itself meets it.
    counts = selector is not None and selector.requirements
    return _Rule(
        constraint,
        PodSelector(selector, frozenset([shape.spec.namespace]), terminating_too=False) if counts else None,
        domains_among(table, constraint.topology_key, among),
        int(selector is not None and selector.selects(dict(shape.spec.labels))),
    )


def _counts(table: NodeTable, rule: _Rule) -> Ints:
    """Pods on each node that the constraint is about; shape (all nodes,)."""
    if rule.selector is None:
        return np.zeros(table.count, dtype=np.int64)
    return table.tenants.tallies.pods_selected(rule.selector).by_node


def _default_selector(table: NodeTable, shape: Shape) -> Selector:
    """The pods that belong with this one: what its services and its owner select, all together."""
    spec, services = shape.spec, _services_by_label(table, None)
    labels = dict(spec.labels)
    exact: dict[str, str] = {}
    for label in spec.labels:
        for chosen in services.get((spec.namespace, label), ()):
            if all(labels.get(key) == value for key, value in chosen.items()):
                exact |= chosen
    kind, _, name = spec.owner.partition("/")
    owner = table.objects.controllers.get((kind, spec.namespace, name), Selector())
    return Selector((*(Requirement(key, "In", (value,)) for key, value in exact.items()), *owner.requirements))


@remembered
def _services_by_label(table: NodeTable, _key: None) -> dict[tuple[str, tuple[str, str]], list[Labels]]:
    """Namespace and the first label that a service selects by, to what such services select by."""
    found: dict[tuple[str, tuple[str, str]], list[Labels]] = {}
    for (namespace, _), chosen in table.objects.services.items():
        for label in tuple(chosen.items())[:1]:
            found.setdefault((namespace, label), []).append(chosen)
    return found


def _with_labels(table: NodeTable, constraints: list[SpreadConstraint]) -> Mask:
    """Nodes that have the labels of all the constraints; shape (all nodes,)."""
    mask = np.ones(table.count, dtype=np.bool_)
    for constraint in constraints:
        mask &= table.label(constraint.topology_key) >= 0
    return mask


def _included(table: NodeTable, shape: Shape, constraint: SpreadConstraint, among: Mask) -> Mask:
    """Those of the nodes whose pods the constraint counts; shape (all nodes,)."""
    if constraint.honors_affinity and not wants_any_node(shape):
        among = among & nodes_wanted(table, shape)
    if constraint.honors_taints and any(table.taint_sets):
        among = among & Taints().passes(Pod("", shape), table.all)
    return among
