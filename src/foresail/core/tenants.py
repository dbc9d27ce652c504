"""Which kinds of pods stand where: pods that are alike in one respect are looked at once and counted by row."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from foresail.core.kubernetes import ClaimVolume, Disk, HostPort, KubernetesPod
from foresail.core.model import Ints, Mask, Rows, Shape
from foresail.core.spec import PodSpec
from foresail.core.tallies import AffinityTerms, Facet, LabelSet, RowCounts, Tallies


class Volumes(NamedTuple):
    """What a pod mounts."""

    namespace: str
    claims: tuple[ClaimVolume, ...]
    disks: tuple[Disk, ...]


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
        self.terms: dict[AffinityTerms, RowCounts] = {}
        self.held: Ints = np.zeros((count, 2), dtype=np.int64)
        """Milli-CPU and bytes that pods count for in NodeResourcesFit's score; shape (nodes, 2)."""
        self.tallies = Tallies(count)
        self._facets: dict[Shape, list[Facet]] = {}
        # Shapes that differ elsewhere share a facet; it lives as long as one of them, or a pod of them, is there.
        self._shared: WeakValueDictionary[tuple[int, Hashable], Facet] = WeakValueDictionary()

    def book(self, shape: Shape, row: int, sign: int) -> None:
        """One pod more (1) or less (-1) of this shape on a row."""
        facets = self._facets.get(shape)
        if facets is None:
            facets = self._facets[shape] = self._split(shape)
        for facet in facets:
            rows = facet.rows
            if not rows:
                self._came(facet)
            rows[row] = rows.get(row, 0) + sign
            for tally, amount in facet.adds:
                tally.by_node[row] += sign * amount
                tally.pods += sign
            if not rows[row]:
                del rows[row]
                if not rows:
                    self._went(facet)
        cpu_milli, memory_bytes = shape.spec.held_request
        self.held[row, 0] += sign * cpu_milli
        self.held[row, 1] += sign * memory_bytes

    def _came(self, facet: Facet) -> None:
        facet.home[facet.key] = facet.rows
        if isinstance(facet.key, LabelSet):
            self.tallies.labels_came(facet, facet.key)
        elif isinstance(facet.key, AffinityTerms):
            self.tallies.terms_came(facet, facet.key)

    def _went(self, facet: Facet) -> None:
        del facet.home[facet.key]
        if isinstance(facet.key, LabelSet):
            self.tallies.labels_went(facet.key)
        elif isinstance(facet.key, AffinityTerms):
            self.tallies.terms_went(facet)

    def _split(self, shape: Shape) -> list[Facet]:
        spec = shape.spec
        own = spec.kubernetes or KubernetesPod()
        found = [self._facet(self.labels, LabelSet(spec.namespace, spec.labels, own.terminating))]
        if own.host_ports:
            found.append(self._facet(self.ports, own.host_ports))
        if own.claims or own.disks:
            found.append(self._facet(self.volumes, Volumes(spec.namespace, own.claims, own.disks)))
        if own.has_terms:
            terms = AffinityTerms(own.affinity, own.anti_affinity, own.preferred_affinity, own.preferred_anti_affinity)
            found.append(self._facet(self.terms, terms))
        return found

    def _facet(self, home: dict[Any, RowCounts], key: Hashable) -> Facet:
        facet = self._shared.get((id(home), key))
        if facet is None:
            facet = self._shared[id(home), key] = Facet(home, key)
        return facet

    # --- rows that come, go and move -------------------------------------------------------------------------------

    def append(self, more: int) -> None:
        """Empty rows after the last."""
        self._count += more
        self.held = np.concatenate([self.held, np.zeros((more, 2), dtype=np.int64)])
        self.tallies.clear(self._count)

    def keep(self, source: Rows, moved: Mapping[int, int]) -> None:
        """Only the rows of `source` are left, in that order; `moved` gives those with another number their new one.
        Nobody stands on the others.
        """
        self._count = len(source)
        self.held = self.held[source]
        tables: tuple[dict[Any, RowCounts], ...] = (self.labels, self.ports, self.volumes, self.terms)
        for table in tables:
            for rows in table.values():
                move_rows(rows, moved)
        self.tallies.clear(self._count)

    def drop_shapes(self, known: Container[PodSpec]) -> None:
        """Forget how shapes were split whose spec is not known any more."""
        self._facets = {shape: facets for shape, facets in self._facets.items() if shape.spec in known}

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


def move_rows(counts: RowCounts, moved: Mapping[int, int]) -> None:
    """Count the pods of moved rows under their new number."""
    for before, now in moved.items():
        if before in counts:
            counts[now] = counts.pop(before)
