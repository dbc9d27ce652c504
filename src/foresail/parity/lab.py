"""Random pods on random clusters, decided about by the real kube-scheduler of a lab and written down."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from foresail.errors import InputError, OptionError
from foresail.kube.api.blocking import BlockingClient
from foresail.lab import Lab
from foresail.parity.cluster_run import ClusterRun, Recording, path_of
from foresail.parity.random_cluster import random_cluster
from foresail.parity.random_pod import NAMESPACES, PRIORITIES, RUNTIME_CLASSES
from foresail.parity.recorder import VERBOSITY, RecordingExtender, SchedulerLog, scheduler_configuration

SEEDS_APART = 10_000
"""Cluster i of seed S has the seed S × this + i, so that no two seeds share a cluster."""
_ADMISSION_OFF = ("ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection", "PodTopologyLabels")
"""Admission that counts on controllers which do not run, or that changes pods after they were decided about."""


def record(
    path: Path,
    *,
    pods: int,
    clusters: int,
    seed: int,
    lab: Lab | None = None,
    keep: bool = False,
    show: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Recording:
    """Let kube-scheduler decide about `pods` random pods on `clusters` random clusters; one JSON line a decision.

    A lab is made for it (`lab` says its name and place) and removed again whatever happens, unless it is to be kept.
    After an interrupt the lines so far are in the file.
    """
    if not 1 <= clusters <= min(pods, SEEDS_APART):
        raise OptionError(f"--clusters is {clusters}; write 1 to {min(pods, SEEDS_APART)}, so that each gets a pod")
    result = Recording()
    with ExitStack() as closing:
        try:
            file = closing.enter_context(path.open("a", encoding="utf-8"))
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", path=path) from error
        extender = closing.enter_context(RecordingExtender())
        lab = recording_lab(extender.url, lab or Lab())
        if not keep:
            closing.callback(lab.down)
        lab.up(show)
        # Only now is there something to take the place of an earlier recording.
        file.truncate(0)
        api = closing.enter_context(lab.api())
        log = closing.enter_context(SchedulerLog(lab.logs()["kube-scheduler"]))
        make_constants(api)
        for index in range(clusters):
            share = pods * (index + 1) // clusters - pods * index // clusters
            run = ClusterRun(api, log, extender, random_cluster(seed * SEEDS_APART + index, share), result)
            for line in run.lines():
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
                if progress is not None:
                    progress(result.pods, pods)
            result.clusters += 1
    return result


def recording_lab(extender_url: str, lab: Lab) -> Lab:
    """A lab of that name, not up yet, whose kube-scheduler asks the extender and writes down all it does."""
    config = scheduler_configuration(lab.folder / "kube-scheduler.kubeconfig", extender_url)
    return Lab(
        lab.name,
        base=lab.folder.parent,
        controllers=False,
        apiserver_flags=(f"--disable-admission-plugins={','.join(_ADMISSION_OFF)}",),
        scheduler_flags=(f"--vmodule={VERBOSITY}", "--feature-gates=OpportunisticBatching=false"),
        scheduler_config=json.dumps(config, indent=1),
    )


def make_constants(api: BlockingClient) -> None:
    """Namespaces and classes that all clusters share."""
    for name in NAMESPACES:
        if name != "default":
            api.create(path_of("Namespace"), {"metadata": {"name": name}})
    for runtime in RUNTIME_CLASSES:
        api.create(path_of("RuntimeClass"), runtime)
    for name, value in PRIORITIES.items():
        api.create(path_of("PriorityClass"), {"metadata": {"name": name}, "value": value})
