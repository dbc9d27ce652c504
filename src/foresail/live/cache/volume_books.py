"""Taken volumes beside what watches tell of them: which version each has, and which news are older than our own."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from foresail.core.model import Pod
from foresail.core.objects import Claim, Volume
from foresail.core.table import NodeTable
from foresail.core.volumes import ClaimKey, TakenVolumes
from foresail.kube.objects.values import Object
from foresail.policies.kubernetes.volume_binding import plan_volumes

VOLUME, CLAIM = "PersistentVolume", "PersistentVolumeClaim"
_KINDS = frozenset({VOLUME, CLAIM})


class VolumeBooks(TakenVolumes):
    """`TakenVolumes` of a cluster that is watched.

    What the API server answered to a write of ours is known before the watch tells it. Until the watch has caught up,
    events of older versions are left out: they would show a volume as free that is not.
    """

    def __init__(self, table: NodeTable, *, takes: Callable[[Pod], bool]) -> None:
        super().__init__(table, plan_volumes, takes=takes)
        self._versions: dict[tuple[str, Hashable], str] = {}
        self._written: dict[tuple[str, Hashable], int] = {}

    def is_old(self, kind: str, value: Object) -> bool:
        """Whether an event is older than what a write of ours was answered with."""
        if kind not in _KINDS or not self._written:
            return False
        key = _key(kind, value)
        written = self._written.get(key)
        if written is None:
            return False
        version = _number(_version(value))
        if version > written:
            del self._written[key]
        return version < written

    def told(self, kind: str, value: Object) -> None:
        """The table's objects have this one as the API server has it now."""
        if kind in _KINDS:
            self._versions[_key(kind, value)] = _version(value)
            self._tell(kind, _key(kind, value)[1])

    def dropped(self, kind: str, value: Object) -> None:
        """The object is gone."""
        if kind in _KINDS:
            self._drop(_key(kind, value))

    def kept(self, kind: str) -> None:
        """Some objects of a kind may be gone."""
        if kind in _KINDS:
            objects = self._table.objects
            there = objects.volumes if kind == VOLUME else objects.claims
            for key in [key for key in self._versions if key[0] == kind and key[1] not in there]:
                self._drop(key)

    def wrote(self, kind: str, answer: Object) -> bool:
        """Note what a write was answered with; False if a watch has told something newer already."""
        key, version = _key(kind, answer), _number(_version(answer))
        if _number(self._versions.get(key, "")) > version:
            return False
        if version:
            self._written[key] = version
        return True

    def version(self, kind: str, key: Hashable) -> str:
        """The version that is known of an object, empty for none."""
        return self._versions.get((kind, key), "")

    def volume_as_told(self, name: str) -> Volume | None:
        """The volume without what was taken here."""
        return self._told_volumes.get(name) or self._table.objects.volumes.get(name)

    def claim_as_told(self, key: ClaimKey) -> Claim | None:
        return self._told_claims.get(key) or self._table.objects.claims.get(key)

    def _drop(self, key: tuple[str, Hashable]) -> None:
        self._versions.pop(key, None)
        self._written.pop(key, None)
        self._tell(*key)

    def _tell(self, kind: str, key: Hashable) -> None:
        if kind == VOLUME:
            self.volume_told(str(key))
        elif isinstance(key, tuple):
            self.claim_told(key)


def _key(kind: str, value: Object) -> tuple[str, Hashable]:
    metadata = value["metadata"]
    name = metadata["name"]
    return kind, name if kind == VOLUME else (metadata.get("namespace") or "default", name)


def _version(value: Object) -> str:
    return str(value["metadata"].get("resourceVersion", ""))


def _number(version: str) -> int:
    """Versions of one object are numbers that grow; 0 for one that is none."""
    return int(version) if version.isdecimal() else 0
