"""What moves need of that which is around a pod: volumes, checkpoints on them, and budgets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from foresail.kube.api.client import Object
from foresail.kube.objects.terms import selector
from foresail.kube.objects.values import SHARED_VOLUMES
from foresail.live.moves.subjects import Lack, Subject

CHECKPOINT_DIR = "FORESAIL_CHECKPOINT_DIR"
_ELSEWHERE = "keep the data on a ReadWriteMany volume"
_OR_SAY = f"or name it in the annotation {SHARED_VOLUMES}, if the path is the same folder on every node"
_NOT_KEPT = frozenset({"emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected", "image"})
"""Volumes on which nothing that a pod writes is there for its successor."""


# --- volumes ---------------------------------------------------------------------------------------------------------


def of_volumes(subject: Subject) -> Iterator[Lack]:
    """Data that stays on the node, or that one node has at a time."""
    for name, kind in _volume_kinds(subject.pod).items():
        if kind == "hostPath":
            yield Lack(f"its volume {name} is a path on its node (hostPath)", remedy=f"{_ELSEWHERE}, {_OR_SAY}")
    for claim, found in subject.volumes.items():
        spec = found.get("spec") or {}
        kind = next((one for one in ("local", "hostPath") if one in spec), "")
        if kind:
            yield Lack(f"its claim {claim} is bound to a volume on its node ({kind})", remedy=_ELSEWHERE)
    for claim, found in subject.claims.items():
        modes = (found.get("spec") or {}).get("accessModes") or ()
        if not set(modes) & {"ReadWriteMany", "ReadOnlyMany"}:
            yield Lack(
                f"its claim {claim} ({', '.join(modes)}) is of use on one node at a time: its successor starts only "
                "when the volume has been detached from the old node",
                stops=False,
                remedy=_ELSEWHERE,
            )


# --- checkpoints -----------------------------------------------------------------------------------------------------


def of_checkpoints(subject: Subject) -> Iterator[Lack]:
    """A trainer whose checkpoints are not there for its successor begins anew."""
    folder = checkpoint_dir(subject.pod)
    kinds = _volume_kinds(subject.pod)
    if folder is None:
        if not set(kinds.values()) - _NOT_KEPT:
            yield Lack(
                f"nothing says where it keeps checkpoints ({CHECKPOINT_DIR}), and it has no volume that other nodes "
                "reach: its successor begins anew",
                stops=False,
                remedy="mount a ReadWriteMany claim and keep checkpoints there",
            )
        return
    place, mounts = folder
    inside = [path for path in mounts if PurePosixPath(place).is_relative_to(path)]
    volume = mounts[max(inside, key=len)] if inside else ""
    kind = kinds.get(volume, "")
    if not volume or kind in _NOT_KEPT:
        where = f"its volume {volume} ({kind})" if volume else "no volume"
        yield Lack(
            f"{CHECKPOINT_DIR} is {place}, on {where}: its checkpoints are gone after a move",
            stops=False,
            remedy="mount a ReadWriteMany claim there",
        )


def checkpoint_dir(pod: Object) -> tuple[str, dict[str, str]] | None:
    """Where a pod says that it keeps checkpoints, and the volumes of that container by mount path."""
    for container in pod["spec"].get("containers") or ():
        for one in container.get("env") or ():
            if one["name"] == CHECKPOINT_DIR and one.get("value"):
                mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts") or ()}
                return one["value"], mounts
    return None


def _volume_kinds(pod: Object) -> dict[str, str]:
    """Volume to what it is, such as emptyDir; one that its pod says to be the same everywhere is `shared`."""
    annotations = pod["metadata"].get("annotations") or {}
    shared = {name.strip() for name in annotations.get(SHARED_VOLUMES, "").split(",")}
    return {
        volume["name"]: "shared" if volume["name"] in shared else next((key for key in volume if key != "name"), "")
        for volume in pod["spec"].get("volumes") or ()
    }


# --- budgets ---------------------------------------------------------------------------------------------------------


def of_budgets(subject: Subject) -> Iterator[Lack]:
    """Disruption budgets that let nobody go: each move would be undone."""
    labels = subject.pod["metadata"].get("labels") or {}
    own = [budget for budget in subject.budgets if _is_about(budget, labels)]
    if len(own) > 1:
        names = ", ".join(budget["metadata"]["name"] for budget in own)
        yield Lack(
            f"{len(own)} disruption budgets are about it ({names}), and Kubernetes evicts no such pod",
            remedy="leave one of them",
        )
    for budget in own:
        name, spec, status = budget["metadata"]["name"], budget.get("spec") or {}, budget.get("status") or {}
        if int(status.get("disruptionsAllowed") or 0) > 0:
            continue
        known, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        says = next((f"{key}: {spec[key]}" for key in ("maxUnavailable", "minAvailable") if key in spec), "")
        yield Lack(
            f"disruption budget {name} ({says}) allows nobody to go now: {known} healthy, {wanted} wanted",
            patch={"spec": {"minAvailable": None, "maxUnavailable": 1}},
            of=f"poddisruptionbudget/{name}",
        )


def _is_about(budget: Object, labels: dict[str, str]) -> bool:
    found = selector((budget.get("spec") or {}).get("selector"), "spec.selector")
    return found is not None and found.selects(labels)
