"""What simulated training jobs report, seen through the eyes of a controller."""

from __future__ import annotations

import math

import pytest

from foresail.core.control import ACCURACY, CPU_USED_S, LOSS, STEPS_DONE, STEPS_TOTAL, Action, View
from foresail.core.spec import NodeSpec, Training
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.sim.work.reports import Reports
from foresail.testing import make_workload
from foresail.traces.trace import Trace

HALVING = Training("halving", steps=100, report_every=10, loss=(4.0, 2.0, 1.0), accuracy=(0.0, 1.0))


class Looking:
    """Writes down what it sees of every running pod, at 1 s and then every 10 s."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, str, list[float | None]]] = []
        self._next_s = 1.0

    def next_time_s(self) -> float:
        return self._next_s

    def act(self, view: View) -> list[Action]:
        self._next_s = view.now_s + 10
        for uid, one in view.running.items():
            names = (STEPS_DONE, STEPS_TOTAL, LOSS, ACCURACY, CPU_USED_S)
            self.seen.append((view.now_s, one.pod.name, [view.telemetry.reading(uid, name) for name in names]))
        return []


def test_reports_follow_the_work_row_by_row():
    pods = make_workload(
        {
            "train": {"cpu_milli": 1000, "work_cpu_s": 50.0, "cpu_limit_milli": 1000, "training": HALVING},
            "other": {"cpu_milli": 1000, "work_cpu_s": 6.0, "cpu_limit_milli": 1000},
        }
    )
    looking = Looking()
    trace = Trace("two", [NodeSpec("n0", 2000, 0)], pods)
    settings = ClockSettings(work="shared-cpu")
    run_clock(trace, load_profile("best-fit"), settings=settings, controllers={"looking": looking})
    # 50 CPU-seconds for 100 steps, alone on a core: two steps a second, told in tens.
    assert looking.seen == [
        (1.0, "train", [None, None, None, None, 1.0]),
        (1.0, "other", [None, None, None, None, 1.0]),
        (11.0, "train", [20.0, 100.0, pytest.approx(3.2), pytest.approx(0.2), 11.0]),
        (21.0, "train", [40.0, 100.0, pytest.approx(2.4), pytest.approx(0.4), 21.0]),
        (31.0, "train", [60.0, 100.0, pytest.approx(1.8), pytest.approx(0.6), 31.0]),
        (41.0, "train", [80.0, 100.0, pytest.approx(1.4), pytest.approx(0.8), 41.0]),
    ]


class Half:
    """Work of which so much is done, so much left."""

    def __init__(self, done: float, left: float) -> None:
        self._done, self._left = done, left

    def done_cpu_s(self, index: int) -> float:
        return self._done

    def left_cpu_s(self, index: int) -> float:
        return self._left


@pytest.mark.parametrize("error", [-0.6, 0.0, 1.1])
@pytest.mark.parametrize("done", [1.0, 30.0, 80.0])
def test_an_error_misleads_a_forecast_by_exactly_its_factor(error: float, done: float):
    fine = Training("fine", steps=10_000_000, report_every=1)
    pods = make_workload({"train": {"training": fine}})
    steps = Reports(pods, Half(done, 100.0 - done), [error]).reading(0, STEPS_DONE)
    fraction = steps / fine.steps
    assert done * (1 - fraction) / fraction == pytest.approx((100.0 - done) * math.exp(error), rel=1e-4)


def test_a_job_without_an_end_and_a_pod_without_training_report_nothing():
    pods = make_workload({"endless": {"training": HALVING}, "plain": {}})
    assert Reports(pods, Half(10.0, math.inf)).reading(0, STEPS_DONE) is None
    assert Reports(pods, Half(10.0, 10.0)).reading(1, STEPS_DONE) is None
