"""Training jobs are looked at now and then; what is seen is a table of the run."""

from __future__ import annotations

import math

import numpy as np

from foresail.core.control import Action, Move, Resize, View
from foresail.core.spec import NodeSpec, Training
from foresail.policies.profiles.load import load_profile
from foresail.results.job_samples import JobSamples
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.testing import make_pod, make_table, make_view, make_workload
from foresail.traces.trace import Trace

FALLING = Training("falling", steps=100, report_every=10, loss=(2.0, 1.0))


class MovesThenTrims:
    """Moves the first pod at 10 s and gives it half a core at 20 s."""

    every_s = 10.0

    def act(self, view: View) -> list[Action]:
        first = next(iter(view.running.values()), None)
        if first is None or view.now_s not in (10.0, 20.0):
            return []
        there = "n1" if first.node == "n0" else "n0"
        if view.now_s == 10.0:
            return [Move(first.pod, "for a change", there)]
        return [Resize(first.pod, 500, "enough for it", cpu_limit_milli=500)]


def training_run(controllers=None):
    pods = make_workload(
        {
            "a": {"cpu_milli": 1000, "work_cpu_s": 30.0, "cpu_limit_milli": 1000, "training": FALLING},
            "b": {"cpu_milli": 1000, "work_cpu_s": 20.0, "cpu_limit_milli": 1000},
        }
    )
    trace = Trace("two", [NodeSpec("n0", 2000, 0), NodeSpec("n1", 2000, 0)], pods, {})
    settings = ClockSettings(work="shared-cpu", snapshot_every_s=0.8)
    return run_clock(trace, load_profile("best-fit"), settings=settings, controllers=controllers)


def test_a_run_with_training_jobs_tells_where_each_was_and_how_far():
    jobs = training_run({"test": MovesThenTrims()}).frame("jobs")
    rows = (
        jobs.filter(jobs["job"] == "a").select("time_s", "node", "cpu_milli", "cpu_used_milli", "step", "loss").rows()
    )
    assert rows == [
        (0.0, "n0", 1000, 1000.0, None, None),
        (4.0, "n0", 1000, 1000.0, 10.0, 1.9),
        (8.0, "n0", 1000, 1000.0, 20.0, 1.8),
        (12.0, "n1", 1000, 1000.0, 40.0, 1.6),
        (16.0, "n1", 1000, 1000.0, 50.0, 1.5),
        (20.0, "n1", 500, 500.0, 60.0, 1.4),
        (24.0, "n1", 500, 500.0, 70.0, 1.3),
        (28.0, "n1", 500, 500.0, 80.0, 1.2),
        (32.0, "n1", 500, 500.0, 80.0, 1.2),
        (36.0, "n1", 500, 500.0, 90.0, 1.1),
    ]
    assert jobs.filter(jobs["job"] == "b")["loss"].is_null().all()  # it is no training job: it reports nothing


def test_a_run_without_training_jobs_has_no_such_table():
    trace = Trace("one", [NodeSpec("n0", 2000, 0)], make_workload({"a": {"cpu_milli": 1, "duration_s": 5.0}}), {})
    assert run_clock(trace, load_profile("best-fit")).frame("jobs") is None


def test_looks_lie_as_far_apart_as_they_should():
    table = make_table(allocatable=[(8000, 8, 0)])
    pod = make_pod("a", cpu=1000, nodes=table)
    view = make_view(table, {"node-0": [pod]}, readings={(pod.uid, "cpu_used_milli"): 250.0})
    samples = JobSamples(every_s=10.0)
    for now_s in (3.0, 5.0, 13.0, 14.0, 40.0):
        samples.take(View(now_s, table, view.running, view.telemetry))
    columns = samples.columns()
    assert columns["time_s"].tolist() == [3.0, 13.0, 40.0]
    assert columns["cpu_used_milli"].tolist() == [250.0] * 3
    assert all(math.isnan(value) for value in np.asarray(columns["step"]))
