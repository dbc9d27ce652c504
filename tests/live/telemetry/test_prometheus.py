"""Used CPU, as a Prometheus tells it: what is asked, what is taken from the answer, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.live.telemetry.reporting import NOW_S, Reporting

from foresail.core.control import CPU_USED_MILLI, CPU_USED_S
from foresail.errors import OptionError
from foresail.live.telemetry.cpu import CpuBook, CpuSourceError
from foresail.live.telemetry.prometheus import PrometheusCpu, check_prometheus, query

UID = "0a1b-2c3d"
SYSTEMD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b_2c3d.slice/cri-1.scope"


def series(used_s: float, at_s: float = NOW_S, pod: str = "p", **labels: str) -> dict[str, Any]:
    metric = {"namespace": "team", "pod": pod, "container": "main", "id": SYSTEMD, "name": "1", **labels}
    return {"metric": metric, "values": [[at_s - 30, "0.5"], [at_s, str(used_s)]]}


def success(*found: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(found)}}


class Prom:
    """What answers like a Prometheus; what it answers is the test's."""

    def __init__(self) -> None:
        self.answer: Callable[[], web.Response] = lambda: web.json_response(success())
        self.asked: list[tuple[str, str | None]] = []

    async def __call__(self, request: web.Request) -> web.Response:
        assert (request.method, request.path) == ("POST", "/prefix/api/v1/query")
        self.asked.append(((await request.post())["query"], request.headers.get("Authorization")))
        return self.answer()


def ask(one: Reporting, server: Any, told: Prom, *answers: Any, **more: Any) -> tuple[CpuBook, list[int]]:
    async def story() -> tuple[CpuBook, list[int]]:
        async with server(told) as api:
            book, known = CpuBook(), []
            source = PrometheusCpu(f"{api.connection.url}/prefix/", one.jobs, **more)
            for answer in answers:
                told.answer = answer if callable(answer) else lambda: web.json_response(answer)  # noqa: B023 - at once
                known.append(await source.look(book))
            return book, known

    return asyncio.run(story())


@pytest.fixture
def one() -> Reporting:
    reporting = Reporting()
    reporting.run("p", uid=UID, began_s=NOW_S - 100)
    return reporting


def test_series_of_a_pods_containers_are_summed_by_its_uid(one, server):
    told = Prom()
    other_pod = SYSTEMD.replace("0a1b", "ffff")
    damaged = ({"metric": {}}, {"metric": {"pod": "p"}, "values": []}, 7, {"values": [[1, "x"]], "metric": {}})
    first = success(
        series(5.0), series(2.0, container="side", name="2"), series(99.0, id=other_pod), series(9.0, pod="q"), *damaged
    )
    second = success(series(6.0, NOW_S + 20), series(2.0, NOW_S + 10, container="side", name="2"))
    book, known = ask(one, server, told, first, second)
    assert known == [1, 1]
    assert (book.reading(UID, CPU_USED_MILLI), book.reading(UID, CPU_USED_S)) == (50.0, 8.0)
    wanted = 'container_cpu_usage_seconds_total{namespace=~"team",pod!="",container!="",container!="POD"}[3m]'
    assert told.asked == [(wanted, None)] * 2


@pytest.mark.parametrize(
    ("labels", "at_s", "is_ours"),
    [
        ({"id": f"/kubepods/burstable/pod{UID}/abc"}, NOW_S, True),
        ({"id": "/kubepods/burstable/podffff-2c3d/abc"}, NOW_S, False),
        ({"id": ""}, NOW_S, True),
        ({"id": ""}, NOW_S - 101, False),
        ({"namespace": "other"}, NOW_S, False),
    ],
)
def test_series_of_a_pod_that_had_the_name_before_are_not_counted(one, server, labels, at_s, is_ours):
    assert ask(one, server, Prom(), success(series(5.0, at_s, **labels)))[1] == [int(is_ours)]


def test_a_container_that_restarted_counts_for_both(one, server):
    book, _ = ask(
        one,
        server,
        Prom(),
        success(series(5.0)),
        success(series(5.5, NOW_S + 10), series(1.0, NOW_S + 10, name="2", id=f"{SYSTEMD}x")),
        success(series(2.0, NOW_S + 20, name="2", id=f"{SYSTEMD}x")),
    )
    assert book.reading(UID, CPU_USED_S) == pytest.approx(7.5)


def test_a_container_that_two_endpoints_or_two_scrapers_tell_of_counts_once(one, server):
    resource = {"metric": {"namespace": "team", "pod": "p", "container": "main"}, "values": [[NOW_S, "5.25"]]}
    both = success(resource, series(5.0), series(4.5, replica="b"))
    assert ask(one, server, Prom(), both)[0].reading(UID, CPU_USED_S) == 5.0
    assert ask(one, server, Prom(), success(resource, resource))[0].reading(UID, CPU_USED_S) == 5.25


def test_its_token_is_read_from_a_file_each_time(one, server, tmp_path: Path):
    file, told = tmp_path / "token", Prom()
    file.write_text("first\n")

    def next_token() -> web.Response:
        file.write_text("second\n")
        return web.json_response(success(series(1.0)))

    ask(one, server, told, next_token, next_token, token_file=file)
    assert [shown for _, shown in told.asked] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda: web.json_response({"status": "error", "error": "parse error"}, status=400), "parse error"),
        (lambda: web.Response(text="<html>", status=200), "200, and no answer of a Prometheus; is this its URL?"),
        (lambda: web.Response(status=401), "401, and no answer of a Prometheus"),
        (lambda: web.json_response([1]), "200, and no answer of a Prometheus"),
        (
            lambda: web.Response(status=302, headers={"Location": "http://elsewhere/"}),
            "302, and no answer of a Prometheus",
        ),
    ],
)
def test_what_is_no_answer_says_so(one, server, answer, why):
    with pytest.raises(CpuSourceError, match=why.replace("?", r"\?")):
        ask(one, server, Prom(), answer)


def test_nobody_there_and_a_missing_token_are_told(one, tmp_path):
    with pytest.raises(CpuSourceError, match=r"Cannot connect to host 127\.0\.0\.1:9"):
        asyncio.run(PrometheusCpu("http://127.0.0.1:9", one.jobs).look(CpuBook()))
    with pytest.raises(CpuSourceError, match="No such file"):
        asyncio.run(PrometheusCpu("http://127.0.0.1:9", one.jobs, token_file=tmp_path / "none").look(CpuBook()))


def test_of_many_namespaces_none_is_named():
    assert query(str(n) for n in range(51)) == (
        'container_cpu_usage_seconds_total{pod!="",container!="",container!="POD"}[3m]'
    )
    assert 'namespace=~"a|b"' in query(["b", "a", "b"])


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://x", "http://", "http://x?query=1"])
def test_what_is_no_url_is_refused(url):
    with pytest.raises(OptionError, match="write its URL, as in http://prometheus"):
        check_prometheus(url)
