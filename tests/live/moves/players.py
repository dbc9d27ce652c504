"""Kubelets and training jobs as a test plays them, on any API server, and what truly happened to each job.

Nobody here knows anything of Foresail but what a job sees of it: a folder on a shared volume. Nodes are objects without
a kubelet; `Kubelets` says of their pods what a kubelet would, and lets a `Trainer` train in each.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, Self

from foresail.kube.api.client import Client
from foresail.kube.api.errors import ClusterError, NotFound
from foresail.kube.api.watch import Watch
from foresail.workloads.checkpoint import FencedOff

Object = dict[str, Any]
PODS = "/api/v1/pods"


@dataclass
class Saved:
    """A checkpoint that a trainer has put in place."""

    at_s: float
    step: int
    request: str
    """The request that it answers, "sigterm", or empty."""


@dataclass
class Stay:
    """One pod's time as a trainer."""

    job: str
    uid: str
    node: str
    begun_s: float
    first_step: int
    on_disk: int
    """Step of the checkpoint that it found."""
    last_step: int = 0
    saved: list[Saved] = field(default_factory=list)
    ended_s: float | None = None
    exit_code: int | None = None
    fenced: bool = False
    """Whether it left because another had taken its place."""


@dataclass
class Volume:
    """The shared volume as jobs see it: who may write, and whether it is full."""

    root: Path
    is_full: bool = False

    def folder(self, job: str) -> Path:
        made = self.root / job
        made.mkdir(parents=True, exist_ok=True)
        return made

    def checkpoints(self, folder: Path, uid: str) -> Checkpoints:
        """A job's checkpoints, taken over for a pod."""
        return PlainCheckpoints(self, folder, uid)

    def write(self, path: Path, text: str) -> None:
        """Put a file in place whole."""
        self.check()
        beside = path.with_suffix(".new")
        beside.write_text(text, encoding="utf-8")
        beside.rename(path)

    def append(self, path: Path, text: str) -> None:
        self.check()
        with path.open("ab") as rows:
            rows.write(text.encode())

    def check(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


class Checkpoints(Protocol):
    """Where a trainer keeps its checkpoints."""

    def newest(self) -> int:
        """Step of the newest one; 0 without any."""

    def save(self, step: int) -> None:
        """Put one in place; OSError if the volume refuses, FencedOff if the job is another's by now."""


class PlainCheckpoints:
    """A file with the step, and a fence as the contract says."""

    def __init__(self, volume: Volume, folder: Path, uid: str) -> None:
        self._volume = volume
        self._folder = folder
        self._uid = uid
        with contextlib.suppress(OSError):
            volume.write(folder / "fence", uid)

    def newest(self) -> int:
        return int(_text(self._folder / "checkpoint") or 0)

    def save(self, step: int) -> None:
        holder = _text(self._folder / "fence")
        if holder not in {"", self._uid}:
            raise FencedOff(self._folder, holder)
        self._volume.write(self._folder / "checkpoint", str(step))


@dataclass
class Habits:
    """How a job's trainer behaves."""

    step_s: float = 0.2
    total: int = 1_000_000
    checkpoint_every: int = 10
    heeds_sigterm: bool = True
    answers: bool = True
    """Whether it looks for requests for checkpoints."""
    answers_after: int = 0
    """How many steps it takes until a request is answered."""
    leaves_after_s: float = 0.0
    """How long it trains on after SIGTERM before it heeds it."""
    reports: bool = True
    ends_on_sigterm: bool = False
    """Whether it happens to finish all its work in its grace period."""
    corrupt_row_at: int = -1
    """At this step it writes half a row."""


@dataclass
class History:
    """What truly happened, for the judge."""

    stays: list[Stay] = field(default_factory=list)

    def of(self, job: str) -> list[Stay]:
        return [stay for stay in self.stays if stay.job == job]


class Trainer:
    """Trains in one pod: resumes, reports, checkpoints, and leaves as the contract says."""

    def __init__(
        self,
        pod: Object,
        job: str,
        volume: Volume,
        habits: Habits,
        history: History,
        now_s: Callable[[], float],
    ) -> None:
        self.terminated = asyncio.Event()
        """SIGTERM has come."""
        self._uid = pod["metadata"]["uid"]
        self._habits = habits
        self._volume = volume
        self._now_s = now_s
        self._folder = volume.folder(f"{pod['metadata']['namespace']}/{job}")
        self._rows = self._folder / "progress.csv"
        self._checkpoints = volume.checkpoints(self._folder, self._uid)
        self.step = self._checkpoints.newest()
        self._confirmed = ""
        self._asked_at: dict[str, int] = {}
        self._told_s = 0.0
        self.stay = Stay(
            job,
            self._uid,
            pod["spec"]["nodeName"],
            now_s(),
            first_step=self.step,
            on_disk=self.step,
            last_step=self.step,
        )
        history.stays.append(self.stay)

    async def run(self) -> int:
        """Train to an end; returns the exit code. Cancelled: SIGKILL."""
        try:
            code = await self._train()
            self.stay.exit_code = code
            return code
        finally:
            self.stay.ended_s = self._now_s()

    async def _train(self) -> int:
        with contextlib.suppress(OSError):
            if self._habits.reports and not self._rows.exists():
                self._volume.append(self._rows, "time,step,total,loss,accuracy,note\n")
        self._report("resume" if self.step else "")
        while self.step < self._habits.total:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._habits.step_s):
                    await self.terminated.wait()
            if self._is_to_leave():
                if self._habits.ends_on_sigterm:
                    self.step = self._habits.total
                    break
                return 75 if not self._checkpoint("sigterm") and self.stay.fenced else 143
            if self.terminated.is_set():
                await asyncio.sleep(self._habits.step_s)
            self.step += 1
            self.stay.last_step = self.step
            self._report("")
            wanted = self._wanted()
            if wanted or self.step % self._habits.checkpoint_every == 0:
                if self._checkpoint(wanted):
                    self._confirmed = wanted or self._confirmed
                elif self.stay.fenced:
                    return 75
        self._checkpoint("")
        self._report("done")
        return 0

    def _is_to_leave(self) -> bool:
        if not self.terminated.is_set() or not self._habits.heeds_sigterm:
            return False
        self._told_s = self._told_s or self._now_s()
        return self._now_s() >= self._told_s + self._habits.leaves_after_s

    def _wanted(self) -> str:
        """A request that is to be answered at this step; empty for none."""
        wanted = self._read("checkpoint-request") if self._habits.answers else ""
        if not wanted or wanted == self._confirmed:
            return ""
        asked_at = self._asked_at.setdefault(wanted, self.step)
        return wanted if self.step >= asked_at + self._habits.answers_after else ""

    def _checkpoint(self, request: str) -> bool:
        """Whether there is a checkpoint of this step on disk now."""
        try:
            self._checkpoints.save(self.step)
        except FencedOff:
            self.stay.fenced = True
            return False
        except OSError:
            return False
        self.stay.saved.append(Saved(self._now_s(), self.step, request))
        self._report(f"checkpoint:{request}")
        return True

    def _report(self, note: str) -> None:
        if not self._habits.reports:
            return
        row = f"{self._now_s():.3f},{self.step},{self._habits.total},{1.0 / (1 + self.step):.6f},,{note}\n"
        if self.step == self._habits.corrupt_row_at and not note:
            row = row[: len(row) // 2] + "\0\n"
        with contextlib.suppress(OSError):
            self._volume.append(self._rows, row)

    def _read(self, name: str) -> str:
        return _text(self._folder / name)


class Kubelets:
    """The kubelets of all nodes of a run, played: pods run, get SIGTERM, are killed after their grace, and go."""

    def __init__(
        self,
        api: Client,
        volume: Volume,
        *,
        now_s: Callable[[], float],
        job_of: Callable[[Object], str],
        habits: dict[str, Habits] | None = None,
        **query: str,
    ) -> None:
        """`job_of` names the job that a pod trains; `habits` are by that name."""
        self.history = History()
        self.lost: set[str] = set()
        """Nodes whose kubelet is heard of no more."""
        self.full: set[str] = set()
        """Nodes whose kubelet takes no pod."""
        self.slow: set[str] = set()
        """Nodes whose kubelet does not get round to start a pod."""
        self._api = api
        self._volume = volume
        self._now_s = now_s
        self._job_of = job_of
        self._habits = {} if habits is None else habits
        self._pods: dict[str, asyncio.Task[None]] = {}
        self._trainers: dict[str, tuple[Trainer, asyncio.Task[int]]] = {}
        self._dying: dict[str, asyncio.Event] = {}
        self._watch = Watch(api, PODS, self, **query)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch.run())
        await self._watch.ready()
        return self

    async def __aexit__(self, *_error: object) -> None:
        tasks = [task for task in (self._task, *self._pods.values()) if task is not None]
        tasks += [task for _, task in self._trainers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def training(self) -> list[Stay]:
        """Who trains at this moment."""
        return [stay for stay in self.history.stays if stay.ended_s is None]

    # --- what the API server tells ---------------------------------------------------------------------------------

    def replace(self, items: list[Object]) -> None:
        for item in items:
            self.apply("MODIFIED", item)

    def apply(self, kind: str, pod: Object) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if kind == "DELETED":
            self._kill(uid)
            return
        if not node or node in self.lost:
            return
        phase = (pod.get("status") or {}).get("phase", "Pending")
        if "deletionTimestamp" in pod["metadata"]:
            self._dying.setdefault(uid, asyncio.Event()).set()
            if uid not in self._pods:
                self._pods[uid] = asyncio.create_task(self._remove(pod))
        elif uid not in self._pods and phase in {"Pending", "Running"}:
            self._pods[uid] = asyncio.create_task(self._live(pod))

    def lose(self, node: str) -> None:
        """The machine is gone, with all that ran on it."""
        self.lost.add(node)
        for uid, (trainer, _) in list(self._trainers.items()):
            if trainer.stay.node == node:
                self._kill(uid)

    def _kill(self, uid: str) -> None:
        task = self._pods.get(uid)
        found = self._trainers.pop(uid, None)
        if found is not None:
            found[1].cancel()
        if task is not None and (found is not None or not task.done()):
            task.cancel()

    # --- a pod's life ----------------------------------------------------------------------------------------------

    async def _live(self, pod: Object) -> None:
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        if spec["nodeName"] in self.full:
            refused = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
            await self._say(pod, refused)
            return
        dying = self._dying.setdefault(uid, asyncio.Event())
        while spec["nodeName"] in self.slow:
            await asyncio.sleep(0.1)
            if dying.is_set():
                await self._remove(pod)
                return
        started = datetime.fromtimestamp(self._now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        running = [{"state": {"running": {"startedAt": started}}, "ready": True}]
        await self._say(pod, {"phase": "Running", "startTime": started}, running, ready=True)
        job = self._job_of(pod)
        trainer = Trainer(pod, job, self._volume, self._habits.get(job, Habits()), self.history, self._now_s)
        work = asyncio.create_task(trainer.run())
        self._trainers[uid] = (trainer, work)
        leaving = asyncio.create_task(dying.wait())
        try:
            await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
            while spec.get("restartPolicy") == "Always" and work.done() and not dying.is_set():
                trainer = Trainer(pod, job, self._volume, self._habits.get(job, Habits()), self.history, self._now_s)
                work = asyncio.create_task(trainer.run())
                self._trainers[uid] = (trainer, work)
                await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                trainer.terminated.set()
                await asyncio.wait([work], timeout=float(spec.get("terminationGracePeriodSeconds", 30)))
            if not work.done():
                work.cancel()
                await asyncio.wait([work])
        finally:
            leaving.cancel()
            work.cancel()
        self._trainers.pop(uid, None)
        code = 137 if work.cancelled() else work.result()
        ended = [{"state": {"terminated": {"exitCode": code}}, "ready": False}]
        await self._say(pod, {"phase": "Failed" if code else "Succeeded"}, ended, ready=False)
        if dying.is_set():
            await self._remove(pod)
        else:
            await dying.wait()
            await self._remove(pod)

    async def _remove(self, pod: Object) -> None:
        await self._insist(
            lambda: self._api.delete(
                _path(pod), {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
            )
        )

    async def _say(
        self, pod: Object, status: Object, containers: list[Object] | None = None, *, ready: bool = False
    ) -> None:
        about = [
            {"name": "main", "image": "none", "imageID": "none", "restartCount": 0, **one} for one in containers or ()
        ]
        said = {
            **status,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            **({"containerStatuses": about} if about else {}),
        }
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": said}
        await self._insist(lambda: self._api.patch(f"{_path(pod)}/status", body))

    async def _insist(self, act: Callable[[], Any]) -> None:
        while True:
            try:
                await act()
            except NotFound:
                return
            except ClusterError as error:
                if getattr(error, "status", 0) in {404, 409, 422}:
                    return
                await asyncio.sleep(0.2)
            else:
                return


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
