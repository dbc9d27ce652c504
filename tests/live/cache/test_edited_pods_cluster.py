"""On a real API server: whoever may edit a pod cannot make its room look free, and nobody's claims are passed over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.live.running import PODS, bound, cluster_of, node, pod, scheduling

from foresail.kube.api.client import Object
from foresail.kube.objects.values import GPU_COUNT, HELD_REQUEST, SCORED_REQUEST
from foresail.lab import Lab

pytestmark = pytest.mark.cluster

NVIDIA = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(scheduler=False) as lab:
        yield lab


def asking(name: str, requests: dict[str, str], **more: Any) -> Object:
    made = pod(name, requests=requests, **more)
    limits = {key: amount for key, amount in requests.items() if key == NVIDIA}  # the API server wants both of GPUs
    made["spec"]["containers"][0]["resources"]["limits"] = limits
    return made


@pytest.mark.parametrize(
    ("annotations", "requests"),
    [
        ({SCORED_REQUEST: "x"}, {"cpu": "30"}),
        ({HELD_REQUEST: "0/0"}, {"cpu": "30"}),
        ({GPU_COUNT: "0"}, {"cpu": "1", NVIDIA: "8"}),
        ({GPU_COUNT: "many"}, {"cpu": "1", NVIDIA: "8"}),
    ],
)
@pytest.mark.parametrize("scheduler", ["foresail", "somebody-else"])
def test_a_running_pod_whose_owner_writes_annotations_keeps_its_room(lab: Lab, annotations, requests, scheduler):
    async def live() -> str:
        async with cluster_of(lab, node("only", cpu="32", **{NVIDIA: "8"})) as api:
            await api.post(PODS, asking("tenant", requests, scheduler=scheduler, nodeName="only"))
            async with scheduling(lab) as running:
                await api.patch(f"{PODS}/tenant", {"metadata": {"annotations": annotations}})
                version = (await api.get(f"{PODS}/tenant"))["metadata"]["resourceVersion"]
                cache = running.process.cache
                await running.until(lambda _: any(int(one.version) >= int(version) for one in cache.pods.values()))
                await running.create(asking("next", requests))
                return (await running.until_told("next"))["next"]

    told = asyncio.run(live())
    assert told.startswith("0/1 nodes are available: 1 ")
    assert ("gpu" if NVIDIA in requests else "Insufficient cpu") in told


def test_a_pod_with_claims_that_nobody_allocates_is_refused_by_their_name_and_others_are_placed(lab: Lab):
    claims = [{"name": "gpu", "resourceClaimName": "shared-gpu"}]

    async def live() -> str:
        async with cluster_of(lab, node("only")), scheduling(lab) as running:
            await running.create(pod("claims", resourceClaims=claims), pod("plain", requests={"cpu": "1"}))
            told = await running.until_told("claims")
            await running.until(lambda found: bound(found, "plain"))
            return told["claims"]

    assert "gpu" in asyncio.run(live())
