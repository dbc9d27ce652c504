"""Options turn sources on in both programs, and controllers read what they bring."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.live.api_server import ApiServer
from tests.live.cluster import make_node, make_pod

from foresail.core.control import CPU_USED_MILLI, CPU_USED_S, LOSS, STEPS_DONE, STEPS_TOTAL, Action, View
from foresail.errors import OptionError
from foresail.live.control.program import ControlProgram, ControlSettings
from foresail.live.scheduler.run import RunSettings, SchedulerProgram
from foresail.live.serving.server import ServerSettings
from foresail.live.telemetry.checks import check_telemetry, cpu_sources
from foresail.live.telemetry.settings import TelemetrySettings

NO_FILE = "/none"
READ = (STEPS_DONE, STEPS_TOTAL, LOSS)
SUMMARY = "/api/v1/nodes/a/proxy/stats/summary"


class Reads:
    """A controller that does nothing but read, until it has read what it waits for."""

    every_s = 0.02

    def __init__(self, *names: str) -> None:
        self._names = names or READ
        self.seen: dict[str, tuple[float | None, ...]] = {}
        self.turn = asyncio.Event()

    def act(self, view: View) -> Sequence[Action]:
        self.seen = {uid: tuple(view.telemetry.reading(uid, name) for name in self._names) for uid in view.running}
        self.turn.set()
        return []

    async def until(self, reached: Callable[[dict[str, tuple[float | None, ...]]], bool]) -> None:
        async with asyncio.timeout(30):
            while not reached(self.seen):
                self.turn.clear()
                await self.turn.wait()


def program_of(kind: str, api: Any, controller: Reads, telemetry: TelemetrySettings, said: list[str]) -> Any:
    common: dict[str, Any] = {"leader_elect": False, "telemetry": telemetry, "server": ServerSettings(port=0)}
    more: dict[str, Any] = {"announce": said.append, "controllers": {"reads": controller}}
    if kind == "control":
        return ControlProgram(ControlSettings(controllers=(), **common), api, **more)
    return SchedulerProgram(RunSettings(**common), api, **more)


@pytest.mark.parametrize("kind", ["run", "control"])
def test_progress_in_a_folder_reaches_controllers_by_pod(server, tmp_path: Path, kind):
    told = ApiServer()
    told.put("nodes", make_node("a"))
    told.put("pods", make_pod("p", node="a", labels={"foresail.dev/job": "train"}), make_pod("q", node="a"))
    folder = tmp_path / "default/train"
    folder.mkdir(parents=True)
    (folder / "progress.csv").write_text("time,step,total,loss,accuracy,note\n1000,10,100,0.5,,\n")

    async def story() -> None:
        controller = Reads()
        async with server(told) as api:
            settings = TelemetrySettings(progress_dirs=(str(tmp_path),), progress_every_s=0.02)
            program = program_of(kind, api, controller, settings, [])
            task = asyncio.create_task(program.run())
            await controller.until(lambda seen: seen == {"uid-p": (10.0, 100.0, 0.5), "uid-q": (None, None, None)})
            told.drop("pods", "p")
            told.put("pods", make_pod("r", node="a", labels={"foresail.dev/job": "train"}))
            await controller.until(lambda seen: seen.get("uid-r") == (10.0, 100.0, 0.5))
            with (folder / "progress.csv").open("a") as file:
                file.write("1010,20,100,0.25,,\n")
            await controller.until(lambda seen: seen.get("uid-r") == (20.0, 100.0, 0.25))
            assert program.ready()["progress files"]() == ""
            program.stop()
            await task

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["run", "control"])
@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0"], ids=["own server", "second address"])
def test_progress_over_http_reaches_controllers_on_either_address(server, kind, address):
    told = ApiServer()
    told.put("nodes", make_node("a"))
    told.put("pods", make_pod("p", node="a", labels={"foresail.dev/job": "train"}))

    async def story() -> None:
        controller, said = Reads(), []
        async with server(told) as api, aiohttp.ClientSession() as session:
            program = program_of(kind, api, controller, TelemetrySettings(progress_address=address), said)
            task = asyncio.create_task(program.run())
            await controller.until(lambda seen: "uid-p" in seen)
            telemetry = program.telemetry if kind == "control" else program.live.telemetry
            own = next(text for text in said if text.startswith("health")).rpartition(" ")[2]
            async with asyncio.timeout(30):
                while address != "127.0.0.1:0" and not telemetry.receiver_url:
                    await asyncio.sleep(0)
            report = {"job": "train", "rows": [{"time": 1000, "step": 7, "total": 9, "loss": 0.5}]}
            async with session.post(f"{telemetry.receiver_url or own}/v1/progress", json=report) as answer:
                assert (answer.status, await answer.json()) == (200, {"checkpoint": ""})
            await controller.until(lambda seen: seen["uid-p"] == (7.0, 9.0, 0.5))
            assert telemetry.checkpoints.ask("default/train", "r1")
            async with session.get(f"{own}/metrics") as answer:
                assert 'foresail_progress_rows_total{source="http",verdict="taken"} 1.0' in await answer.text()
            async with session.get(f"{own}/readyz") as answer:
                assert (answer.status, "[+] progress http" in await answer.text()) == (200, True)
            program.stop()
            await task

    asyncio.run(story())


def test_used_cpu_reaches_controllers_from_the_source_that_is_there(server):
    """There is no metrics API on this cluster, so kubelets are asked."""
    told = ApiServer(lambda _method, path: 404 * ("metrics.k8s.io" in path))
    told.put("nodes", make_node("a"))
    told.put("pods", make_pod("p", node="a"))
    cpu = {"time": "2026-01-01T00:00:00Z", "usageCoreNanoSeconds": 2_500_000_000}
    told.texts[SUMMARY] = json.dumps({"pods": [{"podRef": {"uid": "uid-p"}, "cpu": cpu}]})

    async def story() -> None:
        controller = Reads(CPU_USED_MILLI, CPU_USED_S)
        async with server(told) as api:
            program = program_of("control", api, controller, TelemetrySettings(measure_cpu=True, cpu_every_s=0.02), [])
            task = asyncio.create_task(program.run())
            await controller.until(lambda seen: seen.get("uid-p") == (None, 2.5))
            later = cpu | {"time": "2026-01-01T00:00:10Z", "usageCoreNanoSeconds": 7_500_000_000}
            told.texts[SUMMARY] = json.dumps({"pods": [{"podRef": {"uid": "uid-p"}, "cpu": later}]})
            await controller.until(lambda seen: seen.get("uid-p") == (500.0, 7.5))
            assert program.ready()["telemetry"]() == ""
            program.stop()
            await task

    asyncio.run(story())


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            TelemetrySettings(progress_address="0.0.0.0:1234"),
            "--progress-address is 0.0.0.0:1234, which other machines can reach; give --tls-cert and --tls-key, or l",
        ),
        (TelemetrySettings(progress_address="nonsense"), '--progress-address is "nonsense"; write host and port'),
        (TelemetrySettings(progress_token_file=NO_FILE), "--progress-token-file is /none; there is no such file"),
        (TelemetrySettings(progress_token_file=__file__), "--progress-token-file needs --progress-address"),
        (TelemetrySettings(prometheus="prometheus:9090"), '--prometheus is "prometheus:9090"; write its URL'),
        (TelemetrySettings(cpu_sources=("prometheus",)), "there is no --prometheus; give the URL of one"),
        (TelemetrySettings(prometheus_token_file=__file__), "there is no --prometheus; give the URL of one"),
        (TelemetrySettings(cpu_sources=("kublet",)), 'no --cpu-source "kublet"; did you mean "kubelet"? there are'),
        (TelemetrySettings(tensorboard_dirs=("=x",)), '--tensorboard-dir is "=x"; write FOLDER'),
        (TelemetrySettings(progress_dirs=("team=",)), '--progress-dir is "team="; write FOLDER'),
    ],
)
def test_options_that_cannot_work_are_refused_before_anything_begins(settings, why):
    with pytest.raises(OptionError) as raised:
        check_telemetry(settings, ServerSettings())
    assert str(raised.value).startswith(why)


@pytest.mark.parametrize(
    ("settings", "sources"),
    [
        (TelemetrySettings(), ()),
        (TelemetrySettings(measure_cpu=True), ("metrics-api", "kubelet")),
        (TelemetrySettings(measure_cpu=True, prometheus="http://p"), ("metrics-api", "kubelet", "prometheus")),
        (TelemetrySettings(prometheus="http://p"), ("prometheus",)),
        (TelemetrySettings(cpu_sources=("kubelet", "metrics-api", "kubelet")), ("kubelet", "metrics-api")),
    ],
)
def test_used_cpu_is_read_in_a_fixed_order_or_the_one_that_is_given(settings, sources):
    assert tuple(cpu_sources(settings)) == sources


def test_beyond_loopback_progress_needs_tls_and_no_more(tmp_path):
    server = ServerSettings(certificate=tmp_path / "crt", key=tmp_path / "key")
    check_telemetry(TelemetrySettings(progress_address="0.0.0.0:1234"), server)
