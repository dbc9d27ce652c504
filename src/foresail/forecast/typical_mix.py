"""Which pods are typical, from those that were seen of late: where no list of pods to come is at hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

import numpy as np

from foresail.core.spec import PodSpec, Workload
from foresail.forecast.fragmentation import TypicalPods


class TypicalMix:
    """Remembers what each of the pods seen last requests; each counts once, however long it is seen."""

    def __init__(self, most: int = 1000) -> None:
        if most < 1:
            raise ValueError(f"remember is {most}; typical pods are found among 1 or more")
        self._seen: deque[PodSpec] = deque(maxlen=most)
        self._there: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def see(self, pods: Iterable[tuple[Hashable, PodSpec]]) -> None:
        """All pods that are there now, each with its job."""
        there: set[Hashable] = set()
        for job, spec in pods:
            there.add(job)
            if job not in self._there:
                self._seen.append(spec)
        self._there = there

    def typical(self, models: list[str]) -> TypicalPods:
        """The requests that make up most of what was seen."""
        at: dict[PodSpec, int] = {}
        spec_of = [at.setdefault(spec, len(at)) for spec in self._seen]
        return TypicalPods.of(Workload([""] * len(spec_of), list(at), np.array(spec_of, dtype=np.int64)), models)
