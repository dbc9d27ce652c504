"""kube-scheduler's own configuration file, read as a profile: which plug-ins, which weights, which arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from foresail.errors import InputError, did_you_mean
from foresail.policies.kubernetes import SCORES, kubernetes_profile
from foresail.policies.profiles.scheduler_arguments import Refused, arguments_of
from foresail.yaml_files import read_yaml

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
ENDINGS = (".yaml", ".yml")
DEFAULT_NAME = "default-scheduler"

FILTER_OF = {
    "NodeUnschedulable": "kube-node-unschedulable",
    "TaintToleration": "kube-taint-toleration",
    "NodeAffinity": "kube-node-affinity",
    "NodePorts": "kube-node-ports",
    "NodeResourcesFit": "kube-resources-fit",
    "VolumeRestrictions": "kube-volume-restrictions",
    "NodeVolumeLimits": "kube-volume-limits",
    "VolumeBinding": "kube-volume-binding",
    "VolumeZone": "kube-volume-zone",
    "PodTopologySpread": "kube-topology-spread",
    "InterPodAffinity": "kube-inter-pod-affinity",
    "NodeDeclaredFeatures": "kube-declared-features",
}
SCORE_OF = {
    "TaintToleration": "kube-taint-toleration",
    "NodeAffinity": "kube-node-affinity",
    "PodTopologySpread": "kube-topology-spread",
    "InterPodAffinity": "kube-inter-pod-affinity",
    "NodeResourcesFit": "kube-resources-fit",
    "NodeResourcesBalancedAllocation": "balanced",
    "ImageLocality": "kube-image-locality",
}
ELSEWHERE = (
    *("SchedulingGates", "PrioritySort", "NodeName", "DynamicResources", "DefaultPreemption", "DefaultBinder"),
    *("GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"),
)
"""Plug-ins that filter and score nothing here: the queue, binding and preemption do their work, or nothing does."""
POINTS = (
    *("preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit"),
    *("preBind", "bind", "postBind", "placementGenerate", "placementScore"),
)

_WITH_CLAIMS = ("VolumeRestrictions", "VolumeBinding", "VolumeZone")
_KNOWN = tuple(dict.fromkeys([*FILTER_OF, *SCORE_OF, *ELSEWHERE]))
_IN_ORDER = (
    *("SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity"),
    *("NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"),
    *("PodTopologySpread", "InterPodAffinity", "DynamicResources", "DefaultPreemption"),
    *("NodeResourcesBalancedAllocation", "ImageLocality", "DefaultBinder", "NodeDeclaredFeatures"),
)
"""What kube-scheduler turns on by default, in its order."""


def read_configuration(path: Path) -> dict[str, Any]:
    """The file as plain data."""
    stated = read_yaml(path, missing=f"there is no such file; give a {KIND} in YAML")
    if not isinstance(stated, dict):
        raise InputError(f"a {KIND} is a mapping with apiVersion, kind and profiles", path=path)
    if stated.get("kind") != KIND:
        raise InputError(f"kind is {stated.get('kind')!r}; a {KIND} is needed", path=path)
    if stated.get("apiVersion") != API_VERSION:
        raise InputError(f"apiVersion is {stated.get('apiVersion')!r}; supported is {API_VERSION}", path=path)
    return stated


def profile_data(path: Path, scheduler_name: str = "") -> dict[str, Any]:
    """One profile of the file, as `load_profile` takes it: that of a scheduler's name, else the first."""
    reader = _ConfigurationReader(path)
    return reader.data(reader.chosen(read_configuration(path), scheduler_name))


