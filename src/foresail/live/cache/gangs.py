"""Which pods belong together: PodGroups as they are told, and the pods that name them."""

from __future__ import annotations

from collections.abc import Collection

from foresail.core.spec import Gang
from foresail.kube.objects.gangs import NO_LIMITS, PLAIN, GangName, Limits, pod_group
from foresail.kube.objects.values import Object
from foresail.live.cache.pods import CachedPod, discard


class Gangs:
    """PodGroups and members come in any order; a member whose PodGroup is not there cannot be placed."""

    def __init__(self) -> None:
        self._groups: dict[GangName, Limits] = {}
        self._unreadable: dict[GangName, str] = {}
        self._groups_of: dict[str, set[GangName]] = {}
        self._members: dict[str, dict[str, None]] = {}

    # --- members ---------------------------------------------------------------------------------------------------

    def join(self, pod: CachedPod) -> None:
        if pod.gang is not None:
            self._members.setdefault(gang_name(pod.gang), {})[pod.uid] = None

    def leave(self, pod: CachedPod) -> None:
        if pod.gang is not None:
            discard(self._members, gang_name(pod.gang), pod.uid)

    def members(self, gang: str) -> Collection[str]:
        """Uids of all pods of a gang, wherever they stand, in the order in which they came."""
        return self._members.get(gang, {}).keys()

    def gang_of(self, pod: CachedPod) -> Gang | None:
        """The gang that a pod waits with, None if it stands alone."""
        if pod.gang is None:
            return None
        limits = pod.gang_limits if pod.gang.form == PLAIN else self._groups.get(pod.gang, NO_LIMITS)
        least = limits.min_members or 1
        name = gang_name(pod.gang)
        return Gang(name, least) if limits.timeout_s is None else Gang(name, least, limits.timeout_s)

    def obstacle(self, pod: CachedPod) -> str:
        """Why a pod cannot wait with its gang yet; empty if it can, or stands alone."""
        gang = pod.gang
        if gang is None or gang.form == PLAIN or gang in self._groups:
            return ""
        why = self._unreadable.get(gang)
        found = "does not exist" if why is None else f"cannot be read: {why}"
        return f"its PodGroup {gang_name(gang)} ({gang.form}) {found}"

    # --- PodGroups -------------------------------------------------------------------------------------------------

    def put_group(self, watch: str, form: str, value: Object) -> GangName | None:
        """A PodGroup of one of the API groups has come or changed; returns its name if it says something new."""
        namespace, name, limits = pod_group(value)
        gang = GangName(form, namespace, name)
        self._groups_of.setdefault(watch, set()).add(gang)
        self._unreadable.pop(gang, None)
        if self._groups.get(gang) == limits:
            return None
        self._groups[gang] = limits
        return gang

    def note_unreadable(self, watch: str, gang: GangName, why: str) -> None:
        """A PodGroup is there, but does not say what it should; if it did so before, that still counts."""
        self._groups_of.setdefault(watch, set()).add(gang)
        self._unreadable[gang] = why

    def drop_group(self, watch: str, gang: GangName) -> bool:
        """A watch tells of a PodGroup no more; whether nobody does now."""
        self._groups_of.get(watch, set()).discard(gang)
        # An API group has several versions: one that is not served must not take away what another tells.
        if any(gang in told for told in self._groups_of.values()):
            return False
        was_unreadable = self._unreadable.pop(gang, None) is not None
        return self._groups.pop(gang, None) is not None or was_unreadable

    def groups(self, watch: str) -> list[GangName]:
        """The PodGroups that one watch has told."""
        return sorted(self._groups_of.get(watch, ()))


def gang_name(gang: GangName) -> str:
    """The name of the `Gang` that a pod of this group belongs to."""
    return f"{gang.namespace}/{gang.name}"


def group_name(form: str, value: Object) -> GangName:
    """Which gang a PodGroup of an API group is about."""
    metadata = value["metadata"]
    return GangName(form, metadata.get("namespace") or "default", metadata["name"])
