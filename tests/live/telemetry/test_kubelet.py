"""CPU that pods use, as their kubelets tell it."""

from __future__ import annotations

from tests.live.api_server import ApiServer
from tests.live.cluster import make_cache, make_node, make_pod
from tests.live.scheduler.test_scheduler import LoopClock

from foresail.core.control import CPU_USED_MILLI, WORK_DONE_CPU_S
from foresail.live.telemetry.kubelet import KubeletCpu, pods_in

PATH = "/api/v1/nodes/a/proxy/metrics/resource"


def answer(used_s: float, at_ms: int) -> str:
    return (
        "# TYPE pod_cpu_usage_seconds_total counter\n"
        f'container_cpu_usage_seconds_total{{container="main",namespace="default",pod="p"}} 99 {at_ms}\n'
        f'pod_cpu_usage_seconds_total{{namespace="default",pod="p"}} {used_s} {at_ms}\n'
        f'pod_cpu_usage_seconds_total{{namespace="default",pod="stranger"}} 1 {at_ms}\n'
    )


def test_used_cpu_is_the_mean_between_two_looks_and_forgotten_with_the_pod(server, virtual):
    told = ApiServer()
    cache, _ = make_cache()
    cache.handler("Node").replace([make_node("a"), make_node("b")])
    cache.put_pod(make_pod("p", node="a"))
    cache.put_pod(make_pod("o", node="b", schedulerName="x"))

    async def story() -> list[float | None]:
        async with server(told) as api:
            kubelets = KubeletCpu(api, cache, LoopClock(), "foresail")
            seen = []
            for used_s, at_ms in ((10.0, 1000), (13.0, 11_000), (13.0, 11_000), (2.0, 21_000), (4.0, 31_000)):
                told.texts[PATH] = answer(used_s, at_ms)
                await kubelets.look()
                seen.append(kubelets.reading("uid-p", CPU_USED_MILLI))
            assert kubelets.problem == ""
            assert kubelets.reading("uid-p", WORK_DONE_CPU_S) is None
            cache.drop_pod("uid-p")
            await kubelets.look()
            seen.append(kubelets.reading("uid-p", CPU_USED_MILLI))
            return seen

    # A container that starts anew counts from 0 again, which is no negative use.
    assert virtual(story()) == [None, 300.0, 300.0, 300.0, 200.0, None]


def test_a_node_that_may_not_be_read_is_told_and_the_others_are_read(server, virtual):
    told = ApiServer(lambda _method, path: 403 * ("/nodes/b/" in path))
    cache, _ = make_cache()
    cache.handler("Node").replace([make_node("a"), make_node("b")])
    cache.put_pod(make_pod("p", node="a"))
    cache.put_pod(make_pod("q", node="b"))

    async def story() -> tuple[str, float | None]:
        async with server(told) as api:
            kubelets = KubeletCpu(api, cache, LoopClock(), "foresail")
            for used_s, at_ms in ((1.0, 1000), (2.0, 2000)):
                told.texts[PATH] = answer(used_s, at_ms)
                await kubelets.look()
            return kubelets.problem, kubelets.reading("uid-p", CPU_USED_MILLI)

    problem, used = virtual(story())
    assert "403" in problem
    assert used == 1000.0


def test_lines_without_a_time_are_read_as_of_now():
    assert list(pods_in('pod_cpu_usage_seconds_total{pod="p",namespace="n"} 1.5e-1')) == [("n/p", None, 0.15)]
