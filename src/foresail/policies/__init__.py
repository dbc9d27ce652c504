"""The registry: every filter, score and device rule by name, our own and those of other packages.

The tables name classes as text, so that asking for help does not load compiled kernels. Other packages add theirs with
an entry point in the group `foresail.policies`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from foresail.errors import ForesailError, OptionError, did_you_mean
from foresail.policies.profiles.options import converted

POLICIES = {
    "balanced": "foresail.policies.plain.balanced:Balanced",
    "best-fit": "foresail.policies.gpu_sharing.best_fit:BestFit",
    "dot-product": "foresail.policies.gpu_sharing.dot_product:DotProduct",
    "fgd": "foresail.policies.gpu_sharing.fgd:Fgd",
    "gpu-clustering": "foresail.policies.gpu_sharing.gpu_clustering:GpuClustering",
    "gpu-packing": "foresail.policies.gpu_sharing.gpu_packing:GpuPacking",
    "kube-image-locality": "foresail.policies.kubernetes.image_locality:KubeImageLocality",
    "kube-inter-pod-affinity": "foresail.policies.kubernetes.inter_pod_affinity:KubeInterPodAffinityScore",
    "kube-node-affinity": "foresail.policies.kubernetes.node_affinity:KubeNodeAffinityScore",
    "kube-resources-fit": "foresail.policies.kubernetes.resources_fit:KubeResourcesFitScore",
    "kube-taint-toleration": "foresail.policies.kubernetes.taint_toleration:KubeTaintTolerationScore",
    "kube-topology-spread": "foresail.policies.kubernetes.topology_spread:KubeTopologySpreadScore",
    "least-allocated": "foresail.policies.plain.least_allocated:LeastAllocated",
    "most-allocated": "foresail.policies.plain.most_allocated:MostAllocated",
    "power": "foresail.policies.gpu_sharing.power:Power",
    "rack-pack": "foresail.policies.racks.rack_pack:RackPack",
    "rack-spread": "foresail.policies.racks.rack_spread:RackSpread",
    "random": "foresail.policies.plain.random:Random",
    "simon": "foresail.policies.gpu_sharing.simon:Simon",
}
FILTERS = {
    "schedulable": "foresail.policies.plain.fit:Schedulable",
    "taints": "foresail.policies.plain.fit:Taints",
    "node-selector": "foresail.policies.plain.fit:NodeSelector",
    "fit": "foresail.policies.plain.fit:Fit",
    "kube-pre-filter": "foresail.policies.kubernetes.pre_filter:KubePreFilter",
    "kube-node-unschedulable": "foresail.policies.kubernetes.node_unschedulable:KubeNodeUnschedulable",
    "kube-taint-toleration": "foresail.policies.kubernetes.taint_toleration:KubeTaintTolerationFilter",
    "kube-node-affinity": "foresail.policies.kubernetes.node_affinity:KubeNodeAffinityFilter",
    "kube-node-ports": "foresail.policies.kubernetes.node_ports:KubeNodePorts",
    "kube-resources-fit": "foresail.policies.kubernetes.resources_fit:KubeResourcesFitFilter",
    "kube-volume-restrictions": "foresail.policies.kubernetes.volume_restrictions:KubeVolumeRestrictions",
    "kube-volume-limits": "foresail.policies.kubernetes.volume_limits:KubeVolumeLimits",
    "kube-volume-binding": "foresail.policies.kubernetes.volume_binding:KubeVolumeBinding",
    "kube-volume-zone": "foresail.policies.kubernetes.volume_zone:KubeVolumeZone",
    "kube-topology-spread": "foresail.policies.kubernetes.topology_spread:KubeTopologySpreadFilter",
    "kube-inter-pod-affinity": "foresail.policies.kubernetes.inter_pod_affinity:KubeInterPodAffinityFilter",
    "kube-declared-features": "foresail.policies.kubernetes.declared_features:KubeDeclaredFeatures",
}
DEVICE_RULES = {
    "least-sufficient": "foresail.policies.plain.devices:LeastSufficient",
    "most-free": "foresail.policies.plain.devices:MostFree",
    "random": "foresail.policies.plain.devices:RandomDevice",
}

GROUP = "foresail.policies"
"""Entry point group in which other packages name their policies."""
BUILT_IN = "built-in"

_KINDS = {"policy": POLICIES, "filter": FILTERS, "device rule": DEVICE_RULES}
_METHODS = {"policy": ("score",), "filter": ("passes", "refuses"), "device rule": ("devices",)}


class NameClashWarning(UserWarning):
    """A package names a policy as another one is named already."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered plug-in: what it is called and where it comes from."""

    name: str
    kind: str
    """`policy` (a score), `filter` or `device rule`; empty for a plug-in that cannot be loaded."""
    origin: str
    """`built-in`, or the distribution with its version."""
    factory: Callable[..., Any] | None
    """The class; None for a plug-in that cannot be loaded."""
    error: str = ""
    """Why it cannot be loaded."""

    @property
    def summary(self) -> str:
        """The first sentence of the docstring, without its full stop."""
        first = self.explanation.split("\n\n")[0]
        return " ".join(first.split()).rstrip(".") or self.error

    @property
    def explanation(self) -> str:
        """The whole docstring: what the plug-in does, its maths and its options."""
        constructor = getattr(self.factory, "__init__", None) if isinstance(self.factory, type) else None
        told = [self.factory, constructor if constructor is not object.__init__ else None]
        return "\n\n".join(inspect.getdoc(part) or "" for part in told if part is not None and part.__doc__)


