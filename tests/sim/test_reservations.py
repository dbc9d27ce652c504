"""Gangs that wait for room beside streams of other pods: none starves, and who fills in delays nobody before it."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.journal import What
from foresail.core.spec import Gang, NodeSpec, PodSpec, Workload
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.traces.trace import Trace

LONG_S = 1e6


def make_trace(nodes, pods, gangs=()):
    """`nodes`: CPU of each. `pods`: (name, cpu, arrival, duration), then the name of a gang and a priority."""
    rows = [(*pod, *("", 0)[len(pod) - 4 :]) for pod in pods]
    specs = sorted({row[1] for row in rows})
    at = {gang.name: number for number, gang in enumerate(gangs)}
    workload = Workload(
        names=[row[0] for row in rows],
        specs=[PodSpec(cpu_milli=cpu) for cpu in specs],
        spec_of=np.array([specs.index(row[1]) for row in rows], dtype=np.int64),
        arrival_s=np.array([row[2] for row in rows], dtype=np.float64),
        duration_s=np.array([row[3] for row in rows], dtype=np.float64),
        priority=np.array([row[5] for row in rows], dtype=np.int64),
        gang_of=np.array([at.get(row[4], -1) for row in rows], dtype=np.int64),
        gangs=list(gangs),
    )
    return Trace("test", [NodeSpec(f"n{number}", cpu, 0) for number, cpu in enumerate(nodes)], workload)


def starts(trace, *, policy="best-fit", **options):
    """When each pod started first, and everything that was held and released."""
    found, room = {}, []

    def listen(record):
        if record.what is What.START:
            found.setdefault(record.pod, record.time_s)
        elif record.what in {What.HOLD, What.RELEASE}:
            room.append((record.time_s, record.what.value, record.detail))

    run_clock(trace, load_profile(policy), settings=ClockSettings(**options), listeners=[listen])
    return found, room


def ring(*cpus, arrival_s=1.0, duration_s=5.0, name="g", priority=0):
    return [(f"{name}-{at}", cpu, arrival_s, duration_s, name, priority) for at, cpu in enumerate(cpus)]


def stream(every_s, duration_s, until_s, cpu=1, start_s=0.0):
    times_s = np.arange(start_s, until_s, every_s).tolist()
    return [(f"s{at}", cpu, time_s, duration_s) for at, time_s in enumerate(times_s)]


# --- starvation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", ["fixed", "shared-cpu"])
def test_a_gang_starves_beside_small_pods_unless_room_is_kept_for_it(work):
    """In shared-cpu nobody knows when pods end."""
    pods = [*stream(1, 3, 400), *ring(2, 2)]
    trace = make_trace([2, 2], pods, [Gang("g", 2, LONG_S)])
    without, _ = starts(trace, work=work)
    assert without["g-0"] > 390
    found, room = starts(trace, work=work, gang_reserve_after_s=10.0)
    assert found["g-0"] == found["g-1"] < 20
    assert [what for _, what, _ in room] == ["hold"]
    assert room[0][0] == 11


def test_a_gang_does_not_wait_for_a_pod_that_never_ends_while_others_come_and_go():
    """The node with the one eternal pod would need the fewest to leave; but that one is older than all others soon."""
    pods = [("service", 1, 0, math.inf), *stream(1, 5, 400, start_s=0.5), *ring(4, arrival_s=2)]
    trace = make_trace([4, 4], pods, [Gang("g", 1, LONG_S)])
    found, _ = starts(trace, work="shared-cpu", gang_reserve_after_s=5.0)
    assert found["g-0"] < 40


def test_the_history_of_one_reservation():
    """Both nodes are free at 10: what ends by then fills in; what is longer uses the third node, or waits for it."""
    pods = [
        ("a", 4, 0, 10),
        ("b", 3, 0, 8),
        *ring(4, 4, arrival_s=1),
        ("short", 1, 2, 8),
        ("too-long", 1, 3, 8),
        ("waits", 1, 3.5, 100),
    ]
    found, room = starts(make_trace([4, 4, 1], pods, [Gang("g", 2, LONG_S)]), gang_reserve_after_s=0.0)
    assert found["g-0"] == found["g-1"] == 10
    assert found["short"] == 2
    assert found["too-long"] == 3
    assert found["waits"] == 11
    assert room == [(1, "hold", "for gang g, which is the first in line; free at 10 s")]


def test_room_beyond_what_a_gang_needs_is_open_to_all():
    """At 10 the node has 6, of which the gang needs 4: two more may use a CPU for ever, a third may not."""
    pods = [("a", 3, 0, 10), *ring(4, arrival_s=1), *[(f"p{at}", 1, 2 + at, 50) for at in range(3)]]
    found, _ = starts(make_trace([6], pods, [Gang("g", 1, LONG_S)]), gang_reserve_after_s=0.0)
    assert found == {"a": 0, "g-0": 10, "p0": 2, "p1": 3, "p2": 15}


def test_pods_that_came_before_the_gang_are_not_kept_out():
    pods = [("a", 4, 0, 10), ("older", 3, 1, 50), *ring(4, arrival_s=2), ("younger", 1, 3, 51)]
    found, _ = starts(make_trace([4], pods, [Gang("g", 1, LONG_S)]), gang_reserve_after_s=0.0)
    assert found == {"a": 0, "older": 10, "younger": 65, "g-0": 60}


def test_the_second_gang_holds_nothing_until_the_first_has_started():
    gangs = [Gang("g", 2, LONG_S), Gang("h", 2, LONG_S)]
    pods = [("a", 2, 0, 10), ("b", 2, 0, 20), *ring(2, 2, arrival_s=1), *ring(2, 2, arrival_s=2, name="h")]
    found, room = starts(make_trace([2, 2], pods, gangs), gang_reserve_after_s=0.0)
    assert (found["g-0"], found["h-0"]) == (20, 25)
    assert [(time_s, what) for time_s, what, _ in room] == [(1, "hold"), (20, "hold")]


def test_a_gang_of_more_priority_takes_the_room_of_one_that_came_before():
    gangs = [Gang("g", 2, LONG_S), Gang("h", 2, LONG_S)]
    pods = [("a", 2, 0, 10), ("b", 2, 0, 20), *ring(2, 2, arrival_s=1), *ring(2, 2, arrival_s=2, name="h", priority=1)]
    found, room = starts(make_trace([2, 2], pods, gangs), gang_reserve_after_s=0.0)
    assert (found["g-0"], found["h-0"]) == (25, 20)
    released = [(time_s, detail) for time_s, what, detail in room if what == "release"]
    assert released == [(2, "gang h, of more priority, needs a part of it")]


def test_an_impossible_gang_holds_nothing_and_the_next_one_does():
    gangs = [Gang("g", 2, LONG_S), Gang("h", 2, 50)]
    pods = [("a", 2, 0, 10), *ring(3, 3, arrival_s=1), *ring(2, 2, arrival_s=2, name="h")]
    trace = make_trace([3, 2], pods, gangs)
    reasons = []
    run_clock(
        trace,
        load_profile("best-fit"),
        settings=ClockSettings(gang_reserve_after_s=0.0, until_s=3.0),
        listeners=[lambda record: reasons.append(record.detail) if record.what is What.REFUSE else None],
    )
    assert any(
        why.endswith("its gang would not fit on empty nodes either, so no room is held for it") for why in reasons
    )
    assert starts(trace, gang_reserve_after_s=0.0, until_s=20.0)[0]["h-0"] == 10


def test_a_gang_that_gives_up_holds_nothing_any_more():
    pods = [("a", 2, 0, 100), *ring(2, 2, arrival_s=1), ("later", 2, 2, 200)]
    found, room = starts(make_trace([2, 2], pods, [Gang("g", 2, 10)]), gang_reserve_after_s=0.0)
    assert found == {"a": 0, "later": 11}
    assert [(time_s, what) for time_s, what, _ in room] == [(1, "hold"), (11, "release")]


def test_of_a_lane_those_that_end_in_time_pass_the_first():
    pods = [("a", 3, 0, 10), *ring(4, arrival_s=1), ("long", 1, 2, 50), ("short", 1, 3, 7), ("too-long", 1, 4, 7)]
    found, _ = starts(make_trace([4], pods, [Gang("g", 1, LONG_S)]), gang_reserve_after_s=0.0)
    assert found == {"a": 0, "short": 3, "g-0": 10, "long": 15, "too-long": 15}


# --- what always holds -----------------------------------------------------------------------------------------------


def fits_when_empty(nodes, cpus):
    """Whether so many requests fit on empty nodes: every way is tried."""

    @cache
    def fit(free, left):
        if not left:
            return True
        return any(
            fit(tuple(sorted((*free[:at], room - left[0], *free[at + 1 :]))), left[1:])
            for at, room in enumerate(free)
            if room >= left[0]
        )

    return fit(tuple(sorted(nodes)), tuple(sorted(cpus, reverse=True)))


DURATIONS = st.sampled_from([1.0, 2.0, 3.5, 7.0, 12.0])


@st.composite
def streams(draw):
    nodes = draw(st.lists(st.integers(2, 6), min_size=1, max_size=4))
    pods = []
    gangs = []
    for at in range(draw(st.integers(1, 4))):
        cpus = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
        arrival_s = float(draw(st.integers(0, 20)))
        priority = draw(st.sampled_from([0, 0, 1]))
        pods += ring(*cpus, arrival_s=arrival_s, duration_s=draw(DURATIONS), name=f"g{at}", priority=priority)
        gangs.append(Gang(f"g{at}", len(cpus), LONG_S))
    every_s = draw(st.sampled_from([0.5, 1.0, 2.0]))
    for number, time_s in enumerate(np.arange(0.0, 150.0, every_s).tolist()):
        pods.append((f"s{number}", draw(st.integers(1, 2)), time_s, draw(DURATIONS)))
    return nodes, pods, gangs


@pytest.mark.parametrize("work", ["fixed", "shared-cpu"])
@settings(max_examples=40, deadline=None)
@given(world=streams())
def test_every_gang_that_fits_on_empty_nodes_is_placed_in_time(work, world):
    nodes, pods, gangs = world
    trace = make_trace(nodes, pods, gangs)
    found, _ = starts(trace, work=work, gang_reserve_after_s=2.0, until_s=1000.0)
    # In its turn each gang waits for those that run, at most 12 s and on a shared node for as long as four share it.
    bound_s = 20 + 2 + (len(gangs) + 1) * (12.0 if work == "fixed" else 48.0)
    for gang in gangs:
        cpus = [pod[1] for pod in pods if len(pod) > 4 and pod[4] == gang.name]
        if fits_when_empty(nodes, cpus):
            assert found[f"{gang.name}-0"] <= bound_s, gang
        else:
            assert f"{gang.name}-0" not in found


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_nobody_who_comes_later_delays_the_first_in_line(data):
    nodes = data.draw(st.lists(st.integers(2, 6), min_size=1, max_size=4))
    cpu, short = st.integers(1, 6), st.sampled_from([0.5, 1.0, 2.0, 3.5, 7.0, 12.0, 40.0])
    before = [(f"b{at}", data.draw(cpu), 0.0, data.draw(short)) for at in range(data.draw(st.integers(1, 8)))]
    at_once = [name for name, time_s in starts(make_trace(nodes, before))[0].items() if time_s == 0]
    before = [pod for pod in before if pod[0] in at_once]  # whoever else waits is before the gang in line
    gang = ring(*data.draw(st.lists(cpu, min_size=1, max_size=5)), arrival_s=0.25)
    later = [
        (f"l{at}", data.draw(cpu), 0.5 + data.draw(st.integers(0, 40)) / 4, data.draw(short))
        for at in range(data.draw(st.integers(1, 25)))
    ]
    gangs = [Gang("g", len(gang), LONG_S)]
    options = {"gang_reserve_after_s": 0.0, "until_s": 500.0, "fail_impossible": True}
    alone, _ = starts(make_trace(nodes, [*before, *gang], gangs), **options)
    beside, _ = starts(make_trace(nodes, [*before, *gang, *later], gangs), **options)
    assert {name: time_s for name, time_s in beside.items() if name[0] != "l"} == alone
