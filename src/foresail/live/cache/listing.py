"""One look at a cluster: every kind is listed once, and nothing is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from foresail.core.policy import DeviceRule
from foresail.kube.api.client import Client, Object
from foresail.kube.api.discovery import is_served
from foresail.kube.api.errors import Forbidden, NotFound
from foresail.kube.api.kinds import KINDS, Kind
from foresail.live.cache.cache import Cache

Lists = dict[str, list[Object]]
"""Name of the watch, as in `KINDS`, to all objects there are."""
Progress = Callable[[int, int], None]
"""Is told how many lists are there, of how many."""
Refused = Callable[[Kind, Forbidden], None]
"""Is told of a dispensable kind that our account may not list."""


async def list_all(
    api: Client,
    kinds: Mapping[str, Kind] = KINDS,
    *,
    on_progress: Progress | None = None,
    on_refused: Refused | None = None,
) -> Lists:
    """All objects of these kinds; one that the cluster does not serve has none.

    Nor has a dispensable one that is forbidden; without `on_refused` to be told, that is an error as for all others.
    """
    lists: Lists = {}
    for name, kind in kinds.items():
        if on_progress is not None:
            on_progress(len(lists), len(kinds))
        try:
            lists[name], _ = await api.list(kind.path)
        except NotFound:
            if not kind.optional:
                raise
            lists[name] = []
        except Forbidden as error:
            if not kind.optional or await is_served(api, kind.path):
                if on_refused is None or not kind.dispensable:
                    raise
                on_refused(kind, error)
            lists[name] = []
    if on_progress is not None:
        on_progress(len(kinds), len(kinds))
    return lists


def filled(lists: Mapping[str, Iterable[Object]], devices: DeviceRule) -> Cache:
    """A cache that knows these objects; `devices` guesses which GPUs a pod has that does not say."""
    cache = Cache(scheduler_name=None, devices=devices)
    for name, values in lists.items():
        found = list(values)
        # Several watches tell of one kind; one that is not served must not take away what another has told.
        if found:
            cache.handler(name).replace(found)
    return cache


async def listed(api: Client, devices: DeviceRule, *, on_progress: Progress | None = None) -> Cache:
    """A cache of the cluster as it is now."""
    return filled(await list_all(api, on_progress=on_progress), devices)
