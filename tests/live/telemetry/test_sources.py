"""Options turn sources on in both programs, and controllers read what they bring."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.live.api_server import ApiServer
from tests.live.cluster import make_node, make_pod

from foresail.core.control import LOSS, STEPS_DONE, STEPS_TOTAL, Action, View
from foresail.live.control.program import ControlProgram, ControlSettings
from foresail.live.scheduler.run import RunSettings, SchedulerProgram
from foresail.live.serving.server import ServerSettings
from foresail.live.telemetry.settings import TelemetrySettings

READ = (STEPS_DONE, STEPS_TOTAL, LOSS)


class Reads:
    """A controller that does nothing but read, until it has read what it waits for."""

    every_s = 0.02

    def __init__(self) -> None:
        self.seen: dict[str, tuple[float | None, ...]] = {}
        self.turn = asyncio.Event()

    def act(self, view: View) -> Sequence[Action]:
        self.seen = {uid: tuple(view.telemetry.reading(uid, name) for name in READ) for uid in view.running}
        self.turn.set()
        return []

    async def until(self, reached: Callable[[dict[str, tuple[float | None, ...]]], bool]) -> None:
        async with asyncio.timeout(30):
            while not reached(self.seen):
                self.turn.clear()
                await self.turn.wait()


def program_of(kind: str, api: Any, controller: Reads, telemetry: TelemetrySettings) -> Any:
    common: dict[str, Any] = {"leader_elect": False, "telemetry": telemetry, "server": ServerSettings(port=0)}
    more: dict[str, Any] = {"announce": lambda _: None, "controllers": {"reads": controller}}
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
            program = program_of(kind, api, controller, settings)
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
