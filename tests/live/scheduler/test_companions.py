"""A policy that relies on a controller brings it along to a cluster, where it reads what real jobs report."""

import asyncio

from tests.live.api_server import ApiServer
from tests.live.cluster import make_node, make_pod
from tests.live.scheduler.test_scheduler import LoopClock

from foresail.live.scheduler.run import RunSettings, SchedulerProgram
from foresail.live.telemetry.settings import TelemetrySettings

LEAST = '[[scores]]\npolicy = "least-allocated"\n'
PROGRESS = '[[scores]]\npolicy = "progress"\n'


def job(name, node=None):
    pod = make_pod(name, "100m", node)
    pod["metadata"].setdefault("labels", {})["foresail.dev/job"] = name
    return pod


def test_a_new_job_goes_where_the_jobs_say_that_they_are_nearly_done(server, virtual, tmp_path):
    told, said, costs = ApiServer(), [], []

    def report(name, *steps):
        path = tmp_path / name / "progress.csv"
        if not path.exists():
            path.parent.mkdir()
            path.write_text("time,step,total,loss,accuracy,note\n")
        with path.open("a") as file:
            file.writelines(f"{1_700_000_000 + step},{step},100,,,\n" for step in steps)

    async def story():
        # Ties go to the first: without reports the new job would go to a.
        told.put("nodes", make_node("a", "4"), make_node("b", "4"))
        told.put("pods", job("young", "a"), job("old", "b"))
        report("young", 1)
        report("old", 98)
        async with server(told) as api:
            settings = RunSettings(
                policy="progress(every_s=2)",
                leader_elect=False,
                telemetry=TelemetrySettings(progress_dirs=(f"default={tmp_path}",)),
            )
            program = SchedulerProgram(settings, api, announce=said.append, clock=LoopClock())
            program._server = None  # nobody asks it, and it looks at the time ten times a second
            task = asyncio.create_task(program.run())
            await asyncio.sleep(30)
            report("young", 2)
            report("old", 99)
            await asyncio.sleep(30)
            costs.append(program.cache.table.side_column("progress.cost", 1.0).values.tolist())
            told.put("pods", job("new"))
            await asyncio.sleep(5)
            program.stop()
            await task

    virtual(story())
    assert told.objects["pods"]["new"]["spec"]["nodeName"] == "b"
    young, old = costs[0]
    assert 1 < old < young / 50
    assert "controllers of the pods of foresail: watch-progress:every_s=2.0,epochs=100.0 every 2 s" in said


def test_an_edited_profile_that_relies_on_another_controller_waits_for_a_restart(server, virtual, tmp_path):
    path, problems = tmp_path / "profile.toml", []
    path.write_text(LEAST)

    async def story():
        async with server(ApiServer()) as api:
            settings = RunSettings(policy=str(path), leader_elect=False)
            program = SchedulerProgram(settings, api, announce=lambda _: None, clock=LoopClock())
            for text in (PROGRESS, LEAST):
                path.write_text(text)
                program.reloader.look()
                problems.append(program.reloader.problem)

    virtual(story())
    relies = "it relies on the controller watch-progress:every_s=5.0,epochs=100.0, which a restart gives its turns"
    assert problems == [f"the profile before is still used: {relies}", ""]
