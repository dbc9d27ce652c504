"""Arguments of kube-scheduler's plug-ins as options of ours; what cannot be honoured is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from foresail.errors import OptionError
from foresail.policies.kubernetes.stated_terms import read_affinity, read_spread

Options = dict[str, dict[str, Any]]
"""Options under `filter` and `score`."""


class Refused(Exception):  # noqa: N818 - it says what happened, and the reader turns it into an InputError
    """An argument that cannot be honoured."""

    def __init__(self, field: str, value: Any, remedy: str) -> None:
        super().__init__(field)
        self.field = field
        """Below `args`, with its dot; empty for all of them."""
        self.value = value
        self.remedy = remedy


def arguments_of(name: str, args: Mapping[str, Any]) -> Options:
    """The options that a plug-in's arguments mean."""
    own = {key: value for key, value in args.items() if key not in {"apiVersion", "kind"}}
    read = _READERS.get(name)
    if read is None:
        if own and name not in _WITHOUT_MEANING:
            raise Refused("", own, f"arguments are supported for {', '.join(_READERS)}")
        return {}
    return read(own)


def _resources_fit(args: Mapping[str, Any]) -> Options:
    _known(args, ("scoringStrategy", "ignoredResources", "ignoredResourceGroups"))
    for name in ("ignoredResources", "ignoredResourceGroups"):
        if args.get(name):
            raise Refused(f".{name}", args[name], "resources are not ignored here; leave it out")
    strategy = args.get("scoringStrategy")
    if strategy is None:
        return {}
    if not isinstance(strategy, Mapping):
        raise Refused(".scoringStrategy", strategy, "a mapping with type and resources is needed")
    _known(strategy, ("type", "resources", "requestedToCapacityRatio"), ".scoringStrategy")
    kind = strategy.get("type", "LeastAllocated")
    if kind not in {"LeastAllocated", "MostAllocated"}:
        raise Refused(".scoringStrategy.type", kind, "supported are LeastAllocated and MostAllocated")
    options: dict[str, Any] = {"strategy": kind}
    if strategy.get("resources"):
        options["resources"] = _weights(strategy["resources"], ".scoringStrategy.resources")
    return {"score": options}


def _balanced(args: Mapping[str, Any]) -> Options:
    _known(args, ("resources",))
    weights = _weights(args.get("resources") or [{"name": "cpu"}, {"name": "memory"}], ".resources")
    if weights != {"cpu": 1, "memory": 1}:
        raise Refused(".resources", args["resources"], "supported are cpu and memory, each of weight 1")
    return {}


def _spread(args: Mapping[str, Any]) -> Options:
    _known(args, ("defaultConstraints", "defaultingType"))
    kind = args.get("defaultingType", "System" if not args.get("defaultConstraints") else "List")
    if kind not in {"System", "List"}:
        raise Refused(".defaultingType", kind, "write System or List")
    stated = args.get("defaultConstraints") or []
    if kind == "System":
        if stated:
            raise Refused(".defaultConstraints", stated, "with defaultingType System there are none; write List")
        return {}
    _readable(lambda: read_spread(stated, "defaultConstraints"), ".defaultConstraints", stated)
    return {"filter": {"defaults": stated}, "score": {"defaults": stated}}


def _inter_pod_affinity(args: Mapping[str, Any]) -> Options:
    _known(args, ("hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"))
    options: dict[str, Any] = {}
    weight = args.get("hardPodAffinityWeight")
    if weight is not None:
        if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= 100:
            raise Refused(".hardPodAffinityWeight", weight, "a weight is a whole number from 0 to 100")
        options["hard_weight"] = weight
    ignore = args.get("ignorePreferredTermsOfExistingPods")
    if ignore is not None:
        if not isinstance(ignore, bool):
            raise Refused(".ignorePreferredTermsOfExistingPods", ignore, "write true or false")
        options["ignore_existing"] = ignore
    return {"score": options} if options else {}


def _node_affinity(args: Mapping[str, Any]) -> Options:
    _known(args, ("addedAffinity",))
    stated = args.get("addedAffinity")
    if stated is None:
        return {}
    _readable(lambda: read_affinity(stated), ".addedAffinity", stated)
    return {"filter": {"added_affinity": stated}, "score": {"added_affinity": stated}}


_READERS: dict[str, Callable[[Mapping[str, Any]], Options]] = {
    "NodeResourcesFit": _resources_fit,
    "NodeResourcesBalancedAllocation": _balanced,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
}
_WITHOUT_MEANING = ("DefaultPreemption", "VolumeBinding", "DynamicResources")
"""Their arguments say how long binding waits and whom preemption looks at: nothing that filters or scores."""


def _known(args: Mapping[str, Any], names: tuple[str, ...], place: str = "") -> None:
    for name in args:
        if name not in names:
            raise Refused(f"{place}.{name}", args[name], f"supported are {', '.join(names)}")


def _weights(stated: Any, place: str) -> dict[str, int]:
    if not isinstance(stated, list) or not all(isinstance(one, Mapping) and one.get("name") for one in stated):
        raise Refused(place, stated, "a list of mappings with name and weight is needed")
    weights = {}
    for at, one in enumerate(stated):
        weight = one.get("weight") or 1
        if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= 100:
            raise Refused(f"{place}[{at}].weight", weight, "a weight is a whole number from 1 to 100")
        weights[str(one["name"])] = weight
    return weights


def _readable(read: Callable[[], object], place: str, stated: Any) -> None:
    try:
        read()
    except OptionError as error:
        raise Refused(place, stated, str(error)) from error
