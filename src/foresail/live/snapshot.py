"""A cluster as a file, and a file as a cluster that a cache can hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from foresail.core.policy import DeviceRule
from foresail.kube.api.client import Client, Object
from foresail.kube.api.kinds import KINDS, PRIORITY_CLASS, Kind
from foresail.kube.objects.documents import Found
from foresail.kube.objects.gangs.forms import GROUP_KINDS, form_of, gang_named
from foresail.kube.objects.granted import with_granted
from foresail.kube.objects.quantity import RequestError
from foresail.live.cache.cache import Cache
from foresail.live.cache.listing import Lists, Progress, Refused, filled, list_all
from foresail.live.cache.pods import uid_of
from foresail.traces.snapshot import kept

SNAPSHOT_KINDS: dict[str, Kind] = {
    **KINDS,
    # The API server fills in priorities, but pods of a file that are tried later may name a class. The scheduler itself
    # needs none, so its account need not have the right to read them.
    PRIORITY_CLASS.kind: PRIORITY_CLASS,
}


@dataclass(frozen=True, slots=True)
class PodChoice:
    """Which pods a snapshot has."""

    placed: bool = True
    """Whether those on nodes are in it; without them the nodes look empty."""
    namespaces: Collection[str] = ()
    """Waiting pods of these namespaces alone; none for all. Placed pods hold room, so they are in it from anywhere."""

    def takes(self, value: Object) -> bool:
        spec, phase = value.get("spec") or {}, (value.get("status") or {}).get("phase")
        if spec.get("nodeName"):
            # One that has ended holds nothing any more, but its gang counts it.
            return self.placed and (phase not in {"Succeeded", "Failed"} or (phase == "Succeeded" and _in_gang(value)))
        if phase in {"Succeeded", "Failed"}:
            return False
        return not self.namespaces or (value["metadata"].get("namespace") or "default") in self.namespaces


async def take_snapshot(
    api: Client,
    choice: PodChoice | None = None,
    *,
    on_progress: Progress | None = None,
    on_refused: Refused | None = None,
) -> list[Object]:
    """The cluster as it is now, ready for `write_snapshot`; see `list_all` for who is told what."""
    lists = await list_all(api, SNAPSHOT_KINDS, on_progress=on_progress, on_refused=on_refused)
    return list(snapshot_of(lists, choice or PodChoice()))


def snapshot_of(lists: Lists, choice: PodChoice) -> Iterator[Object]:
    """What a snapshot keeps of the lists, each object with its kind."""
    seen: set[tuple[str, str]] = set()
    for name, values in lists.items():
        kind = SNAPSHOT_KINDS[name]
        for value in values:
            if kind.kind == "Pod" and not choice.takes(value):
                continue
            if kind.kind in GROUP_KINDS:
                # Several versions of one API group serve the same objects.
                identity = (kind.group, uid_of(value))
                if identity in seen:
                    continue
                seen.add(identity)
            yield kept(kind.kind, kind.api_version, _with_granted(value) if kind.kind == "Pod" else value)


def cluster_of(objects: Iterable[Found], devices: DeviceRule) -> Cache:
    """A cache of the cluster in a file; see `read_snapshot`."""
    lists: Lists = {name: [] for name in KINDS}
    for found in objects:
        name = _watch_of(found.kind, found.value)
        if name in lists:
            lists[name].append(dict(found.value))
    return filled(lists, devices)


def _watch_of(kind: str, value: Mapping[str, Any]) -> str:
    if kind not in GROUP_KINDS:
        return kind
    form = form_of(kind, value)
    # Several versions of Kubernetes' own groups say the same.
    return form if form in KINDS else kind if form else ""


def _with_granted(value: Object) -> Object:
    """The pod with what its node grants it now: the file has no states of containers."""
    return {**value, "spec": with_granted(value.get("spec") or {}, value.get("status") or {})}


def _in_gang(value: Object) -> bool:
    spec, metadata = value.get("spec") or {}, value["metadata"]
    try:
        return gang_named(spec, metadata.get("labels") or {}, metadata.get("annotations") or {}, "") is not None
    except RequestError:
        return False
