"""How long a kubelet takes for a resize, seen from outside: from a pod's spec that asks to its status that has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from foresail.kube.api.client import Object
from foresail.kube.objects.quantity import milli
from foresail.results.tables import Columns


class DoneResize(NamedTuple):
    """One resize that the kubelet has carried out."""

    time_s: float
    """When the pod's spec asked for it, on the clock of who watches."""
    pod: str
    node: str
    before_milli: int
    cpu_milli: int
    took_s: float


@dataclass(slots=True)
class _WantedResize:
    wanted_milli: int
    since_s: float = 0.0
    before_milli: int = 0
    is_under_way: bool = False


@dataclass(slots=True)
class ResizeWatch:
    """Follows the pods of a namespace: when a container's request changed, and when its status says that it has it."""

    now_s: Callable[[], float]
    done: list[DoneResize] = field(default_factory=list)
    _asked: dict[str, _WantedResize] = field(default_factory=dict)

    def replace(self, items: list[Object]) -> None:
        for one in items:
            self.apply("MODIFIED", one)

    def apply(self, kind: str, value: Object) -> None:
        metadata = value["metadata"]
        if kind == "DELETED":
            self._asked.pop(metadata["uid"], None)
            return
        wanted_milli, has_milli = requested_milli(value), given_milli(value)
        if wanted_milli is None:
            return
        asked = self._asked.setdefault(metadata["uid"], _WantedResize(wanted_milli))
        now_s = self.now_s()
        if asked.wanted_milli != wanted_milli:
            # One that changes again before it was done counts from when it was first waited for.
            if not asked.is_under_way:
                asked.since_s, asked.before_milli = now_s, asked.wanted_milli
            asked.wanted_milli, asked.is_under_way = wanted_milli, True
        if asked.is_under_way and has_milli == wanted_milli and not _is_resizing(value):
            asked.is_under_way = False
            name, node = f"{metadata['namespace']}/{metadata['name']}", value["spec"].get("nodeName", "")
            took_s = now_s - asked.since_s
            self.done.append(DoneResize(asked.since_s, name, node, asked.before_milli, wanted_milli, took_s))


def requested_milli(pod: Object) -> int | None:
    """What a pod's first container requests; None if it requests no CPU."""
    requests = (pod["spec"]["containers"][0].get("resources") or {}).get("requests") or {}
    return milli(requests["cpu"]) if "cpu" in requests else None


def given_milli(pod: Object) -> int | None:
    """What the kubelet says that it has given to that container; None if it has not said."""
    name = pod["spec"]["containers"][0]["name"]
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        if one.get("name") == name:
            given = ((one.get("resources") or {}).get("requests") or {}).get("cpu")
            return None if given is None else milli(given)
    return None


def _is_resizing(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        one.get("type") in {"PodResizePending", "PodResizeInProgress"} and one.get("status") == "True"
        for one in conditions
    )


def resize_columns(done: Sequence[DoneResize], begun_s: float, name_of: Callable[[str], str]) -> Columns:
    """As the table `resizes`; times from the start of the run."""

    def column(name: str, kind: Any) -> np.ndarray[Any, Any]:
        return np.array([getattr(one, name) for one in done], dtype=kind)

    return {
        "time_s": column("time_s", np.float64) - begun_s,
        "job": [name_of(one.pod) for one in done],
        "node": [one.node for one in done],
        "before_milli": column("before_milli", np.int64),
        "cpu_milli": column("cpu_milli", np.int64),
        "took_s": column("took_s", np.float64),
    }
