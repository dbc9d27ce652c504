"""Used CPU, as the metrics API tells it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.live.api_server import ApiServer
from tests.live.telemetry.reporting import NOW_S, Reporting

from foresail.core.control import CPU_USED_MILLI, CPU_USED_S
from foresail.kube.api.errors import NotFound
from foresail.live.telemetry.cpu import CpuBook
from foresail.live.telemetry.metrics_api import MetricsApiCpu, read_metrics, seconds_in


def item(name: str, *used: str, at_s: float = NOW_S, window: str = "15.5s", namespace: str = "team") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "timestamp": datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z"),
        "window": window,
        "containers": [{"name": str(n), "usage": {"cpu": cpu, "memory": "1Ki"}} for n, cpu in enumerate(used)],
    }


def test_an_item_is_the_sum_of_its_containers():
    assert read_metrics(item("p", "12345678n", "1m", "2")) == ("team/p", 2013.345678, NOW_S, 15.5)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15.0), ("1m5.5s", 65.5), ("1h0m0s", 3600.0), ("100ms", 0.1), ("30m", 1800.0), ("7µs", 7e-6)],
)
def test_durations_are_gos(text, seconds):
    assert seconds_in(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "15", "s", "1d", "15s later", "-3s"])
def test_what_is_no_duration_is_an_error(text):
    with pytest.raises(ValueError, match="is no duration"):
        seconds_in(text)


def test_pods_of_ours_are_read_and_those_that_had_their_names_before_are_not(server, virtual):
    one, told = Reporting(), ApiServer()
    uid = one.run("p", began_s=NOW_S - 100)
    again = one.run("set-0", began_s=NOW_S - 10)
    one.run("starting")
    for value in (
        item("p", "500m"),
        item("set-0", "4", at_s=NOW_S - 3),
        item("starting", "1"),
        item("stranger", "1"),
        item("p", "1", namespace="other"),
        {"metadata": {"name": "damaged"}},
    ):
        told.objects["pods"][f"{value['metadata'].get('namespace')}/{value['metadata']['name']}"] = value

    async def story() -> tuple[int, str, list[float | None]]:
        async with server(told) as api:
            book, source = CpuBook(), MetricsApiCpu(api, one.jobs)
            known = await source.look(book)
            return known, source.problem, [book.reading(one_uid, CPU_USED_S) for one_uid in (uid, again)]

    assert virtual(story()) == (1, "1 pods of /apis/metrics.k8s.io/v1beta1/pods cannot be read", [50.0, None])


def test_a_cluster_without_it_is_told_so(server, virtual):
    one = Reporting()

    async def story() -> None:
        async with server(ApiServer(lambda *_: 404)) as api:
            await MetricsApiCpu(api, one.jobs).look(CpuBook())

    with pytest.raises(NotFound, match=r"GET /apis/metrics.k8s.io/v1beta1/pods: 404"):
        virtual(story())
    assert CpuBook().reading("x", CPU_USED_MILLI) is None
