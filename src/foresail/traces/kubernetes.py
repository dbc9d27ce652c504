"""Nodes and pods as Kubernetes writes them: Node and Pod objects of a file as specs and a workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foresail.core.spec import NodeSpec, PodSpec, Workload
from foresail.errors import InputError, did_you_mean
from foresail.kube.objects.documents import Found, objects
from foresail.kube.objects.gangs.form import Limits, later_members
from foresail.kube.objects.gangs.forms import GROUP_KINDS, form_of, gang_named, groups_of
from foresail.kube.objects.gangs.plain import annotated_limits
from foresail.kube.objects.node import node_spec
from foresail.kube.objects.pod import PodWork, ignored_fields, pod_spec, pod_times, pod_work
from foresail.kube.objects.priorities import PriorityClasses
from foresail.kube.objects.quantity import RequestError, mapping
from foresail.kube.objects.values import (
    GANG,
    GANG_MIN,
    GANG_TIMEOUT_S,
    GPU_MODEL,
    POD_GROUP,
    TRAINING,
    mapping_or_empty,
    named_metadata,
    qualified,
    string,
    strings,
)
from foresail.logs import get_logger
from foresail.traces.training.models import shipped_models

_GANG_LABELS = frozenset({POD_GROUP, GANG})


def read_nodes(path: str | Path, *, skip_bad_rows: bool = False) -> tuple[list[NodeSpec], int]:
    """All Node objects of a file in its order, and how many were dropped (0 unless `skip_bad_rows`)."""
    path = Path(path)
    bad = _BadObjects(path, skip_bad_rows)
    nodes: dict[str, NodeSpec] = {}
    kinds: Counter[str] = Counter()
    for found in objects(path):
        kinds[found.kind] += 1
        if found.kind != "Node":
            continue
        try:
            node = node_spec(found.value)
            if node.name in nodes:
                raise RequestError(f'metadata.name is "{node.name}" a second time; node names are unique')  # noqa: TRY301 - one place tells all bad objects
        except RequestError as error:
            bad.add(found, error)
            continue
        nodes[node.name] = node
    dropped = bad.settle()
    _refuse_none(path, "Node", nodes, kinds)
    return list(nodes.values()), dropped


def _refuse_none(path: Path, kind: str, taken: Iterable[str], kinds: Counter[str]) -> None:
    if any(True for _ in taken):
        return
    held = ", ".join(f"{count} {name}" for name, count in sorted(kinds.items())) or "nothing"
    raise InputError(f"holds no usable {kind} objects (it holds {held})", path=path)


def read_pods(
    path: str | Path,
    *,
    models: frozenset[str] | None = None,
    skip_bad_rows: bool = False,
    cluster: Iterable[Found] = (),
) -> tuple[Workload, int]:
    """All Pod objects of a file in its order, and how many were dropped (0 unless `skip_bad_rows`).

    `models` are the GPU models the cluster has; a pod that names none of them is a bad object. Fields that
    placement does not honour yet are told once in a warning, with the number of pods that carry them. `cluster` are
    objects from elsewhere, whose priority classes and pod groups the pods may name.
    """
    path = Path(path)
    bad = _BadObjects(path, skip_bad_rows)
    kinds: Counter[str] = Counter()
    waiting: list[Found] = []
    classes = PriorityClasses()
    groups: dict[str, Limits] = {}
    for found in cluster:
        if found.kind == "PriorityClass":
            classes.add(found.value)
        elif found.kind in GROUP_KINDS:
            groups |= _groups(found)
    for found in objects(path):
        kinds[found.kind] += 1
        try:
            if found.kind == "Pod":
                waiting.append(found)
            elif found.kind == "PriorityClass":
                classes.add(found.value)
            elif found.kind in GROUP_KINDS:
                groups |= _groups(found)
        except RequestError as error:
            bad.add(found, error)
    # Priority classes and pod groups may stand after the pods that name them, so pods are read last.
    pods = _Pods(classes, groups, models)
    for found in waiting:
        try:
            pods.add(found.value)
        except RequestError as error:
            bad.add(found, error)
    dropped = bad.settle()
    _refuse_none(path, "Pod", pods.row_of, kinds)
    if pods.ignored:
        get_logger().warning("pod_fields_ignored", path=str(path), pods_by_field=dict(sorted(pods.ignored.items())))
    return pods.workload(), dropped


def _groups(found: Found) -> dict[str, Limits]:
    """Name of a gang's group to its limits."""
    form = form_of(found.kind, found.value)
    stated = groups_of(form, found.value) if form else ()
    return {qualified(group.namespace, group.name): limits for group, limits in stated}


