"""Volumes in a simulated cluster: a claim that waits for its pod is bound to a free volume when the pod starts."""

from __future__ import annotations

from dataclasses import replace

from foresail.core.model import Pod
from foresail.core.objects import ClusterObjects
from foresail.core.table import NodeTable
from foresail.core.volumes import TakenVolumes, VolumePlan
from foresail.policies.kubernetes.volume_binding import plan_volumes


def look_after_volumes(table: NodeTable, objects: ClusterObjects) -> TakenVolumes | None:
    """Give the table a run's own objects, where volumes are taken as pods are placed; None if there is none to take.

    A bound claim keeps its volume after its pod, as nobody deletes claims here. A claim whose volume would have to be
    made stays as it is: how far such a volume reaches is not known.
    """
    table.objects = objects
    if not objects.claims or not objects.volumes:
        return None
    table.objects = replace(objects, claims=dict(objects.claims), volumes=dict(objects.volumes))
    taken = TakenVolumes(table, _plan_existing)
    table.volume_taking = taken
    return taken


def _plan_existing(pod: Pod, table: NodeTable, row: int) -> VolumePlan:
    return VolumePlan(static=plan_volumes(pod, table, row).static)
