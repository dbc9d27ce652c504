"""When training jobs have most of their loss behind them."""

import math

import pytest

from foresail.core.control import Move
from foresail.core.spec import NodeSpec, Training
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.sim.work.targets import target_fraction
from foresail.testing import make_workload
from foresail.traces.trace import Trace


def losing(*loss):
    return Training("t", 100, 1, loss)


@pytest.mark.parametrize(
    ("loss", "fraction"),
    [
        ((10.0, 0.0), 0.9),
        ((10.0, 2.0, 0.0), 0.5 + 0.5 * 0.5),
        ((10.0, 0.5, 5.0, 0.0), (9 / 9.5) / 3),  # the first time counts
        ((10.0, 1.0, 0.0, 8.0), 1 / 3),  # of the way to the lowest, wherever that is
    ],
)
def test_the_target_is_most_of_the_way_to_the_lowest_loss(loss, fraction):
    assert target_fraction(losing(*loss)) == pytest.approx(fraction)


@pytest.mark.parametrize("loss", [(), (1.0, 1.0), (1.0, 2.0)])
def test_one_that_never_improves_has_no_target(loss):
    assert math.isnan(target_fraction(losing(*loss)))


def run(pods, controllers=None, **settings):
    trace = Trace("t", [NodeSpec("a", 1000, 2**30), NodeSpec("b", 1000, 2**30)], make_workload(pods))
    clock = ClockSettings(work="shared-cpu", **settings)
    pin = dict.fromkeys(pods, "a")
    result = run_clock(trace, load_profile("fgd"), settings=clock, controllers=controllers, first_node=pin)
    return dict(zip(result.pods["pod"], result.pods["target_s"].tolist(), strict=True)), result


JOB = {"cpu_milli": 100, "work_cpu_s": 10.0, "training": losing(10.0, 0.0)}


def test_targets_follow_the_rate_of_work():
    # The first is alone for 2 s and then goes at half the rate: 9 CPU-seconds are done at 2 + 7 / 0.5 s.
    targets, result = run({"one": JOB, "two": {**JOB, "arrival_s": 2.0}, "plain": {"cpu_milli": 1, "work_cpu_s": 0.0}})
    assert targets["one"] == pytest.approx(16.0)
    assert dict(zip(result.pods["pod"], result.pods["end_s"].tolist(), strict=True))["one"] == pytest.approx(18.0)
    assert targets["two"] == pytest.approx(18.0 + 1.0)
    assert math.isnan(targets["plain"])


def test_a_move_delays_a_target_once():
    class Mover:
        every_s = 4.0

        def act(self, view):
            return [Move(one.pod, "away", node="b") for one in view.running.values() if one.node == "a" and view.now_s]

    targets, result = run({"one": JOB}, {"mover": Mover()}, restart_time_s=3.0)
    assert targets["one"] == pytest.approx(9.0 + 3.0)
    assert result.pods["end_s"].tolist() == [pytest.approx(13.0)]


def test_a_run_that_stops_early_knows_who_was_there_already():
    targets, _ = run({"one": JOB, "late": {**JOB, "arrival_s": 9.5}}, until_s=9.6)
    assert targets["one"] == pytest.approx(9.0)
    assert math.isnan(targets["late"])
    before, _ = run({"one": JOB}, until_s=9.5)
    assert before["one"] == pytest.approx(9.0)


def test_fixed_times_have_no_targets():
    trace = Trace("t", [NodeSpec("a", 1000, 2**30)], make_workload({"one": {**JOB, "duration_s": 5.0}}))
    assert "target_s" not in run_clock(trace, load_profile("fgd")).pods