def policy(name: str, **options: Any) -> Any:
    """Make a fresh scoring policy."""
    return build("policy", name, options)


def build(kind: str, name: str, options: Mapping[str, Any]) -> Any:
    """Make a fresh plug-in. Options may be text, as on a command line; the constructor's annotations convert them."""
    return make(find(kind, name), options)[0]


def make(entry: Entry, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A fresh plug-in, and its options as they were understood."""
    if entry.factory is None:
        raise OptionError(f'"{entry.name}" of {entry.origin} cannot be loaded: {entry.error}')
    values = converted(entry.name, entry.factory, options)
    try:
        return entry.factory(**values), values
    except ForesailError:
        raise
    except (TypeError, ValueError) as error:
        raise OptionError(f"{entry.name}: {error}") from error
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise OptionError(f'"{entry.name}" of {entry.origin} cannot be made: {said}') from error


def find(kind: str, name: str) -> Entry:
    """The registered plug-in of a kind by its name."""
    foreign = _foreign().get(name)
    if name in _KINDS[kind]:
        return _built_in(kind, name)
    if foreign is not None:
        entry = _loaded(name, foreign)
        if entry.kind in {kind, ""} or _can_be(kind, entry.factory):
            return entry
    known = [*_KINDS[kind], *(other for other in _foreign() if _loaded(other, _foreign()[other]).kind == kind)]
    for other_kind, table in _KINDS.items():
        if other_kind != kind and name in table:
            raise OptionError(
                f'"{name}" is a {other_kind}, not a {kind}; a {kind} is one of {", ".join(sorted(known))}'
            )
    raise OptionError(f'no {kind} "{name}"{did_you_mean(name, known)} (foresail policies lists all {len(known)})')


def registered() -> list[Entry]:
    """Every plug-in: the built-in ones by kind and name, then those of other packages."""
    own = [_built_in(kind, name) for kind, table in _KINDS.items() for name in table]
    return own + [_loaded(name, foreign) for name, foreign in sorted(_foreign().items())]


def _built_in(kind: str, name: str) -> Entry:
    module, _, attribute = _KINDS[kind][name].partition(":")
    return Entry(name, kind, BUILT_IN, getattr(importlib.import_module(module), attribute))


@functools.cache
def _foreign() -> dict[str, importlib.metadata.EntryPoint]:
    """Entry points of other packages by name. Built-in names are taken; of two packages the first by name wins."""
    found: dict[str, importlib.metadata.EntryPoint] = {}
    taken = {name: BUILT_IN for table in _KINDS.values() for name in table}
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=_origin):
        known = found.get(point.name)
        if known is not None and known == point:
            continue  # the same package seen twice on the path
        if point.name in taken:
            warnings.warn(
                f'"{point.name}" of {_origin(point)} is ignored: {taken[point.name]} has a policy of that name; '
                f"give the entry point another name",
                NameClashWarning,
                stacklevel=3,
            )
            continue
        found[point.name] = point
        taken[point.name] = _origin(point)
    return found


def forget_packages() -> None:
    """Look for entry points again the next time, after packages came or went."""
    _foreign.cache_clear()


def _origin(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def _loaded(name: str, point: importlib.metadata.EntryPoint) -> Entry:
    try:
        factory = point.load()
    except Exception as error:  # noqa: BLE001 - whatever a foreign package raises is its own, and reported by name
        return Entry(name, "", _origin(point), None, f"{type(error).__name__}: {error}")
    kind = next((kind for kind in _METHODS if _can_be(kind, factory)), "")
    if not kind or not callable(factory):
        return Entry(name, "", _origin(point), None, f"{point.value} has no score(), passes(), refuses() or devices()")
    return Entry(name, kind, _origin(point), factory)


def _can_be(kind: str, factory: Any) -> bool:
    return any(hasattr(factory, method) for method in _METHODS[kind])
