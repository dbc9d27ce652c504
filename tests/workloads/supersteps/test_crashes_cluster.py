"""Tasks and coordinators that crash anywhere, answers that are lost: every step is in the books once, and whole."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress

import pytest
from tests.workloads.supersteps.servers import WITHIN_S, Job, LeaseServer, ZooKeeperServer

from foresail.lab import Lab
from foresail.workloads.supersteps.board import (
    BoardTimeoutError,
    CoordinatorBoard,
    Finished,
    StoreTroubleError,
    TaskBoard,
    TaskReplacedError,
)
from foresail.workloads.supersteps.records import StepResult

pytestmark = pytest.mark.cluster
TASKS = ("a", "b", "c")
STEPS = 8
CRASH, LOST, ZOMBIE = 0.04, 0.04, 0.5
MEDDLED_S = 1e6


class CrashError(Exception):
    """The process is gone, in the middle of whatever it did."""


def crash_at_times(chance):
    if chance.random() < CRASH:
        raise CrashError


class ShakyStore:
    """A store whose every call may be the last one of its process, or lose its answer on the way."""

    def __init__(self, store, chance):
        self._store, self._chance, self.address = store, chance, store.address

    def __getattr__(self, name):
        call = getattr(self._store, name)
        if name == "close":
            return call

        def shaky(*arguments):
            self._maybe()
            answer = call(*arguments)
            self._maybe()
            return answer

        return shaky

    def _maybe(self):
        crash_at_times(self._chance)
        if self._chance.random() < LOST:
            raise StoreTroubleError("the answer was lost on its way")


class Story:
    """A job whose every part is started again when it crashes; the coordinator's books alone outlive it."""

    def __init__(self, server, seed):
        self.job, self.seed = Job(server), seed
        self.books: list[tuple[int, dict[str, StepResult]]] = []
        self.worked: dict[tuple[str, int, int], float] = {}
        self.crashes, self.failures = 0, []
        self.deadline = time.monotonic() + 2 * WITHIN_S

    def run(self):
        threads = [threading.Thread(target=self._guarded, args=(self._task, name)) for name in TASKS]
        threads.append(threading.Thread(target=self._guarded, args=(self._coordinator,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, self.deadline - time.monotonic()) + 10.0)
        self.job.close()
        assert (self.failures, [thread.name for thread in threads if thread.is_alive()]) == ([], [])

    def _guarded(self, part, *arguments):
        try:
            part(*arguments)
        except Exception as error:  # noqa: BLE001 - told by the test
            self.failures.append(error)

    def _lives(self, name):
        """One process after the other, each with chances of its own."""
        life = 0
        while time.monotonic() < self.deadline:
            yield life, random.Random(f"{self.seed} {name} {life}")  # noqa: S311 - no secret
            life += 1

    def _coordinator(self):
        for _life, chance in self._lives("coordinator"):
            store = ShakyStore(self.job.server.store(self.job.name), chance)
            try:
                with CoordinatorBoard(store, tell=self.job.told.append) as board:
                    while len(self.books) < STEPS:
                        step = len(self.books)
                        board.open(step, dict.fromkeys(TASKS, step + 0.5), WITHIN_S)
                        results = board.wait_for_all(step, TASKS, WITHIN_S)
                        crash_at_times(chance)
                        self.books.append((step, results))
                    board.finish("all done", WITHIN_S)
                    return
            except CrashError:
                self.crashes += 1

    def _task(self, name):
        zombies = []
        for life, chance in self._lives(name):
            store = ShakyStore(self.job.server.store(self.job.name), chance)
            board = self.job._kept(TaskBoard(store, name, pod_uid=f"{name}-{life}", tell=self.job.told.append))
            try:
                self._work(board, life, zombies)
                break
            except CrashError:
                self.crashes += 1
                # Some are not dead but cut off, and come back when another has their place.
                if chance.random() < ZOMBIE:
                    zombies.append(board)
                else:
                    board.close()
            except TaskReplacedError:
                self.failures.append(f"{name}-{life} was replaced by one that came before")
                return

    def _work(self, board, life, zombies):
        after = -1
        while not isinstance(found := board.await_step(after, WITHIN_S), Finished):
            assert found.workload == found.step + 0.5
            while zombies:
                self._try_to_meddle(zombies.pop(), found.step)
            seconds = life + found.step / 100
            self.worked[board.task, found.step, life] = seconds
            board.report(StepResult(board.task, found.step, seconds, 1, 1.0, 2.0), WITHIN_S)
            after = found.step

    def _try_to_meddle(self, zombie, step):
        """Somebody has its place, so that what it reports is never taken."""
        with zombie, suppress(CrashError, BoardTimeoutError), pytest.raises(TaskReplacedError):
            zombie.report(StepResult(zombie.task, step, MEDDLED_S, 1, 1.0, 2.0), WITHIN_S)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    base = tmp_path_factory.mktemp("labs")
    with Lab("crash", base=base, scheduler=False, controllers=False, zookeeper=True) as lab:
        yield {"lease": LeaseServer(lab), "zookeeper": ZooKeeperServer(lab)}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["lease", "zookeeper"])
def test_every_step_is_in_the_books_once_whoever_crashes(servers, kind, seed):
    story = Story(servers[kind], seed)
    story.run()
    assert [step for step, _results in story.books] == list(range(STEPS))
    for step, results in story.books:
        assert sorted(results) == list(TASKS)
        for task, result in results.items():
            done = {seconds for (name, at, _life), seconds in story.worked.items() if (name, at) == (task, step)}
            assert (result.task, result.step, result.seconds in done) == (task, step, True)
    assert story.crashes > 0, "nothing happened: another seed tells more"
