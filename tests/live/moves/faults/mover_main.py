"""`foresail run` or `foresail control` with a controller that moves what it is told to, as a process of its own.

Started once; every line on standard input is the options of a process to be forked, whose id is the answer. So each
begins within a moment, and is one that can be killed.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from foresail.core.backoff import Backoff
from foresail.core.control import Action, Move, View
from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.kube.api.lease import LeaderSettings
from foresail.live.control.program import ControlProgram, ControlSettings
from foresail.live.moves.tools import MoveSettings
from foresail.live.program import run_until_signal
from foresail.live.scheduler.run import RunSettings, SchedulerProgram
from foresail.live.serving.server import ServerSettings
from foresail.live.telemetry.settings import TelemetrySettings

_AGAIN_S = 3.0


class ToldWhere:
    """Asks that pods whose name begins so go there, as a file says, for as long as they are elsewhere."""

    every_s = 0.5

    def __init__(self, told: Path) -> None:
        self._told = told
        self._asked_s: dict[str, float] = {}

    def act(self, view: View) -> Sequence[Action]:
        try:
            moves = json.loads(self._told.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        asks = []
        for uid, one in view.running.items():
            name = one.pod.name.rpartition("/")[2]
            target = next((node for start, node in moves.items() if name.startswith(start)), one.node)
            if target != one.node and view.now_s >= self._asked_s.get(str(uid), 0.0):
                self._asked_s[str(uid)] = view.now_s + _AGAIN_S
                asks.append(Move(one.pod, "so it was told", target))
        return asks


async def run(said: dict[str, Any]) -> None:
    controllers = {"told": ToldWhere(Path(said["told"]))}
    common: dict[str, Any] = {
        "scheduler_name": said["scheduler_name"],
        "leader_elect": True,
        "lease": LeaderSettings(**said["lease"]),
        "server": ServerSettings(port=0),
        "journal": Path(said["journal"]),
        "telemetry": TelemetrySettings(progress_dirs=(said["progress_dir"],), progress_every_s=said["look_s"]),
        "moves": MoveSettings(**said["moves"]),
    }
    async with Client(find_connection(Path(said["kubeconfig"])), timeout_s=said["timeout_s"]) as api:
        if said["beside"]:
            program: Any = ControlProgram(
                ControlSettings(controllers=(), **common), api, announce=_say, controllers=controllers
            )
        else:
            settings = RunSettings(backoff=Backoff(0.05, 0.4), **common)
            program = SchedulerProgram(settings, api, announce=_say, controllers=controllers)
        await run_until_signal(program)


def _say(what: str) -> None:
    print(what, flush=True)


def _become(said: dict[str, Any]) -> None:
    """Be the process that was asked for, to its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(said["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, to in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(number, to)
    code = 1
    try:
        uvloop.run(run(said))
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to be waited for
    gc.freeze()
    born = []
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
        born.append(child)
        print(child, flush=True)
    for child in born:  # whoever started all this is gone
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main()
