"""What each watch hands over, brought to the cache: lists that replace all, and single events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foresail.kube.objects.values import Object
from foresail.live.cache.gangs import group_object
from foresail.live.cache.pods import uid_of

if TYPE_CHECKING:
    from foresail.live.cache.cache import Cache


class NodeHandler:
    """Nodes, a relist as one batch."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def replace(self, items: list[Object]) -> None:
        self._cache.keep_nodes(items)
        self._cache.put_nodes(items)

    def apply(self, kind: str, value: Object) -> None:
        if kind == "DELETED":
            self._cache.drop_node(value)
        else:
            self._cache.put_nodes([value])


class PodHandler:
    """Pods, by uid."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def replace(self, items: list[Object]) -> None:
        uids = {uid_of(value) for value in items}
        for uid in [uid for uid in self._cache.pods if uid not in uids]:
            self._cache.drop_pod(uid)
        for value in items:
            self._cache.put_pod(value)

    def apply(self, kind: str, value: Object) -> None:
        if kind == "DELETED":
            self._cache.drop_pod(uid_of(value))
        else:
            self._cache.put_pod(value)


class GroupHandler:
    """Objects with the limits of gangs: those of one form, in one version of its API."""

    def __init__(self, cache: Cache, watch: str, form: str) -> None:
        self._cache = cache
        self._watch = watch
        self._form = form

    def replace(self, items: list[Object]) -> None:
        here = {group_object(self._form, value) for value in items}
        for about in self._cache.groups(self._watch):
            if about not in here:
                self._cache.drop_group(self._watch, about)
        for value in items:
            self._cache.put_group(self._watch, self._form, value)

    def apply(self, kind: str, value: Object) -> None:
        if kind == "DELETED":
            self._cache.drop_group(self._watch, group_object(self._form, value))
        else:
            self._cache.put_group(self._watch, self._form, value)


class ObjectHandler:
    """All other kinds."""

    def __init__(self, cache: Cache, kind: str) -> None:
        self._cache = cache
        self._kind = kind

    def replace(self, items: list[Object]) -> None:
        self._cache.keep_objects(self._kind, items)
        for value in items:
            self._cache.put_object(self._kind, value)

    def apply(self, kind: str, value: Object) -> None:
        if kind == "DELETED":
            self._cache.drop_object(self._kind, value)
        else:
            self._cache.put_object(self._kind, value)
