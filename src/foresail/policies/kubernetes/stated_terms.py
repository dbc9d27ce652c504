"""Node affinity and spread constraints as options state them: plain data in Kubernetes' own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from foresail.core.kubernetes import NodeTerm, Requirement, SpreadConstraint, Weighted
from foresail.errors import OptionError

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_LABELS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELDS = ("In", "NotIn")


class AddedAffinity(NamedTuple):
    """What is asked of nodes for every pod, whatever the pods say."""

    required: tuple[NodeTerm, ...] | None = None
    preferred: tuple[Weighted[NodeTerm], ...] = ()


def read_affinity(stated: Mapping[str, Any] | None) -> AddedAffinity:
    """A `NodeAffinity`."""
    if stated is None:
        return AddedAffinity()
    whole = _mapping(stated, "added_affinity", (_REQUIRED, _PREFERRED))
    required = None
    if whole.get(_REQUIRED) is not None:
        place = f"added_affinity.{_REQUIRED}"
        terms = _mapping(whole[_REQUIRED], place, ("nodeSelectorTerms",)).get("nodeSelectorTerms")
        required = tuple(_term(term, where) for where, term in _list(terms, f"{place}.nodeSelectorTerms"))
    preferred = []
    for where, wish in _list(whole.get(_PREFERRED), f"added_affinity.{_PREFERRED}"):
        parts = _mapping(wish, where, ("weight", "preference"))
        weight = parts.get("weight")
        if not isinstance(weight, int) or not 1 <= weight <= 100:
            raise OptionError(f"{where}.weight is {weight!r}; a weight is a whole number from 1 to 100")
        preferred.append(Weighted(weight, _term(parts.get("preference"), f"{where}.preference")))
    return AddedAffinity(required, tuple(preferred))


def read_spread(stated: Any, place: str = "defaults") -> tuple[SpreadConstraint, ...]:
    """Spread constraints without selectors, which are those of each pod's service and owner."""
    found = []
    for where, constraint in _list(stated, place):
        parts = _mapping(constraint, where, ("maxSkew", "topologyKey", "whenUnsatisfiable"))
        skew, key, when = (parts.get(name) for name in ("maxSkew", "topologyKey", "whenUnsatisfiable"))
        if isinstance(skew, bool) or not isinstance(skew, int) or skew < 1:
            raise OptionError(f"{where}.maxSkew is {skew!r}; a skew is a whole number of 1 or more")
        if not isinstance(key, str) or not key:
            raise OptionError(f"{where}.topologyKey is {key!r}; name a node label")
        if when not in {"DoNotSchedule", "ScheduleAnyway"}:
            raise OptionError(f"{where}.whenUnsatisfiable is {when!r}; write DoNotSchedule or ScheduleAnyway")
        found.append(SpreadConstraint(skew, key, None, hard=when == "DoNotSchedule"))
    return tuple(found)


def _term(stated: Any, place: str) -> NodeTerm:
    parts = _mapping(stated, place, ("matchExpressions", "matchFields"))
    return NodeTerm(
        labels=_requirements(parts.get("matchExpressions"), f"{place}.matchExpressions", _LABELS),
        names=_requirements(parts.get("matchFields"), f"{place}.matchFields", _FIELDS),
    )


def _requirements(stated: Any, place: str, operators: tuple[str, ...]) -> tuple[Requirement, ...]:
    found = []
    for where, line in _list(stated, place):
        parts = _mapping(line, where, ("key", "operator", "values"))
        key, operator, values = parts.get("key"), parts.get("operator"), parts.get("values") or []
        if not isinstance(key, str) or not key:
            raise OptionError(f"{where}.key is {key!r}; name a label")
        if operator not in operators:
            raise OptionError(f"{where}.operator is {operator!r}; write one of {', '.join(operators)}")
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise OptionError(f"{where}.values is {values!r}; write a list of texts, in quotes")
        found.append(Requirement(key, operator, tuple(values)))
    return tuple(found)


def _list(value: Any, place: str) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise OptionError(f"{place} is {value!r}; a list is needed")
    return [(f"{place}[{at}]", item) for at, item in enumerate(value)]


def _mapping(value: Any, place: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise OptionError(f"{place} is {value!r}; a mapping with {' and '.join(known)} is needed")
    for name in value:
        if name not in known:
            raise OptionError(f"{place}.{name} is not known here; supported are {', '.join(known)}")
    return value
