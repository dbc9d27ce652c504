"""`foresail run` on a real API server: the same placements as in the simulator, and what else it promises."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.differences import differences
from tests.live.running import PODS, Running, bound, cluster_of, node, pod, scheduling

from foresail.kube.api.client import Object
from foresail.kube.objects.values import ARRIVAL_S, GPU_DEVICES
from foresail.lab import Lab
from foresail.live.scheduler.run import profile_for
from foresail.policies import POLICIES
from foresail.sim.protocols.clock import run_clock
from foresail.traces.trace import load

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(scheduler=False) as lab:
        yield lab


def _random_pods(seed: int, count: int) -> list[Object]:
    draw = random.Random(seed)  # noqa: S311 - no secret
    made = []
    for index in range(count):
        app = f"app-{draw.randrange(8)}"
        spec: dict[str, Any] = {
            "labels": {"app": app},
            "annotations": {ARRIVAL_S: str(index)},
            "requests": {
                "cpu": f"{draw.choice((100, 250, 500, 1000))}m",
                "memory": f"{draw.choice((128, 512, 1024))}Mi",
            },
        }
        term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
        kind = draw.randrange(6)
        if kind == 0:
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        elif kind == 1:
            spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [spread | {"labelSelector": {"matchLabels": {"app": app}}}]
        elif kind == 2:
            wish = {"weight": 50, "podAffinityTerm": term}
            spec["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
        elif kind == 3:
            spec["nodeSelector"] = {"zone": f"z{draw.randrange(4)}"}
        made.append(pod(f"pod-{index:03}", **spec))
    return made


@pytest.mark.parametrize("policy", ["kubernetes", "best-fit", "most-allocated:2+balanced:1"])
def test_the_simulator_and_the_cluster_place_the_same_pods_on_the_same_nodes(lab: Lab, tmp_path: Path, policy: str):
    nodes = [node(f"node-{index:02}", cpu=str(2 + index % 3), labels={"zone": f"z{index % 3}"}) for index in range(12)]
    pods = _random_pods(7, 80)

    async def live() -> tuple[dict[str, str], list[Object]]:
        async with cluster_of(lab, *nodes) as api:
            stored, _ = await api.list("/api/v1/nodes")
            async with scheduling(lab, policy=policy) as running:
                await running.create(*pods)
                await running.until(lambda found: len(found) == len(pods) and _all_decided(found))
                return await running.placements(), stored

    placed, stored = asyncio.run(live())
    (tmp_path / "nodes.json").write_text(
        json.dumps({"kind": "List", "items": [{"kind": "Node", **one} for one in stored]})
    )
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": pods}))
    result = run_clock(load(tmp_path / "nodes.json", tmp_path / "pods.json"), profile_for(policy))
    simulated = {
        str(name).rpartition("/")[2]: str(where)
        for name, where in zip(result.placements["pod"], result.placements["node"], strict=True)
    }
    assert {name: where for name, where in placed.items() if where} == {n: w for n, w in simulated.items() if w}
    assert sum(map(bool, placed.values())) >= 50


def _all_decided(found: dict[str, Object]) -> bool:
    return all(
        one["spec"].get("nodeName") or any(c["type"] == "PodScheduled" for c in one["status"].get("conditions", []))
        for one in found.values()
    )


@pytest.mark.parametrize(
    "edit",
    [{"foresail.dev/scored-request": "x"}, {"alibabacloud.com/gpu-milli": "half"}, {"foresail.dev/gang-min": "0"}],
)
def test_no_annotation_makes_room_where_a_pod_runs(lab: Lab, edit: dict[str, str]):
    """30 of 32 CPUs are taken, by a pod of another scheduler: whatever its owner writes on it, they stay taken."""

    async def live() -> None:
        async with cluster_of(lab, node("only", "32")), scheduling(lab) as running:
            tenant = pod("tenant", scheduler="somebody-else", nodeName="only", requests={"cpu": "30"})
            await running.create(tenant)
            await running.api.patch(f"{PODS}/tenant", {"metadata": {"annotations": edit}})
            await running.create(pod("next", requests={"cpu": "30"}), pod("small", requests={"cpu": "2"}))
            found = await running.until(lambda found: bound(found, "small"))
            told = await running.until_told("next")
            assert not (await running.placements())["next"]
            assert found["tenant"]["metadata"]["annotations"] == edit
            assert "cpu" in told["next"]

    asyncio.run(live())


def test_gpu_shares_are_placed_on_devices_that_the_pod_then_names_also_after_a_restart(lab: Lab):
    """The small test cluster: 2 nodes with 2 and 4 V100, three kinds of pods."""
    gpu = {"alibabacloud.com/gpu-count": "{}", "alibabacloud.com/gpu-card-model": "V100"}
    nodes = [
        node(
            f"v100-{count}",
            "64",
            "256000Mi",
            labels=gpu | {"alibabacloud.com/gpu-count": str(count)},
            **{"alibabacloud.com/gpu-count": str(count), "alibabacloud.com/gpu-milli": str(count * 1000)},
        )
        for count in (2, 4)
    ]
    share = {
        "annotations": {"alibabacloud.com/gpu-count": "1", "alibabacloud.com/gpu-milli": "500"},
        "requests": {"cpu": "4", "memory": "9216Mi"},
    }
    whole = {
        "annotations": {"alibabacloud.com/gpu-count": "2", "alibabacloud.com/gpu-milli": "1000"},
        "requests": {"cpu": "12", "memory": "18432Mi"},
    }
    plain = {"requests": {"cpu": "8", "memory": "17408Mi"}}
    first = [pod("share-0", **share), pod("plain-0", **plain), pod("share-1", **share), pod("share-2", **share)]
    second = [pod("whole-0", **whole), pod("share-3", **share), pod("whole-1", **whole), pod("plain-1", **plain)]

    async def live() -> dict[str, Object]:
        async with cluster_of(lab, *nodes):
            async with scheduling(lab, policy="fgd") as running:
                await running.create(*first)
                await running.until(lambda found: bound(found, *(one["metadata"]["name"] for one in first)))
            async with scheduling(lab, policy="fgd") as running:
                await running.create(*second)
                found = await running.until(lambda found: bound(found, *(one["metadata"]["name"] for one in second)))
                assert (
                    differences(
                        running.process.live.cache,
                        (await running.api.list("/api/v1/nodes"))[0],
                        (await running.api.list("/api/v1/pods"))[0],
                    )
                    == []
                )
                return found

    found = asyncio.run(live())
    milli: Counter[tuple[str, str]] = Counter()
    for name, one in found.items():
        annotations = one["metadata"].get("annotations", {})
        asked, devices = annotations.get("alibabacloud.com/gpu-milli"), annotations.get(GPU_DEVICES, "")
        assert bool(asked) == bool(devices), f"{name} has devices {devices!r}"
        for device in devices.split(",") if devices else []:
            milli[one["spec"]["nodeName"], device] += int(asked)
    assert sum(milli.values()) == 4 * 500 + 2 * 2000
    assert max(milli.values()) <= 1000
    assert all(int(device) < int(where[-1]) for where, device in milli)


def test_a_pod_that_fits_nowhere_is_told_why_and_is_bound_once_there_is_room(lab: Lab):
    async def live() -> None:
        async with cluster_of(lab, node("small", cpu="1")) as api, scheduling(lab) as running:
            await running.create(pod("first", requests={"cpu": "800m"}))
            await running.until(lambda found: bound(found, "first"))
            await running.create(pod("second", requests={"cpu": "500m"}), pod("third", requests={"cpu": "500m"}))
            told = await running.until_told("second", "third")
            assert set(told.values()) == {"0/1 nodes are available: 1 Insufficient cpu."}
            assert ("first", "Successfully assigned default/first to small") in await running.events("Scheduled")
            assert ("second", told["second"]) in await running.events("FailedScheduling")
            await api.delete("/api/v1/namespaces/default/pods/first?gracePeriodSeconds=0")
            await running.until(lambda found: bound(found, "second", "third"))
            assert running.process.live.mend() == 0

    asyncio.run(live())


def test_gated_pods_wait_until_their_gates_are_gone(lab: Lab):
    async def live() -> None:
        async with cluster_of(lab, node("one")) as api, scheduling(lab) as running:
            await running.create(pod("gated", schedulingGates=[{"name": "example.com/wait"}]), pod("free"))
            found = await running.until(lambda found: bound(found, "free"))
            assert not bound(found, "gated")
            await api.patch(
                "/api/v1/namespaces/default/pods/gated",
                {"spec": {"schedulingGates": []}},
                content_type="application/merge-patch+json",
            )
            await running.until(lambda found: bound(found, "gated"))

    asyncio.run(live())


def test_a_gang_is_bound_whole_or_not_at_all(lab: Lab):
    gang = {"labels": {"foresail.dev/gang": "ring"}, "annotations": {"foresail.dev/gang-min": "3"}}

    async def live() -> None:
        async with cluster_of(lab, node("one", cpu="2")) as api, scheduling(lab) as running:
            await running.create(*(pod(f"ring-{index}", requests={"cpu": "1"}, **gang) for index in range(3)))
            await running.create(pod("alone", requests={"cpu": "500m"}))
            found = await running.until(lambda found: bound(found, "alone"))
            await running.until_told("ring-0", "ring-1", "ring-2")
            assert not any(bound(found, f"ring-{index}") for index in range(3))
            await api.post("/api/v1/nodes", node("two", cpu="4"))
            await running.until(lambda found: bound(found, "ring-0", "ring-1", "ring-2"))

    asyncio.run(live())


def test_pods_of_less_priority_make_room_and_are_told_so(lab: Lab):
    async def live() -> None:
        async with cluster_of(lab, node("one", cpu="1")) as api, scheduling(lab) as running:
            for name, value in (("low", 1), ("high", 1000)):
                await api.post(
                    "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value}
                )
            try:
                await running.create(
                    *(pod(f"low-{i}", requests={"cpu": "500m"}, priorityClassName="low") for i in (0, 1))
                )
                await running.until(lambda found: bound(found, "low-0", "low-1"))
                await running.create(pod("high", requests={"cpu": "400m"}, priorityClassName="high"))
                found = await running.until(lambda found: bound(found, "high"))
                assert len(found) == 2  # one victim, not both
                assert [note.partition(" by ")[0] for _, note in await running.events("Preempted")] == ["Preempted"]
            finally:
                for name in ("low", "high"):
                    await api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")

    asyncio.run(live())


def test_an_edited_profile_is_used_and_a_wrong_one_is_not(lab: Lab, tmp_path: Path):
    profile = tmp_path / "profile.toml"
    profile.write_text('[[scores]]\npolicy = "least-allocated"\n')

    async def live() -> None:
        async with cluster_of(lab, node("a"), node("b")), scheduling(lab, policy=str(profile)) as running:
            reloader = running.process.reloader
            assert reloader is not None
            await running.create(pod("p0", requests={"cpu": "1"}), pod("p1", requests={"cpu": "1"}))
            found = await running.until(lambda found: bound(found, "p0", "p1"))
            assert len({one["spec"]["nodeName"] for one in found.values()}) == 2
            profile.write_text('[[scores]]\npolicy = "no-such"\n')
            reloader.look()
            assert "no-such" in reloader.problem
            profile.write_text('[[scores]]\npolicy = "most-allocated"\n')
            reloader.look()
            assert not reloader.problem
            await running.create(*(pod(f"q{index}", requests={"cpu": "500m"}) for index in range(4)))
            found = await running.until(lambda found: bound(found, *(f"q{index}" for index in range(4))))
            assert len({found[f"q{index}"]["spec"]["nodeName"] for index in range(4)}) == 1

    asyncio.run(live())


class _Broken:
    row_wise = True

    def score(self, pod: Any, nodes: Any) -> Any:
        if pod.name.endswith("bad"):
            raise RuntimeError("cannot divide by zero pods")
        return nodes.free[:, 0] * (float("nan") if pod.name.endswith("nan") else 1.0)


def test_a_policy_that_raises_or_says_nan_leaves_its_pod_waiting_and_the_scheduler_lives_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(POLICIES, "broken", f"{__name__}:_Broken")

    async def live(running: Running) -> None:
        await running.create(pod("bad", requests={"cpu": "1"}), pod("nan", requests={"cpu": "2"}))
        told = await running.until_told("bad", "nan", reason="SchedulerError")
        assert "cannot divide by zero pods" in told["bad"]
        assert "NaN" in told["nan"]
        assert ("bad", told["bad"]) in await running.events("FailedScheduling")
        await running.create(pod("good", requests={"cpu": "3"}))
        await running.until(lambda found: bound(found, "good"))

    async def main() -> None:
        async with (
            cluster_of(lab, node("one", cpu="16"), node("two", cpu="16")),
            scheduling(lab, policy="broken") as running,
        ):
            await live(running)

    asyncio.run(main())
