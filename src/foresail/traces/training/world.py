"""A world of training jobs: nodes, pods and where these start, made from settings and a seed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from foresail.core.kubernetes import KubernetesNode, KubernetesPod
from foresail.core.spec import NodeSpec, PodSpec, Workload
from foresail.errors import InputError
from foresail.traces.training.models import Model, Models, read_models, shipped_models
from foresail.traces.training.schedules import ScheduledJob, submissions
from foresail.traces.training.settings import TrainingSettings

RELEASED = {
    1: (1, 2, 3, 8, 15, 16, 19, 20, 21, 24, 25, 28),
    2: (4, 7, 9, 11, 23, 27),
    3: (10, 12, 17),
    4: (5, 6, 13, 14, 18),
}
"""Jobs by node, both counted from 1, as the log begins that the authors of the published rule released."""
MIB_BYTES = 2**20
_MAKERS = {"Deployment": "ReplicaSet"}
_NODE_MEMORY_BYTES = 128 * 2**30
_STREAM, _START_STREAM = 0x7A51, 0x57A7
"""Keep the draws of jobs and of starts apart from each other, and from other draws under the same seed."""


class World(NamedTuple):
    """What a run needs to know of its training jobs."""

    nodes: list[NodeSpec]
    workload: Workload
    first_node: dict[str, str]
    """Pods by name whose first node the start prescribes; the policy places the others."""


def models_of(settings: TrainingSettings) -> Models:
    """The models that jobs train: those of the file that is named, else those that come with Foresail."""
    return shipped_models() if settings.models is None else read_models(Path(settings.models))


def make_world(settings: TrainingSettings, seed: int) -> World:
    """The jobs in the order of the schedule, `job-1`, `job-2`, …; the same for every start, cluster and limit."""
    models = models_of(settings)
    random = np.random.default_rng([seed, _STREAM])
    jobs = submissions(settings, models, random)
    kinds = [_kind(job, models) for job in jobs]
    work_cpu_s = _work(settings, kinds, models) * np.exp(random.normal(0.0, settings.work_spread, len(jobs)))
    nodes = _nodes(settings, models)
    workload = _workload(settings, jobs, kinds, work_cpu_s)
    return World(nodes, workload, _first_nodes(settings, workload, nodes, seed))


def _kind(job: ScheduledJob, models: Models) -> Model:
    found = models.find(job.model)
    if found is None:
        raise InputError(models.unknown(job.model))
    return found


def _work(settings: TrainingSettings, kinds: list[Model], models: Models) -> np.ndarray:
    measured = np.array([kind.cpu_s for kind in kinds], dtype=np.float64)
    if not settings.mean_work_cpu_s:
        return measured
    return measured * (settings.mean_work_cpu_s / float(np.mean([model.cpu_s for model in models.all])))


def _nodes(settings: TrainingSettings, models: Models) -> list[NodeSpec]:
    images: tuple[tuple[str, int], ...] = ()
    if settings.start != "cold-images":
        names = dict.fromkeys(model.image for model in models.all)
        images = tuple((name, settings.image_mib * MIB_BYTES) for name in names)
    width = len(str(settings.nodes))
    return [
        NodeSpec(
            f"node-{number:0{width}d}",
            round(settings.cores * 1000),
            _NODE_MEMORY_BYTES,
            kubernetes=KubernetesNode(images=images) if images else None,
        )
        for number in range(1, settings.nodes + 1)
    ]


def _workload(
    settings: TrainingSettings, jobs: list[ScheduledJob], kinds: list[Model], work_cpu_s: np.ndarray
) -> Workload:
    count = len(jobs)
    specs: dict[PodSpec, int] = {}
    trainings = list(dict.fromkeys(kind.training for kind in kinds))
    spec_of = []
    names = [f"job-{number}" for number in range(1, count + 1)]
    for index, kind in enumerate(kinds):
        spec = PodSpec(
            cpu_milli=settings.request_milli,
            owner=_owner(settings, index, names[index]),
            kubernetes=KubernetesPod(images=(kind.image,)),
        )
        spec_of.append(specs.setdefault(spec, len(specs)))
    return Workload(
        names=names,
        specs=list(specs),
        spec_of=np.array(spec_of, dtype=np.int64),
        arrival_s=np.array([job.at_s for job in jobs], dtype=np.float64),
        cpu_limit_milli=np.full(count, settings.limit_milli, dtype=np.int64),
        work_cpu_s=work_cpu_s,
        training_of=np.array([trainings.index(kind.training) for kind in kinds], dtype=np.int64),
        trainings=trainings,
    )


def _owner(settings: TrainingSettings, index: int, name: str) -> str:
    """As a pod says it, `Kind/name`; empty for a pod that nobody makes anew. A Deployment has a ReplicaSet do it."""
    kind = settings.owners[index % len(settings.owners)] if settings.owners else "Job"
    return "" if kind == "Pod" else f"{_MAKERS.get(kind, kind)}/{name}"


def _first_nodes(settings: TrainingSettings, workload: Workload, nodes: list[NodeSpec], seed: int) -> dict[str, str]:
    if settings.start == "random":
        random = np.random.default_rng([seed, _START_STREAM])
        drawn = random.integers(len(nodes), size=len(workload)).tolist()
        return {name: nodes[at].name for name, at in zip(workload.names, drawn, strict=True)}
    if settings.start != "released":
        return {}
    by_time = np.argsort(workload.arrival_s, kind="stable").tolist()
    return {
        workload.names[by_time[job - 1]]: nodes[node - 1].name
        for node, jobs in RELEASED.items()
        for job in jobs
        if job <= len(by_time)
    }
