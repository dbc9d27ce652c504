"""Moves on a small API server in virtual time: a program that moves, owners, kubelets and training jobs."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from tests.live.api_server import ApiServer
from tests.live.cluster import make_node, make_pod
from tests.live.moves.players import Habits, Kubelets, Stay, Volume
from tests.live.scheduler.test_scheduler import LoopClock

from foresail.core.backoff import Backoff
from foresail.core.control import Action, Move, View
from foresail.live.control.program import ControlProgram, ControlSettings
from foresail.live.moves.record import MovePhase
from foresail.live.moves.tools import MoveSettings
from foresail.live.scheduler.run import RunSettings, SchedulerProgram
from foresail.live.telemetry.settings import TelemetrySettings

Object = dict[str, Any]
JOB = "foresail.dev/job"


class MoveOnce:
    """Moves the pods that it is told to, once each, when it is told to begin."""

    every_s = 1.0

    def __init__(self, moves: dict[str, str]) -> None:
        self.moves = dict(moves)
        """Pod to the node that it is to go to."""
        self.begins = False

    def act(self, view: View) -> Sequence[Action]:
        if not self.begins:
            return []
        there = {one.pod.name.removeprefix("default/"): one for one in view.running.values()}
        now = {name: node for name, node in self.moves.items() if name in there}
        for name in now:
            del self.moves[name]
        return [Move(there[name].pod, "because", node) for name, node in now.items()]


def make_job(name: str, **spec: Any) -> Object:
    """A Job that can be moved: it starts no second pod beside the first, and does not count evictions."""
    ignore = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "backoffLimit": 6,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": ignore},
            "template": {"spec": {"containers": make_pod("x", "1")["spec"]["containers"]}},
            **spec,
        },
        "status": {},
    }


def owned_by(owner: Object, kind: str, pod: Object, **labels: str) -> Object:
    version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    metadata = pod["metadata"]
    metadata["ownerReferences"] = [
        {"apiVersion": version, "kind": kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        | {"controller": True}
    ]
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    return pod


class Owner:
    """Makes a pod whenever the last one has gone, as owners do."""

    def __init__(
        self, told: ApiServer, pod: Object, *, names: Callable[[int], str], after_s: float = 1.0, at_once: bool = False
    ) -> None:
        """`at_once`: already while the last one still ends."""
        self._told = told
        self._pod = copy.deepcopy(pod)
        for part in ("nodeName",):
            self._pod["spec"].pop(part, None)
        self._names = names
        self._after_s = after_s
        self._at_once = at_once
        self.current = pod["metadata"]["name"]
        self.made = 0
        self.stops = False

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            there = self._told.objects["pods"].get(self.current)
            leaving = there is not None and self._at_once and "deletionTimestamp" in there["metadata"]
            done = there is not None and there["status"].get("phase") == "Succeeded"
            if self.stops or done or not (there is None or leaving):
                if done:
                    return
                continue
            await asyncio.sleep(self._after_s)
            self.made += 1
            self.current = self._names(self.made)
            made = copy.deepcopy(self._pod)
            made["metadata"] |= {"name": self.current, "uid": f"uid-{self.current}-{self.made}"}
            made["status"] = {"phase": "Pending"}
            self._told.put("pods", made)


class Stage:
    """One story."""

    def __init__(self, tmp_path: Path, moves: dict[str, str], **settings: Any) -> None:
        self.told = ApiServer()
        self.told.has_kubelets = True
        self.controller = MoveOnce(moves)
        self.volume = Volume(tmp_path / "volume")
        (self.volume.root / "default").mkdir(parents=True)
        self.habits: dict[str, Habits] = {}
        self.owners: list[Owner] = []
        self.journal = tmp_path / "journal.jsonl"
        self.kubelets: Kubelets
        self.programs: list[Any] = []
        self.phases: list[tuple[str, str]] = []
        """Every phase that was written down, with the record's name."""
        self.kill_at = "never"
        """The phase at whose writing down the first program is killed; it does not get the answer."""
        self.killed = asyncio.Event()
        self._settings = settings
        self._clock = LoopClock()
        self._tasks: list[asyncio.Task[None]] = []

    # --- the cluster -----------------------------------------------------------------------------------------------

    def put(self, plural: str, *values: Object) -> None:
        self.told.put(plural, *values)

    def nodes(self, *names: str, cpu: str = "4") -> None:
        self.put("nodes", *(make_node(name, cpu) for name in names))

    def pod(self, name: str, cpu: str = "1", node: str = "a", job: str = "", **more: Any) -> Object:
        labels = {**({JOB: job} if job else {}), **more.pop("labels", {})}
        return make_pod(name, cpu, node, labels=labels, phase=more.pop("phase", "Pending"), **more)

    def owner(self, pod: Object, **how: Any) -> Owner:
        """Somebody who makes this pod again and again; the first one is there."""
        self.put("pods", pod)
        made = Owner(self.told, pod, **{"names": lambda at: f"{pod['metadata']['name']}-{at}", **how})
        self.owners.append(made)
        return made

    def node_of(self, name: str) -> str:
        return self.told.node_of(name)

    @property
    def pods(self) -> dict[str, str]:
        """Pod to node."""
        return {name: one["spec"].get("nodeName", "") for name, one in self.told.objects["pods"].items()}

    @property
    def records(self) -> list[Object]:
        return [json.loads(one["data"]["move.json"]) for one in self.told.objects["configmaps"].values()]

    # --- the story -------------------------------------------------------------------------------------------------

    def tell(self, server: Any, virtual: Any, story: Callable[[], Awaitable[None]], *, alone: bool = False) -> None:
        """Run a story: the program is at work, pods have begun to train, and the controller is about to begin."""

        async def all_of_it() -> None:
            self._watch_records()
            async with server(self.told) as own, server(self.told) as api:
                kubelets = Kubelets(
                    own, self.volume, now_s=lambda: self._clock.now() + self.epoch_s, job_of=_job, habits=self.habits
                )
                self.kubelets = kubelets
                tasks = [asyncio.create_task(owner.run()) for owner in self.owners]
                first = self.start(api, alone=alone)
                async with kubelets:
                    await asyncio.sleep(20)
                    self.controller.begins = True
                    await story()
                    await first.stop()
                for task in [*tasks, *self._tasks]:
                    task.cancel()
                await asyncio.gather(*tasks, *self._tasks, return_exceptions=True)

        virtual(all_of_it())

    @property
    def epoch_s(self) -> float:
        return float(self.programs[0].steering_epoch_s)

    def start(self, api: Any, *, alone: bool = False, **more: Any) -> Running:
        running = Running(self._program(api, alone=alone, **more), alone=alone)
        self.programs.append(running)
        return running

    def _program(self, api: Any, *, alone: bool, **more: Any) -> Any:
        common: dict[str, Any] = {
            "leader_elect": False,
            "journal": self.journal,
            "telemetry": TelemetrySettings(progress_dirs=(str(self.volume.root),), progress_every_s=1.0),
            "moves": MoveSettings(**self._settings),
            **more,
        }
        about: dict[str, Any] = {
            "announce": lambda _: None,
            "clock": self._clock,
            "controllers": {"test": self.controller},
        }
        if alone:
            return ControlProgram(ControlSettings(controllers=(), **common), api, **about)
        return SchedulerProgram(RunSettings(backoff=Backoff(1.0, 1.0), **common), api, **about)

    def _watch_records(self) -> None:
        tell = self.told._tell

        def noting(plural: str, kind: str, value: Object) -> Object:
            if plural == "configmaps":
                phase = "" if kind == "DELETED" else json.loads(value["data"]["move.json"])["phase"]
                if not self.phases or self.phases[-1][1] != phase:
                    self.phases.append((value["metadata"]["name"], phase))
                    if phase == self.kill_at and not self.killed.is_set():
                        self.killed.set()
                        self.programs[0].kill_now()
            return tell(plural, kind, value)

        self.told._tell = noting  # type: ignore[method-assign]

    async def until(self, reached: Callable[[], object], within_s: float = 300.0) -> None:
        waited_s = 0.0
        while not reached():
            for running in self.programs:
                running.check()
            assert waited_s < within_s, f"not within {within_s} s: {self.pods} {self.records} {self.noted}"
            await asyncio.sleep(0.25)
            waited_s += 0.25

    async def until_phase(self, phase: MovePhase) -> None:
        await self.until(lambda: any(one["phase"] == phase.value for one in self.records))

    # --- what came of it -------------------------------------------------------------------------------------------

    @property
    def noted(self) -> list[tuple[str, str, str, str]]:
        lines = map(json.loads, self.journal.read_text().splitlines())
        kinds = {"move", "moved", "decline"}
        return [
            (one["what"], one["pod"].removeprefix("default/"), one["node"], one["detail"])
            for one in lines
            if one["what"] in kinds
        ]

    def stays(self, job: str) -> list[Stay]:
        return self.kubelets.history.of(job)


class Running:
    """A program at work."""

    def __init__(self, program: Any, *, alone: bool) -> None:
        self.program = program
        program._server = None  # nobody asks it, and it looks at the time ten times a second
        self.steering = program.steering if alone else program.live.steering
        self.steering_epoch_s = self.steering._epoch_s
        self._task = asyncio.create_task(program.run())
        self._was_killed = False

    @property
    def moves(self) -> Any:
        return self.steering.moves

    def check(self) -> None:
        """Raise what it broke on."""
        if self._task.done() and not self._was_killed:
            self._task.result()

    async def stop(self) -> None:
        if self._was_killed:
            return
        self.program.stop()
        await self._task

    def kill_now(self) -> None:
        """As SIGKILL does: nothing is finished, nothing is told."""
        self._was_killed = True
        for task in (self._task, *self.moves.tasks.values(), *self.steering.resizes.tasks.values()):
            task.cancel()


def _job(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(JOB) or pod["metadata"]["name"])
