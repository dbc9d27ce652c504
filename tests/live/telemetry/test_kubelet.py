"""Used CPU, as kubelets' summaries tell it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.live.api_server import ApiServer
from tests.live.telemetry.reporting import NOW_S, Reporting

from foresail.core.control import CPU_USED_MILLI, CPU_USED_S
from foresail.live.telemetry.cpu import CpuBook, CpuSourceError
from foresail.live.telemetry.kubelet import KubeletCpu, pods_in

PATH = "/api/v1/nodes/a/proxy/stats/summary"


def summary(*pods: tuple[str, float, float]) -> str:
    """What a kubelet answers: uid, CPU-seconds and when, of each pod."""
    found = [
        {
            "podRef": {"name": "p", "namespace": "team", "uid": uid},
            "cpu": {"time": datetime.fromtimestamp(at_s, UTC).isoformat(), "usageCoreNanoSeconds": int(used_s * 1e9)},
        }
        for uid, used_s, at_s in pods
    ]
    return json.dumps({"node": {}, "pods": [*found, {"podRef": {"uid": "new"}}, {"cpu": {"time": "never"}}, 7]})


def test_used_cpu_is_the_mean_between_two_looks_and_counts_by_uid(server, virtual):
    one, told = Reporting(), ApiServer()
    uid = one.run("p")

    async def story() -> list[tuple[float | None, ...]]:
        async with server(told) as api:
            kubelets, book = KubeletCpu(api, one.jobs), CpuBook()
            seen = []
            for used_s, at_s in ((10.0, 1), (13.0, 11), (13.0, 11), (2.0, 21), (4.0, 31)):
                told.texts[PATH] = summary((uid, used_s, NOW_S + at_s), ("stranger", 1.0, NOW_S))
                assert await kubelets.look(book) == 1
                seen.append((book.reading(uid, CPU_USED_MILLI), book.reading(uid, CPU_USED_S)))
            assert kubelets.problem == ""
            assert len(book) == 1
            return seen

    # What counts from 0 again has used at least what it says since, and nothing is taken back.
    assert virtual(story()) == [(None, 10.0), (300.0, 13.0), (300.0, 13.0), (200.0, 15.0), (200.0, 17.0)]


def test_a_node_that_may_not_be_read_is_told_and_the_others_are_read(server, virtual):
    one, told = Reporting(), ApiServer(lambda _method, path: 403 * ("/nodes/b/" in path))
    uid = one.run("p")
    one.run("q", nodeName="b")
    pods = one.jobs.pods()
    pods[1].node = "b"
    told.texts[PATH] = summary((uid, 1.0, NOW_S))

    async def story() -> tuple[int, str]:
        async with server(told) as api:
            kubelets = KubeletCpu(api, one.jobs)
            return await kubelets.look(CpuBook()), kubelets.problem

    known, problem = virtual(story())
    assert known == 1
    assert problem.startswith("1 of 2 nodes: GET /api/v1/nodes/b/proxy/stats/summary?only_cpu_and_memory=true: 403")


def test_nodes_none_of_which_may_be_read_are_no_source(server, virtual):
    one, told = Reporting(), ApiServer(lambda *_: 403)
    one.run("p")

    async def story() -> None:
        async with server(told) as api:
            await KubeletCpu(api, one.jobs).look(CpuBook())

    with pytest.raises(CpuSourceError, match=r'resources: \["nodes/proxy"\], verbs: \["get"\]'):
        virtual(story())


@pytest.mark.parametrize("answer", [{}, {"pods": None}, {"pods": [{}, {"cpu": None}]}])
def test_a_summary_without_figures_is_empty(answer: Any):
    assert list(pods_in(answer)) == []
