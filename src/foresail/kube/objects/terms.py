"""Selectors and the terms of affinities and spread constraints, as Kubernetes writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from foresail.core.kubernetes import NodeTerm, PodTerm, Requirement, Selector, SpreadConstraint, Weighted
from foresail.kube.objects.quantity import RequestError, mapping, sequence
from foresail.kube.objects.values import string, strings, whole_number

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_LABEL_OPERATORS, "Gt", "Lt")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

T = TypeVar("T")


def items(value: object, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The mappings of a list, each with its place."""
    for index, item in enumerate(sequence(value, place)):
        yield f"{place}[{index}]", mapping(item, f"{place}[{index}]")


def texts(value: object, place: str) -> tuple[str, ...]:
    return tuple(string(text, f"{place}[{index}]") for index, text in enumerate(sequence(value, place)))


def selector(value: object, place: str) -> Selector | None:
    """A `LabelSelector`; None, which selects nothing, where there is none."""
    if value is None:
        return None
    stated = mapping(value, place)
    exact = strings(stated.get("matchLabels"), f"{place}.matchLabels")
    lines = [Requirement(key, "In", (text,)) for key, text in exact.items()]
    return Selector((*lines, *requirements(stated.get("matchExpressions"), f"{place}.matchExpressions")))


def requirements(value: object, place: str, operators: tuple[str, ...] = _LABEL_OPERATORS) -> tuple[Requirement, ...]:
    found = []
    for where, line in items(value, place):
        operator = string(line.get("operator"), f"{where}.operator")
        if operator not in operators:
            raise RequestError(f'{where}.operator is "{operator}"; write one of {", ".join(operators)}')
        values = texts(line.get("values"), f"{where}.values")
        found.append(Requirement(string(line.get("key"), f"{where}.key"), operator, values))
    return tuple(found)


def node_terms(value: object, place: str) -> tuple[NodeTerm, ...] | None:
    """The alternatives of a `NodeSelector`; None where there is none."""
    if value is None:
        return None
    terms = mapping(value, place).get("nodeSelectorTerms")
    return tuple(_node_term(term, where) for where, term in items(terms, f"{place}.nodeSelectorTerms"))


def _node_term(term: Mapping[str, Any], place: str) -> NodeTerm:
    return NodeTerm(
        labels=requirements(term.get("matchExpressions"), f"{place}.matchExpressions", _NODE_OPERATORS),
        names=requirements(term.get("matchFields"), f"{place}.matchFields", ("In", "NotIn")),
    )


def node_affinity(spec: Mapping[str, Any]) -> tuple[tuple[NodeTerm, ...] | None, tuple[Weighted[NodeTerm], ...]]:
    """What a pod requires of its node and what it prefers."""
    place = "spec.affinity.nodeAffinity"
    stated = mapping(mapping(spec.get("affinity"), "spec.affinity").get("nodeAffinity"), place)
    return (
        node_terms(stated.get(_REQUIRED), f"{place}.{_REQUIRED}"),
        _preferred(stated, place, "preference", _node_term),
    )


def pod_affinity(
    spec: Mapping[str, Any], kind: str, labels: Mapping[str, str], namespace: str
) -> tuple[tuple[PodTerm, ...], tuple[Weighted[PodTerm], ...]]:
    """What a pod requires and prefers of `podAffinity` or `podAntiAffinity`."""
    place = f"spec.affinity.{kind}"
    stated = mapping(mapping(spec.get("affinity"), "spec.affinity").get(kind), place)

    def term(value: Mapping[str, Any], where: str) -> PodTerm:
        return _pod_term(value, where, labels, namespace)

    required = items(stated.get(_REQUIRED), f"{place}.{_REQUIRED}")
    return (
        tuple(term(value, where) for where, value in required),
        _preferred(stated, place, "podAffinityTerm", term),
    )


def _preferred(
    stated: Mapping[str, Any], place: str, part: str, read: Callable[[Mapping[str, Any], str], T]
) -> tuple[Weighted[T], ...]:
    return tuple(
        Weighted(
            whole_number(item.get("weight"), f"{where}.weight"), read(mapping(item.get(part), where), f"{where}.{part}")
        )
        for where, item in items(stated.get(_PREFERRED), f"{place}.{_PREFERRED}")
    )


def _pod_term(term: Mapping[str, Any], place: str, labels: Mapping[str, str], namespace: str) -> PodTerm:
    chosen = selector(term.get("labelSelector"), f"{place}.labelSelector")
    chosen = _with_label_keys(chosen, term.get("matchLabelKeys"), f"{place}.matchLabelKeys", labels, "In")
    chosen = _with_label_keys(chosen, term.get("mismatchLabelKeys"), f"{place}.mismatchLabelKeys", labels, "NotIn")
    of_namespaces = selector(term.get("namespaceSelector"), f"{place}.namespaceSelector")
    namespaces = texts(term.get("namespaces"), f"{place}.namespaces")
    if not namespaces and of_namespaces is None:
        namespaces = (namespace,)
    return PodTerm(string(term.get("topologyKey"), f"{place}.topologyKey"), chosen, namespaces, of_namespaces)


def spread_constraints(spec: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[SpreadConstraint, ...]:
    found = []
    for place, stated in items(spec.get("topologySpreadConstraints"), "spec.topologySpreadConstraints"):
        chosen = selector(stated.get("labelSelector"), f"{place}.labelSelector")
        min_domains = stated.get("minDomains")
        found.append(
            SpreadConstraint(
                max_skew=whole_number(stated.get("maxSkew"), f"{place}.maxSkew", least=1),
                topology_key=string(stated.get("topologyKey"), f"{place}.topologyKey"),
                selector=_with_label_keys(
                    chosen, stated.get("matchLabelKeys"), f"{place}.matchLabelKeys", labels, "In"
                ),
                hard=_one_of(stated, "whenUnsatisfiable", place, ("DoNotSchedule", "ScheduleAnyway")),
                min_domains=1 if min_domains is None else whole_number(min_domains, f"{place}.minDomains", least=1),
                honors_affinity=_one_of(stated, "nodeAffinityPolicy", place, ("Honor", "Ignore"), "Honor"),
                honors_taints=_one_of(stated, "nodeTaintsPolicy", place, ("Honor", "Ignore"), "Ignore"),
            )
        )
    return tuple(found)


def _one_of(
    stated: Mapping[str, Any], name: str, place: str, words: tuple[str, str], default: str | None = None
) -> bool:
    """Whether the field says the first of two words."""
    word = stated.get(name, default)
    if word not in words:
        raise RequestError(f'{place}.{name} is "{word}"; write {words[0]} or {words[1]}')
    return bool(word == words[0])


def _with_label_keys(
    chosen: Selector | None, keys: object, place: str, labels: Mapping[str, str], operator: str
) -> Selector | None:
    """The selector with the pod's own values of some keys; an API server has merged them in already."""
    if chosen is None:
        return None
    lines = list(chosen.requirements)
    for key in texts(keys, place):
        line = Requirement(key, operator, (labels.get(key, ""),))
        # A key that the pod lacks is dropped, and not looked for with an empty value.
        if key in labels and line not in lines:
            lines.append(line)
    return Selector(tuple(lines))
