"""Which pods belong together: groups as their objects tell of them, and the pods that name them."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

from foresail.core.spec import Gang
from foresail.kube.api.kinds import KINDS
from foresail.kube.objects.gangs.form import NO_LIMITS, GangName, Limits
from foresail.kube.objects.gangs.forms import groups_of
from foresail.kube.objects.gangs.plain import PLAIN
from foresail.kube.objects.gangs.status import GangStatus, stated_status
from foresail.kube.objects.values import Object
from foresail.live.cache.pods import CachedPod, discard


class GroupObject(NamedTuple):
    """An object that has the limits of one group, or of several."""

    form: str
    namespace: str
    name: str


class SeenGroup(NamedTuple):
    """An object of a form that has one group an object, as it was last told."""

    watch: str
    version: str
    """Of its API, such as v1alpha2."""
    uid: str
    min_members: int
    stated: GangStatus


class Gangs:
    """Groups and members come in any order; a member whose group is not there cannot be placed."""

    def __init__(self) -> None:
        self._groups: dict[GangName, Limits] = {}
        self._told: dict[str, dict[GroupObject, set[GangName]]] = {}
        """Watch to the objects that it has told of, each to the groups that it had."""
        self._unreadable: dict[GroupObject, str] = {}
        self._seen: dict[GroupObject, SeenGroup] = {}
        self._members: dict[str, dict[str, None]] = {}
        self._of_object: dict[GroupObject, dict[str, None]] = {}
        self._since_s: dict[str, float] = {}
        """Gang to when the first of its members was created, as long as it has any."""

    # --- members ---------------------------------------------------------------------------------------------------

    def join(self, pod: CachedPod) -> None:
        if pod.gang is not None:
            name = gang_name(pod.gang)
            self._members.setdefault(name, {})[pod.uid] = None
            self._since_s[name] = min(self._since_s.get(name, pod.created_s), pod.created_s)
            self._of_object.setdefault(object_of(pod.gang), {})[pod.uid] = None

    def leave(self, pod: CachedPod) -> None:
        if pod.gang is not None:
            name = gang_name(pod.gang)
            discard(self._members, name, pod.uid)
            discard(self._of_object, object_of(pod.gang), pod.uid)
            if name not in self._members:
                del self._since_s[name]

    def members(self, gang: str) -> Collection[str]:
        """Uids of all pods of a gang, wherever they stand, in the order in which they came."""
        return self._members.get(gang, {}).keys()

    def since_s(self, gang: str) -> float:
        """When the first member of a gang was created; never for one without members."""
        return self._since_s.get(gang, math.inf)

    def gang_of(self, pod: CachedPod) -> Gang | None:
        """The gang that a pod waits with, None if it stands alone."""
        if pod.gang is None:
            return None
        return self._limits(pod)._replace(later_members=pod.gang_later).gang(gang_name(pod.gang), 1)

    def priority_of(self, pod: CachedPod) -> int:
        """The pod's own priority, unless its group has one."""
        stated = None if pod.gang is None else self._limits(pod).priority
        return pod.priority if stated is None else stated

    def _limits(self, pod: CachedPod) -> Limits:
        if pod.gang is None or pod.gang.form == PLAIN:
            return pod.gang_limits
        return self._groups.get(pod.gang.group, NO_LIMITS)

    def obstacle(self, pod: CachedPod) -> str:
        """Why a pod cannot wait with its gang yet; empty if it can, or stands alone."""
        gang = pod.gang
        if gang is None or gang.form == PLAIN or gang.group in self._groups:
            return ""
        about = object_of(gang)
        kind, _, api = gang.form.partition(".")
        its = f"its {kind} {about.namespace}/{about.name} ({api})"
        why = self._unreadable.get(about)
        if why is not None:
            return f"{its} cannot be read: {why}"
        if any(about in told for told in self._told.values()):
            return f'{its} has no group "{gang.name.partition("/")[2]}"'
        return f"{its} does not exist"

    # --- groups ---------------------------------------------------------------------------------------------------

    def put_object(self, watch: str, form: str, value: Object) -> Collection[str]:
        """An object with groups has come or changed; returns the pods for which it may say something new."""
        about = group_object(form, value)
        stated = dict(groups_of(form, value))
        was_unreadable = self._unreadable.pop(about, None) is not None
        told = self._told.setdefault(watch, {})
        gone = told.get(about, set()) - stated.keys()
        told[about] = set(stated)
        same = all(self._groups.get(group) == limits for group, limits in stated.items())
        for group in gone:
            self._groups.pop(group, None)
        self._groups |= stated
        if len(stated) == 1:
            [limits] = stated.values()
            version = KINDS[watch].api_version.rpartition("/")[2]
            uid, status = value["metadata"].get("uid") or "", stated_status(form, version, value)
            self._seen[about] = SeenGroup(watch, version, uid, limits.min_members or 1, status)
        return () if same and not gone and not was_unreadable else self._pods_of(about)

    def note_unreadable(self, watch: str, form: str, value: Object, why: str) -> Collection[str]:
        """An object is there, but does not say what it should; if it did so before, that still counts."""
        about = group_object(form, value)
        self._told.setdefault(watch, {}).setdefault(about, set())
        self._unreadable[about] = why
        return self._pods_of(about)

    def drop_object(self, watch: str, about: GroupObject) -> Collection[str]:
        """A watch tells of an object no more; returns the pods that may have lost their group by it."""
        groups = self._told.get(watch, {}).pop(about, set())
        # An API group has several versions: one that is not served must not take away what another tells.
        if any(about in told for told in self._told.values()):
            return ()
        self._unreadable.pop(about, None)
        self._seen.pop(about, None)
        for group in groups:
            self._groups.pop(group, None)
        return self._pods_of(about)

    def seen(self, about: GroupObject) -> SeenGroup | None:
        """An object with one group as it was last told."""
        return self._seen.get(about)

    def objects(self, watch: str) -> list[GroupObject]:
        """The objects that one watch has told of."""
        return sorted(self._told.get(watch, ()))

    def _pods_of(self, about: GroupObject) -> list[str]:
        return list(self._of_object.get(about, ()))


def gang_name(gang: GangName) -> str:
    """The name of the `Gang` that a pod of this group belongs to."""
    return str(gang)


def object_of(gang: GangName) -> GroupObject:
    """The object that has the limits of a gang; of a Workload each group is named after it."""
    return GroupObject(gang.form, gang.namespace, gang.name.partition("/")[0])


def group_object(form: str, value: Object) -> GroupObject:
    """Which object of a form this is."""
    metadata = value["metadata"]
    return GroupObject(form, metadata.get("namespace") or "default", metadata["name"])
