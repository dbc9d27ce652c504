"""When jobs would be done without a controller, against a run of the simulator without one."""

from __future__ import annotations

import math

import pytest

from foresail.forecast.undisturbed import SeenJob, Undisturbed

CPUS = {"a": 4.0, "b": 4.0}


def seen(job, node="a", request=100.0, limit=4.0, since=0.0, spent=0.0, left=math.inf):
    return SeenJob(job, node, request, limit, since, spent, left)


def test_whoever_is_helped_or_held_back_would_have_ended_as_sharing_says():
    world = Undisturbed()
    world.look(0.0, [seen("x", left=40.0), seen("y", left=80.0)], CPUS)
    # Two CPUs each: x after 20 s, y after 30 s.
    assert world.ends_s(CPUS) == {"x": (0.0, 20.0), "y": (0.0, 30.0)}
    # Now x had all four CPUs, and is gone at 10 s; y was moved and resized. There they go on as they were.
    world.look(9.0, [seen("x", spent=36.0, left=4.0), seen("y", "b", 7.0, spent=0.0, left=80.0)], CPUS)
    world.look(12.0, [seen("y", "b", 7.0, spent=8.0, left=72.0)], CPUS)
    assert world.ends_s(CPUS) == {"x": (0.0, pytest.approx(20.0)), "y": (0.0, pytest.approx(30.0))}
    assert world.request_milli("y") == 100.0
    world.look(25.0, [seen("y", "b", 7.0, spent=60.0, left=20.0)], CPUS)
    assert world.ends_s(CPUS) == {"y": (0.0, pytest.approx(30.0))}  # x is done there as well, and forgotten
    world.look(40.0, [seen("y", "b", 7.0, spent=70.0, left=10.0)], CPUS)
    assert world.ends_s(CPUS) == {"y": (0.0, pytest.approx(30.0))}  # it is late
    world.look(45.0, [], CPUS)
    assert world.ends_s(CPUS) == {}


def test_whoever_comes_takes_its_part_and_requests_are_weights():
    world = Undisturbed()
    world.look(0.0, [seen("x", left=40.0)], CPUS)
    world.look(5.0, [seen("x", spent=20.0, left=20.0), seen("y", request=300.0, since=4.0, left=60.0)], CPUS)
    # One CPU and three: y is done at 25 s, x has the last 0 of its 20 CPU-seconds at that time as well.
    assert world.ends_s(CPUS) == {"x": (0.0, pytest.approx(25.0)), "y": (4.0, pytest.approx(25.0))}


def test_a_job_is_as_long_as_its_latest_forecast():
    world = Undisturbed()
    world.look(0.0, [seen("x", limit=2.0, left=40.0)], CPUS)
    world.look(10.0, [seen("x", limit=2.0, spent=20.0, left=60.0)], CPUS)
    assert world.ends_s(CPUS) == {"x": (0.0, pytest.approx(40.0))}


def test_one_of_which_nothing_is_known_shares_and_does_not_end():
    world = Undisturbed()
    world.look(0.0, [seen("x", left=40.0), seen("y")], CPUS)
    assert world.ends_s(CPUS) == {"x": (0.0, 20.0), "y": (0.0, math.inf)}
    world.look(30.0, [], CPUS)
    assert world.ends_s(CPUS) == {}


def test_what_was_done_before_it_was_first_seen_counts_and_a_lost_node_is_forgotten():
    world = Undisturbed()
    world.look(100.0, [seen("x", since=90.0, spent=30.0, left=10.0), seen("y", "b", left=4.0)], CPUS)
    assert world.ends_s(CPUS) == {"x": (90.0, 102.5), "y": (0.0, 101.0)}
    world.look(100.5, [seen("x", since=90.0, spent=32.0, left=8.0)], {"a": 4.0})
    assert set(world.ends_s({"a": 4.0})) == {"x"}


def test_a_clock_that_goes_back_changes_nothing():
    world = Undisturbed()
    world.look(10.0, [seen("x", left=40.0)], CPUS)
    world.look(5.0, [seen("x", left=40.0)], CPUS)
    assert world.ends_s(CPUS) == {"x": (0.0, 20.0)}
