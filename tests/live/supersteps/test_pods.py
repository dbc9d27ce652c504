"""Pods of a job that are lost while others change: what they are to have, and never more than the job has."""

import asyncio
from typing import Any

import numpy as np
import pytest
from tests.kube.scripted_server import serving
from tests.live.api_server import ApiServer

from foresail.controllers.supersteps.even import EvenSplit
from foresail.controllers.supersteps.feeds import LastValueFeed
from foresail.controllers.supersteps.planner import ShareGrid
from foresail.controllers.supersteps.splitter import JobSplitter
from foresail.forecast.runtime.generated import generate_profile
from foresail.forecast.runtime.monotone import MonotoneRuntime
from foresail.live.supersteps.job import GangJob, GangTask, JobFailedError
from foresail.live.supersteps.objects import task_pod
from foresail.live.supersteps.pods import GangPods
from foresail.live.supersteps.settings import GangSettings

NAMES = ("a", "b", "c")
GRID = ShareGrid(3, 100, 50, 900)
BOARD = "lease://default/job"


def job() -> GangJob:
    tasks = tuple(GangTask(name, "spin", 1.0) for name in NAMES)
    curves = MonotoneRuntime(generate_profile(NAMES)).curves(GRID.shares_milli)
    splitter = JobSplitter(NAMES, EvenSplit(GRID), LastValueFeed(3), curves, GRID)
    return GangJob("job", "run", tasks, np.ones((4, 3)), splitter, measures_penalty=False)


def running(made: GangJob, **cpu_milli: int) -> list[dict[str, Any]]:
    found = []
    for task in made.tasks:
        if task.name in cpu_milli:
            pod = task_pod("job", made.run, task, cpu_milli[task.name], 3, BOARD, GangSettings(image="i"))
            pod["metadata"]["uid"] = f"uid-{task.name}"
            found.append({**pod, "status": {"phase": "Running"}})
    return found


@pytest.mark.parametrize(
    ("there", "wanted", "sizes"),
    [
        ({"a": 300, "b": 300, "c": 300}, {"a": 300, "b": 300, "c": 300}, {}),
        # It was to give back, and others have grown since: it may not have again what it had.
        ({"a": 500, "c": 300}, {"a": 500, "b": 100, "c": 300}, {"b": 100}),
        # It was to grow, and one that was to give back has not.
        ({"a": 300, "c": 300}, {"a": 100, "b": 500, "c": 300}, {"b": 300}),
        ({"c": 300}, {"a": 500, "b": 100, "c": 300}, {"a": 500, "b": 100}),
        ({"a": 700}, {"a": 100, "b": 400, "c": 400}, {"b": 100, "c": 100}),
    ],
)
def test_lost_tasks_get_what_is_wanted_for_them_as_far_as_others_have_left_it(there, wanted, sizes):
    async def check() -> None:
        made, server = job(), ApiServer()
        server.put("pods", *running(made, **there))
        async with serving(server) as api:
            pods = GangPods(api, made, BOARD, GangSettings(image="i"))
            pods.sizes = dict.fromkeys(NAMES, 300)
            pods.uids = {name: f"uid-{name}" for name in NAMES}
            lost: list[str] = []
            await pods.size_lost(wanted, GRID, lost)
            assert lost == sorted(sizes)
            assert {name: pods.sizes[name] for name in lost} == sizes

    asyncio.run(check())


def test_pods_of_another_experiment_of_the_same_name_are_left_alone():
    async def check() -> None:
        made, server = job(), ApiServer()
        pods = running(made, a=300, b=300, c=300)
        pods[1]["metadata"]["annotations"]["foresail.dev/superstep-run"] = "other"
        server.put("pods", *pods)
        async with serving(server) as api:
            with pytest.raises(JobFailedError, match="with another experiment; give this one another name"):
                await GangPods(api, made, BOARD, GangSettings(image="i")).look_after()
        assert server.log == []

    asyncio.run(check())


def test_a_task_that_is_lost_again_and_again_ends_the_job_with_its_last_words():
    async def check() -> None:
        made, server = job(), ApiServer()
        (pod, *others) = running(made, a=300, b=300, c=300)
        ended = {"name": "task", "state": {"terminated": {"exitCode": 1, "message": "no stress-ng"}}}
        async with serving(server) as api:
            pods = GangPods(api, made, BOARD, GangSettings(image="i", attempts=2))
            pods.sizes = dict.fromkeys(NAMES, 300)
            server.put("pods", {**pod, "status": {"phase": "Failed", "containerStatuses": [ended]}}, *others)
            assert not await pods.look_after()
            server.put("pods", {**pod, "status": {"phase": "Failed", "containerStatuses": [ended]}})
            with pytest.raises(JobFailedError, match=r"task a was lost 2 times .* ended with 1 \(no stress-ng\)"):
                await pods.look_after()

    asyncio.run(check())
