"""A small Kubernetes cluster to ask about: nodes, objects and pods as an API server has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foresail.core.explain import explain
from foresail.core.kubernetes import KubernetesPod
from foresail.core.model import NoFit, Placement
from foresail.core.table import NodeTable
from foresail.kube.objects.cluster_objects import put_object
from foresail.kube.objects.node import node_spec
from foresail.kube.objects.pod import pod_spec_of
from foresail.policies.kubernetes import PLUGIN_OF_SCORE
from foresail.policies.profiles.load import load_profile


class Cluster:
    """Asks the profile `kubernetes`, with memory and afresh, and tells what came out."""

    def __init__(self, *nodes):
        self.table = NodeTable([node_spec(node) for node in nodes])
        self.profile = load_profile("kubernetes")

    def put(self, kind, name, *, namespace="default", labels=None, annotations=None, uid="", **fields):
        metadata = {"name": name, "namespace": namespace, "labels": labels or {}, "annotations": annotations or {}}
        assert put_object(self.table.objects, kind, {"metadata": metadata | {"uid": uid}, **fields})
        self.table.objects_changed()

    def place(self, pod, node, *, terminating=False):
        spec = pod_spec_of(pod)
        if terminating:
            spec = replace(spec, kubernetes=replace(spec.kubernetes or KubernetesPod(), terminating=True))
        name = f"on-{len(self.table.placed)}"
        self.table.assume(self.table.pod(name, spec), Placement(self.table.row_of[node], node))

    def ask(self, pod):
        explained = explain(self.table.pod("asks", pod_spec_of(pod)), self.table, self.profile, top=self.table.count)
        if isinstance(explained.outcome, NoFit):
            assert not explained.candidates
        elif len(explained.candidates) > 1:
            assert (explained.outcome.node, explained.outcome.score) == (
                explained.candidates[0].node,
                explained.candidates[0].total,
            )
        return explained

    def feasible(self, pod):
        return sorted(candidate.node for candidate in self.ask(pod).candidates)

    def reasons(self, pod):
        """Reason to nodes, all filters together."""
        return {reason: count for step in self.ask(pod).filters for reason, count in step.refused.items()}

    def scores(self, pod, plugin):
        """Node to the plug-in's weighted score."""
        return {
            candidate.node: next(
                line.normalized * line.weight for line in candidate.scores if PLUGIN_OF_SCORE[line.name] == plugin
            )
            for candidate in sorted(self.ask(pod).candidates, key=lambda candidate: candidate.node)
        }


@pytest.fixture
def make_cluster():
    return Cluster


@pytest.fixture
def make_node():
    """Build a node of 10 CPUs and 10 GiB."""

    def make(name, *, labels=None, taints=(), images=None, features=(), unschedulable=False, **offered):
        offered = {"cpu": "10", "memory": "10Gi", "pods": "110"} | offered
        return {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | (labels or {})},
            "spec": {"taints": list(taints), "unschedulable": unschedulable},
            "status": {
                "allocatable": offered,
                "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
                "declaredFeatures": list(features),
            },
        }

    return make


@pytest.fixture
def make_kube_pod():
    """Build a pod with one container that asks 1 CPU and 1 GiB, unless other containers are given."""

    def make(*, labels=None, namespace="default", owner=None, **spec):
        references = [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
        metadata = {"name": "p", "namespace": namespace, "labels": labels or {}, "ownerReferences": references}
        containers = [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
        return {"metadata": metadata, "spec": {"containers": containers} | spec}

    return make