class _Pods:
    """Gathers pods into columns; a pod is added whole or not at all."""

    def __init__(
        self,
        classes: PriorityClasses,
        groups: Mapping[str, Limits],
        models: frozenset[str] | None,
    ) -> None:
        self.classes = classes
        self.groups = groups
        self.models = models
        self.row_of: dict[str, int] = {}
        self.ignored: Counter[str] = Counter()
        self._specs: dict[PodSpec, int] = {}
        self._spec_of: list[int] = []
        self._arrival_s: list[float | None] = []
        self._created: list[datetime | None] = []
        self._duration_s: list[float] = []
        self._priority: list[int] = []
        self._work: list[PodWork] = []
        self._gang_of: list[int] = []
        self._gangs: dict[str, int] = {}
        self._gang_limits: list[Limits] = []

    def add(self, value: Mapping[str, Any]) -> None:
        metadata, short = named_metadata(value)
        spec = mapping(value.get("spec"), "spec")
        namespace = string(metadata.get("namespace"), "metadata.namespace") or "default"
        name = qualified(namespace, short)
        if name in self.row_of:
            raise RequestError(f'the pod "{namespace}/{short}" stands here a second time; pod names are unique')
        labels = strings(metadata.get("labels"), "metadata.labels")
        annotations = strings(metadata.get("annotations"), "metadata.annotations")
        ignored: set[str] = set()
        asked = pod_spec(spec, metadata, labels, annotations, namespace)
        self._check_models(asked.gpu_models if asked.gpu_count else ())
        priority = self.classes.priority(spec)
        arrival_s, created, duration_s = pod_times(metadata, annotations)
        work = pod_work(spec, annotations)
        if work.training and shipped_models().find(work.training) is None:
            raise RequestError(f"metadata.annotations.{TRAINING}: {shipped_models().unknown(work.training)}")
        gang, limits = self._gang(spec, labels, annotations, namespace)
        ignored |= ignored_fields(spec)

        self.row_of[name] = len(self.row_of)
        self.ignored.update(ignored)
        self._spec_of.append(self._specs.setdefault(asked, len(self._specs)))
        self._arrival_s.append(arrival_s)
        self._created.append(created)
        self._duration_s.append(duration_s)
        self._priority.append(priority)
        self._work.append(work)
        if gang and gang not in self._gangs:
            self._gangs[gang] = len(self._gangs)
            self._gang_limits.append(limits)
        self._gang_of.append(self._gangs[gang] if gang else -1)

    def workload(self) -> Workload:
        # Times of day count from the earliest pod; our own annotation already counts from the start of the trace.
        stamped = [time for time, at in zip(self._created, self._arrival_s, strict=True) if time and at is None]
        start = min(stamped, default=None)
        arrival_s = [
            at if at is not None else (time - start).total_seconds() if time and start else 0.0
            for time, at in zip(self._created, self._arrival_s, strict=True)
        ]
        members = Counter(self._gang_of)
        gangs = []
        for name, index in self._gangs.items():
            limits, most = self._gang_limits[index], members[index]
            least = limits.min_members
            if least is not None and least > most:
                get_logger().warning("gang_never_complete", gang=name, members=most, min_members=least)
            gangs.append(limits.gang(name, most))
        specs, spec_of = _without_gang_labels(list(self._specs), np.array(self._spec_of, dtype=np.int64))
        duration_s = np.array(self._duration_s, dtype=np.float64)
        work_cpu_s = np.array([work.work_cpu_s for work in self._work], dtype=np.float64)
        names = [work.training for work in self._work]
        trainings, training_of, work_cpu_s = shipped_models().resolve(names, work_cpu_s, duration_s)
        return Workload(
            names=list(self.row_of),
            specs=specs,
            spec_of=spec_of,
            arrival_s=np.array(arrival_s, dtype=np.float64),
            duration_s=duration_s,
            priority=np.array(self._priority, dtype=np.int64),
            gang_of=np.array(self._gang_of, dtype=np.int64),
            gangs=gangs,
            cpu_limit_milli=np.array([work.cpu_limit_milli for work in self._work], dtype=np.int64),
            cpu_weight=np.array([work.cpu_weight for work in self._work], dtype=np.float64),
            work_cpu_s=work_cpu_s,
            training_of=training_of,
            trainings=trainings,
        )

    def _check_models(self, asked: tuple[str, ...]) -> None:
        if self.models is None or not asked or self.models.intersection(asked):
            return
        near = did_you_mean(asked[0], self.models)
        raise RequestError(
            f'metadata.annotations.{GPU_MODEL} is "{"|".join(asked)}"{near}; the nodes have '
            f"{', '.join(sorted(self.models)) or 'no GPUs'}"
        )

    def _gang(
        self, spec: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str], namespace: str
    ) -> tuple[str, Limits]:
        named = gang_named(spec, labels, annotations, namespace)
        if named is None:
            return "", Limits()
        group = qualified(namespace, named.name)
        gang = f"{group}/{named.replica}" if named.replica else group
        if group in self.groups:
            return gang, self.groups[group]._replace(later_members=later_members(annotations))
        limits = annotated_limits(annotations)._replace(later_members=later_members(annotations))
        before = self._gang_limits[self._gangs[gang]] if gang in self._gangs else limits
        if before != limits:
            raise RequestError(
                f'metadata.annotations.{GANG_MIN} and {GANG_TIMEOUT_S} of gang "{gang}" are {limits[:2]} here and '
                f"{before[:2]} on an earlier member; give all members the same"
            )
        return gang, limits