class _ConfigurationReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = "profiles[0]"

    def chosen(self, stated: Mapping[str, Any], scheduler_name: str) -> Mapping[str, Any]:
        profiles = stated.get("profiles") or [{}]
        if not isinstance(profiles, list) or not all(isinstance(profile, Mapping) for profile in profiles):
            self._refuse("profiles", profiles, "a list of mappings is needed")
        names = [profile.get("schedulerName") or DEFAULT_NAME for profile in profiles]
        if scheduler_name and scheduler_name not in names:
            raise InputError(
                f'no profile has schedulerName "{scheduler_name}"; there are {", ".join(names)}', path=self._path
            )
        at = names.index(scheduler_name) if scheduler_name else 0
        self._place = f"profiles[{at}]"
        found: Mapping[str, Any] = profiles[at]
        return found

    def data(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        plugins = stated.get("plugins") or {}
        if not isinstance(plugins, Mapping):
            self._refuse("plugins", plugins, "a mapping of extension points is needed")
        for point in plugins:
            if point not in {*POINTS, "multiPoint"}:
                self._refuse("plugins", point, f"extension points are multiPoint, {', '.join(POINTS)}")
        everywhere = _merged(
            [(name, _default_weight(name)) for name in _IN_ORDER],
            self._named(plugins, "multiPoint", "enabled"),
            [name for name, _ in self._named(plugins, "multiPoint", "disabled")],
        )
        filters = [name for name, _ in self._at(plugins, "filter", everywhere, FILTER_OF)]
        scores = self._at(plugins, "score", everywhere, SCORE_OF)
        for point in POINTS:
            self._named(plugins, point, "enabled")
        self._check_pre_filters(plugins, filters, everywhere)
        options = self._arguments(stated)
        if not scores:
            self._refuse("plugins.score", "nothing", "no score is left, and at least one is needed")
        return {
            "name": str(stated.get("schedulerName") or DEFAULT_NAME),
            "filters": [
                *self._pre_filter(filters),
                *(_filter(FILTER_OF[name], options.get(name, {})) for name in filters),
            ],
            "scores": [
                {"policy": SCORE_OF[name], "weight": weight or 1, **_of_score(name, options)} for name, weight in scores
            ],
        }

    def _named(self, plugins: Mapping[str, Any], point: str, key: str) -> list[tuple[str, int]]:
        """Names and weights of one list of plug-ins, each a plug-in that we know."""
        place = f"plugins.{point}.{key}"
        lists = plugins.get(point) or {}
        given = lists.get(key) or [] if isinstance(lists, Mapping) else lists
        if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
            self._refuse(place, given, "a list of mappings with a name each is needed")
        found = []
        for at, one in enumerate(given):
            name, weight = one.get("name"), one.get("weight") or 0
            if name not in _KNOWN and not (name == "*" and key == "disabled"):
                hint = did_you_mean(str(name), _KNOWN).lstrip("; ")
                self._refuse(f"{place}[{at}].name", name, f"{hint} known plug-ins are {', '.join(_KNOWN)}".strip())
            if isinstance(weight, bool) or not isinstance(weight, int) or weight < 0:
                self._refuse(f"{place}[{at}].weight", weight, "a weight is a whole number above 0")
            found.append((str(name), weight))
        return found

    def _at(
        self, plugins: Mapping[str, Any], point: str, everywhere: list[tuple[str, int]], here: Mapping[str, str]
    ) -> list[tuple[str, int]]:
        """The plug-ins of an extension point: those configured anew here, then multiPoint's, then further ones."""
        enabled = [one for one in self._named(plugins, point, "enabled") if self._is_at(point, one[0], here)]
        disabled = {name for name, _ in self._named(plugins, point, "disabled")}
        if "*" in disabled:
            return enabled
        named = {name for name, _ in enabled}
        inherited = [one for one in everywhere if one[0] in here and one[0] not in disabled]
        also = {name for name, _ in inherited}
        return [
            *(one for one in enabled if one[0] in also),
            *(one for one in inherited if one[0] not in named),
            *(one for one in enabled if one[0] not in also),
        ]

    def _is_at(self, point: str, name: str, here: Mapping[str, str]) -> bool:
        if name not in here and name not in ELSEWHERE:
            self._refuse(f"plugins.{point}.enabled", name, f"it does not {point}; those that do are {', '.join(here)}")
        return name in here

    def _check_pre_filters(
        self, plugins: Mapping[str, Any], filters: list[str], everywhere: list[tuple[str, int]]
    ) -> None:
        """A filter whose PreFilter is off fails every pod in kube-scheduler; nobody means that."""
        disabled = {name for name, _ in self._named(plugins, "preFilter", "disabled")}
        enabled = {name for name, _ in self._named(plugins, "preFilter", "enabled")}
        if "*" in disabled:
            disabled |= {name for name, _ in everywhere}
        for name in filters:
            if name in disabled - enabled and name not in {
                "NodeUnschedulable",
                "TaintToleration",
                "NodeDeclaredFeatures",
            }:
                self._refuse(
                    "plugins.preFilter.disabled", name, "its filter is on and needs it; disable both, or neither"
                )

    def _pre_filter(self, filters: list[str]) -> list[Any]:
        on = [name in filters for name in _WITH_CLAIMS]
        if any(on) and not all(on):
            off = [name for name in _WITH_CLAIMS if name not in filters]
            self._refuse("plugins", ", ".join(off), f"{', '.join(_WITH_CLAIMS)} can only be disabled together")
        wanted = {"names": "NodeAffinity" in filters, "claims": all(on)}
        if not any(wanted.values()):
            return []
        return [_filter("kube-pre-filter", {} if all(wanted.values()) else {"filter": wanted})]

    def _arguments(self, stated: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
        """Plug-in to the options of its filter and its score."""
        given = stated.get("pluginConfig") or []
        if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
            self._refuse("pluginConfig", given, "a list of mappings with name and args is needed")
        found = {}
        for at, one in enumerate(given):
            name, args = one.get("name"), one.get("args") or {}
            if name not in _KNOWN:
                self._refuse(f"pluginConfig[{at}].name", name, f"known plug-ins are {', '.join(_KNOWN)}")
            if not isinstance(args, Mapping):
                self._refuse(f"pluginConfig[{at}].args", args, "a mapping is needed")
            try:
                found[str(name)] = arguments_of(str(name), args)
            except Refused as error:
                self._refuse(f"pluginConfig[{at}].args{error.field}", error.value, error.remedy)
        return found

    def _refuse(self, field: str, value: Any, remedy: str) -> NoReturn:
        place = field if field == "profiles" else f"{self._place}.{field}"
        shown = f'"{value}"' if isinstance(value, str) else repr(value)
        raise InputError(f"{place} is {shown}; {remedy}", path=self._path)


def _merged(
    default: list[tuple[str, int]], enabled: list[tuple[str, int]], disabled: list[str]
) -> list[tuple[str, int]]:
    """The default plug-ins with those enabled in their places or behind them."""
    weights = dict(enabled)
    kept = [] if "*" in disabled else [one for one in default if one[0] not in disabled]
    replaced = {name for name, _ in kept} & weights.keys()
    return [
        *((name, weights.get(name, weight)) for name, weight in kept),
        *(one for one in enabled if one[0] not in replaced),
    ]


def _default_weight(name: str) -> int:
    return SCORES.get(SCORE_OF.get(name, ""), 0)


def _filter(name: str, options: Mapping[str, Mapping[str, Any]]) -> str | dict[str, Any]:
    own = options.get("filter")
    return {"filter": name, **own} if own else name


def _of_score(name: str, options: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    formula = next(table for table in kubernetes_profile()["scores"] if table["policy"] == SCORE_OF[name])
    default = {key: value for key, value in formula.items() if key not in {"policy", "weight"}}
    return {**default, **options.get(name, {}).get("score", {})}
