"""Which kinds of pods stand where: pods that are alike in one respect are looked at once and counted by row."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np

from foresail.core.kubernetes import ClaimVolume, Disk, HostPort, KubernetesPod, PodTerm, Weighted
from foresail.core.model import Ints, Mask, Shape

RowCounts = dict[int, int]
"""Row to the number of pods on it."""


class LabelSet(NamedTuple):
    """What selectors look at."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    terminating: bool


class Volumes(NamedTuple):
    """What a pod mounts."""

    namespace: str
    claims: tuple[ClaimVolume, ...]
    disks: tuple[Disk, ...]


class Terms(NamedTuple):
    """How a pod feels about others near it."""

    affinity: tuple[PodTerm, ...]
    anti_affinity: tuple[PodTerm, ...]
    preferred_affinity: tuple[Weighted[PodTerm], ...]
    preferred_anti_affinity: tuple[Weighted[PodTerm], ...]


class Tenants:
    """Counts of the pods of a node table by row, one table of counts for each respect in which pods are compared.

    Built from the pods that are there when somebody first asks, and kept up to date from then on: tables that no
    Kubernetes filter looks at pay nothing for it.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.labels: dict[LabelSet, RowCounts] = {}
        self.ports: dict[tuple[HostPort, ...], RowCounts] = {}
        self.volumes: dict[Volumes, RowCounts] = {}
        self.terms: dict[Terms, RowCounts] = {}
        self.held: Ints = np.zeros((count, 2), dtype=np.int64)
        """Milli-CPU and bytes that pods count for in NodeResourcesFit's score; shape (nodes, 2)."""
        self._facets: dict[Shape, list[tuple[dict[Any, RowCounts], Hashable]]] = {}

    def book(self, shape: Shape, row: int, sign: int) -> None:
        """One pod more (1) or less (-1) of this shape on a row."""
        facets = self._facets.get(shape)
        if facets is None:
            facets = self._facets[shape] = self._split(shape)
        for table, key in facets:
            rows = table.setdefault(key, {})
            rows[row] = rows.get(row, 0) + sign
            if not rows[row]:
                del rows[row]
                if not rows:
                    del table[key]
        cpu_milli, memory_bytes = shape.spec.held_request
        self.held[row, 0] += sign * cpu_milli
        self.held[row, 1] += sign * memory_bytes

    def _split(self, shape: Shape) -> list[tuple[dict[Any, RowCounts], Hashable]]:
        spec = shape.spec
        own = spec.kubernetes or KubernetesPod()
        found: list[tuple[dict[Any, RowCounts], Hashable]] = [
            (self.labels, LabelSet(spec.namespace, spec.labels, own.terminating))
        ]
        if own.host_ports:
            found.append((self.ports, own.host_ports))
        if own.claims or own.disks:
            found.append((self.volumes, Volumes(spec.namespace, own.claims, own.disks)))
        if own.has_terms:
            terms = Terms(own.affinity, own.anti_affinity, own.preferred_affinity, own.preferred_anti_affinity)
            found.append((self.terms, terms))
        return found

    def count(self, found: Iterable[RowCounts]) -> Ints:
        """Pods on each row, all these counts together; shape (nodes,)."""
        total = np.zeros(self._count, dtype=np.int64)
        for rows in found:
            total[list(rows)] += list(rows.values())  # each row stands once in a dict
        return total

    def anywhere(self, found: Iterable[RowCounts]) -> Mask:
        """Rows on which any of these stand; shape (nodes,)."""
        mask = np.zeros(self._count, dtype=np.bool_)
        for rows in found:
            mask[list(rows)] = True
        return mask