def _without_gang_labels(specs: list[PodSpec], spec_of: NDArray[np.int64]) -> tuple[list[PodSpec], NDArray[np.int64]]:
    """Specs without the labels that name gangs, unless a pod selects others by them: a gang is a column of its own, and
    left among the labels it would give every gang a spec of its own.
    """
    if any(not _GANG_LABELS.isdisjoint(_selected_keys(spec)) for spec in specs):
        return specs, spec_of
    plain: dict[PodSpec, int] = {}
    now = [
        plain.setdefault(
            replace(spec, labels=tuple(label for label in spec.labels if label[0] not in _GANG_LABELS)), len(plain)
        )
        for spec in specs
    ]
    return list(plain), np.array(now, dtype=np.int64)[spec_of]


def _selected_keys(spec: PodSpec) -> Iterator[str]:
    """Labels of pods that a pod's affinities and spread constraints look at."""
    said = spec.kubernetes
    if said is None:
        return
    preferred = (*said.preferred_affinity, *said.preferred_anti_affinity)
    terms = (*said.affinity, *said.anti_affinity, *(weighted.term for weighted in preferred))
    for selector in (*(term.selector for term in terms), *(one.selector for one in said.spread)):
        if selector is not None:
            yield from (line.key for line in selector.requirements)


@dataclass(slots=True)
class _BadObjects:
    """Objects that cannot be used: all are counted, the first one is told."""

    path: Path
    skip: bool
    first: tuple[str, int | None] | None = None
    count: int = 0

    def add(self, found: Found, error: RequestError) -> None:
        self.count += 1
        if self.first is None:
            name = mapping_or_empty(found.value.get("metadata")).get("name")
            self.first = f"{found.place} ({found.kind} {name or 'without name'}): {error}", found.line

    def settle(self) -> int:
        if self.first is None or self.skip:
            return self.count
        many = f"{self.count} such objects" if self.count > 1 else "it"
        raise InputError(f"{self.first[0]} (--skip-bad-rows drops {many})", path=self.path, line=self.first[1])
