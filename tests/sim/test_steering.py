"""Controllers in the simulator: whole histories of moves, resizes and holds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.control import CPU_USED_MILLI, WORK_DONE_CPU_S, WORK_LEFT_CPU_S, Hold, Move, Resize
from foresail.core.spec import Gang, NodeSpec
from foresail.policies.profiles.load import load_profile
from foresail.sim.faults import Fault, Faults
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.testing import make_workload
from foresail.traces.trace import Trace


class Script:
    """Does at given times what it is told to, and remembers what it saw."""

    def __init__(self, turns) -> None:
        self.turns = dict(sorted(turns.items()))
        self.times = iter([*self.turns, math.inf])
        self.next_s = next(self.times)
        self.seen = {}

    def next_time_s(self) -> float:
        return self.next_s

    def act(self, view):
        self.next_s = next(self.times)
        pods = {one.pod.name: one for one in view.running.values()}
        self.seen[view.now_s] = view
        return self.turns[view.now_s](pods)


def run(cpus, pods, turns, *, faults=(), controllers=None, policy="best-fit", **options):
    """All that happened, as (time, what, pod, node), and the result."""
    nodes = [NodeSpec(f"n{at}", cpu, 0) for at, cpu in enumerate(cpus)]
    log = []
    result = run_clock(
        Trace("test", nodes, make_workload(pods)),
        load_profile(policy),
        settings=ClockSettings(**options),
        faults=Faults.of([Fault(*fault) for fault in faults], nodes),
        listeners=[lambda record: log.append((record.time_s, str(record.what), record.pod, record.node))],
        controllers={"script": Script(turns)} if controllers is None else controllers,
    )
    return [entry for entry in log if entry[1] not in {"arrive", "refuse"}], result


def job(work, cpu_milli=500, **more):
    return {"cpu_milli": cpu_milli, "work_cpu_s": float(work), **more}


def test_a_moved_job_pays_for_its_restart_and_its_old_room_is_used_at_once():
    # Until 4 both have 2 of 8; a goes on at 9, alone on 2 CPUs, ends at 12. b has 6 left, beside late, which has 1.
    log, result = run(
        [1000, 2000],
        {"a": job(8), "b": job(8), "late": job(1, arrival_s=2.0)},
        {4.0: lambda pods: [Move(pods["a"].pod, "n0 is crowded", node="n1")]},
        work="shared-cpu",
        restart_time_s=5,
        faults=[(0, "n1", "cordon"), (3, "n1", "uncordon")],
        policy="most-allocated",
    )
    assert [entry for entry in log if entry[1] in {"start", "end", "move", "evict"}] == [
        (0, "start", "a", "n0"),
        (0, "start", "b", "n0"),
        (3, "start", "late", "n1"),
        (3.5, "end", "late", "n1"),
        (4, "start", "a", "n1"),
        (4, "move", "a", "n1"),
        (10, "end", "b", "n0"),
        (12, "end", "a", "n1"),
    ]
    assert np.asarray(result.pods["restarts"]).tolist() == [0, 0, 0]
    assert np.asarray(result.pods["wait_s"]).tolist() == [0, 0, 1]
    assert np.asarray(result.pods["run_s"]).tolist() == [12, 10, 0.5]
    placed = dict(zip(result.placements["pod"], result.placements["node"], strict=True))
    assert placed == {"a": "n1", "b": "n0", "late": "n1"}


def test_who_waits_gets_the_room_that_a_move_leaves_in_the_same_instant():
    log, _ = run(
        [1000, 1000],
        {"a": {"cpu_milli": 600, "duration_s": 9.0}, "big": {"cpu_milli": 1000, "duration_s": 1.0, "arrival_s": 1.0}},
        {2.0: lambda pods: [Move(pods["a"].pod, "room for big", node="n1")]},
        faults=[(0, "n1", "cordon"), (2, "n1", "uncordon"), (2, "n0", "cordon"), (2.5, "n0", "uncordon")],
    )
    assert [entry for entry in log if entry[2]] == [
        (0, "start", "a", "n0"),
        (2, "start", "big", "n1"),
        (2, "decline", "a", "n1"),
        (3, "end", "big", "n1"),
        (9, "end", "a", "n0"),
    ]
    log, _ = run(
        [1000, 900],
        {"a": {"cpu_milli": 600, "duration_s": 9.0}, "big": {"cpu_milli": 1000, "duration_s": 1.0, "arrival_s": 1.0}},
        {2.0: lambda pods: [Move(pods["a"].pod, "room for big")]},  # the policy chooses where
        faults=[(0, "n1", "cordon"), (2, "n1", "uncordon"), (2, "n0", "cordon"), (2.5, "n0", "uncordon")],
    )
    assert [entry for entry in log if entry[2]] == [
        (0, "start", "a", "n0"),
        (2, "start", "a", "n1"),
        (2, "move", "a", ""),
        (2.5, "start", "big", "n0"),
        (3.5, "end", "big", "n0"),
        (9, "end", "a", "n1"),
    ]


def test_a_resize_goes_as_far_as_there_is_room_and_its_row_alone_is_timed_anew():
    # Equal until 4 (2 done each), then 3 : 1 of one CPU; see the closed form in the tests of shared CPU.
    turns = {
        4.0: lambda pods: [Resize(pods["a"].pod, 750, "it is urgent"), Resize(pods["b"].pod, 250, "it is not")],
        5.0: lambda pods: [Resize(pods["a"].pod, 800, "more")],
    }
    script = Script(turns)
    log, result = run(
        [1000], {"a": job(8), "b": job(10)}, {}, controllers={"script": script}, work="shared-cpu", snapshot_every_s=1
    )
    assert log == [
        (0, "start", "a", "n0"),
        (0, "start", "b", "n0"),
        (4, "resize", "b", "n0"),
        (4, "resize", "a", "n0"),
        (5, "decline", "a", "n0"),
        (12, "end", "a", "n0"),
        (18, "end", "b", "n0"),
    ]
    journal = result.frame("journal")
    assert journal.filter(journal["what"] == "decline").row(0, named=True) == {
        "time_s": 5.0,
        "what": "decline",
        "pod": "a",
        "node": "n0",
        "detail": "resize declined: n0 has 0 milli-CPU left, and it would take 50 more",
        "by": "script",
    }
    view = script.seen[5.0]
    assert [(one.cpu_milli, one.since_s) for one in view.running.values()] == [(750, 0), (250, 0)]
    readings = [view.telemetry.reading(0, name) for name in (CPU_USED_MILLI, WORK_DONE_CPU_S, WORK_LEFT_CPU_S, "pulse")]
    # Asked after the run: the pod is gone, and nothing is known of it any more.
    assert readings == [None] * 4


def test_what_is_known_of_running_pods():
    known = {}

    class Look:
        every_s = 3.0

        def act(self, view):
            names = (CPU_USED_MILLI, WORK_DONE_CPU_S, WORK_LEFT_CPU_S)
            known[view.now_s] = [[view.telemetry.reading(uid, name) for name in names] for uid in view.running]
            return []

    run([1000], {"a": job(4, cpu_limit_milli=600), "b": job(10)}, {}, controllers={"look": Look()}, work="shared-cpu")
    assert known[3.0] == [[500, 1.5, 2.5], [500, 1.5, 8.5]]
    assert known[9.0] == [[1000, 5, 5]]
    run([1000], {"a": {"cpu_milli": 500, "duration_s": 4.0}}, {}, controllers={"look": Look()})
    assert known[3.0] == [[500, 1.5, 0.5]]


def test_a_resize_down_makes_room_for_who_waits():
    log, _ = run(
        [1000],
        {"a": {"cpu_milli": 800, "duration_s": 9.0}, "b": {"cpu_milli": 500, "duration_s": 1.0, "arrival_s": 1.0}},
        {3.0: lambda pods: [Resize(pods["a"].pod, 400, "it needs less")]},
    )
    assert log == [
        (0, "start", "a", "n0"),
        (3, "resize", "a", "n0"),
        (3, "start", "b", "n0"),
        (4, "end", "b", "n0"),
        (9, "end", "a", "n0"),
    ]


def test_a_resize_leaves_held_room_to_whom_it_is_held_for_and_may_always_give_back():
    script = Script(
        {
            1.0: lambda pods: [Hold(pods["wanted"].pod, "n0", "for later", for_s=5.0)],  # 700 of the 600 that are free
            2.0: lambda pods: [Resize(pods["a"].pod, 401, "one more")],
            3.0: lambda pods: [Resize(pods["a"].pod, 350, "less")],
            4.0: lambda pods: [Resize(pods["a"].pod, 351, "one more")],
            7.0: lambda pods: [Resize(pods["a"].pod, 1000, "all of it")],
        }
    )
    jobs = {
        "a": {"cpu_milli": 400, "duration_s": 9.0},
        "wanted": {"cpu_milli": 700, "duration_s": 9.0, "arrival_s": 0.5},
    }
    log, result = run([1000, 1000], jobs, {}, controllers={"script": script})
    assert [entry for entry in log if entry[1] in {"resize", "decline"}] == [
        (2, "decline", "a", "n0"),
        (3, "resize", "a", "n0"),
        (4, "decline", "a", "n0"),
        (7, "resize", "a", "n0"),
    ]
    declined = result.frame("journal").filter(what="decline")["detail"].to_list()
    assert declined == ["resize declined: n0 has 0 milli-CPU left, and it would take 1 more"] * 2


def test_pods_that_end_in_one_instant_have_all_left_before_anybody_is_decided_about():
    jobs = {
        "a": job(5),
        "b": job(5),
        "big": job(1, 1000, arrival_s=1.0),
        "small": job(1, 500, arrival_s=2.0),
    }
    log, _ = run([1000], jobs, {}, work="shared-cpu")
    assert log[2:5] == [(10, "end", "a", "n0"), (10, "end", "b", "n0"), (10, "start", "big", "n0")]


def test_a_limit_that_a_resize_sets_holds_until_another_does():
    turns = {
        1.0: lambda pods: [Resize(pods["a"].pod, 200, "capped", cpu_limit_milli=250)],
        2.0: lambda pods: [Resize(pods["a"].pod, 250, "within its limit")],
        3.0: lambda pods: [],
    }
    script = Script(turns)
    log, _ = run([1000], {"a": job(4)}, {}, controllers={"script": script}, work="shared-cpu")
    assert log[-1] == (13, "end", "a", "n0")  # 1 CPU until 1, then a quarter of one
    seen = {time_s: view.running[0] for time_s, view in script.seen.items()}
    assert [(one.cpu_milli, one.cpu_limit_milli) for one in seen.values()] == [(500, 0), (200, 250), (250, 250)]


def test_a_pod_has_its_node_since_it_started_there():
    script = Script({3.0: lambda pods: [Move(pods["a"].pod, "why not", "n1")], 4.0: lambda pods: []})
    run(
        [1000, 1000], {"a": {"cpu_milli": 500, "duration_s": 9.0, "arrival_s": 2.0}}, {}, controllers={"script": script}
    )
    assert [(one.running[0].since_s, one.running[0].node) for one in script.seen.values()] == [(2, "n0"), (3, "n1")]


def test_an_evicted_pod_is_made_anew_as_it_was_asked_for():
    log, result = run(
        [1000],
        {"a": job(4, 500, cpu_limit_milli=500)},
        {1.0: lambda pods: [Resize(pods["a"].pod, 1000, "all of it", cpu_limit_milli=0)]},
        work="shared-cpu",
        faults=[(2, "n0", "fail"), (3, "n0", "repair")],
    )
    assert log[-1] == (11, "end", "a", "n0")  # 4 CPU-seconds at 0.5 from 3 on
    assert np.asarray(result.nodes["cpu_free_milli"]).tolist() == [1000]


def test_a_hold_keeps_others_out_until_it_ends():
    pods = {
        "a": {"cpu_milli": 1000, "duration_s": 2.0},
        "b": {"cpu_milli": 600, "arrival_s": 1.0, "duration_s": 1.0},
        "wanted": {"cpu_milli": 1000, "duration_s": 9.0, "arrival_s": 0.5},
    }
    log, _ = run(
        [1000, 1000],
        pods,
        {1.5: lambda pods: [Hold(pods["wanted"].pod, "n0", "for later", for_s=4.0)]},
        faults=[(0, "n1", "cordon"), (0.5, "n1", "uncordon")],
    )
    assert log[-6:] == [
        (1.5, "hold", "wanted", "n0"),
        (2, "end", "a", "n0"),
        (5.5, "release", "wanted", "n0"),
        (5.5, "start", "b", "n0"),
        (6.5, "end", "b", "n0"),
        (9.5, "end", "wanted", "n1"),
    ]


def test_a_member_of_a_gang_is_not_moved_alone():
    gang = Gang("g", 2)
    pods = {name: {"cpu_milli": 100, "duration_s": 5.0, "gang": gang} for name in ("a", "b")}
    _, result = run([1000, 1000], pods, {1.0: lambda pods: [Move(pods["a"].pod, "why not", node="n1")]})
    journal = result.frame("journal")
    assert journal.filter(journal["what"] == "decline")["detail"].to_list() == [
        "move declined: it is one of a gang, which is moved whole or not at all"
    ]


class Count:
    every_s = 10.0

    def __init__(self) -> None:
        self.turns = []

    def act(self, view):
        self.turns.append(view.now_s)
        return []


@pytest.mark.parametrize(("until_s", "turns"), [(None, [5, 15, 25]), (47, [5, 15, 25, 35, 45])])
def test_turns_begin_with_the_first_pod_and_do_not_keep_a_run_going(until_s, turns):
    count = Count()
    pods = {
        "service": {"cpu_milli": 1, "arrival_s": 5.0},
        "job": {"cpu_milli": 1, "arrival_s": 6.0, "duration_s": 22.0},
    }
    run([1000], pods, {}, controllers={"count": count}, until_s=until_s)
    assert count.turns == turns


def test_the_journal_says_who_makes_whom_go():
    jobs = {f"low-{at}": {"cpu_milli": 100, "duration_s": 9.0} for at in range(7)}
    jobs["high"] = {"cpu_milli": 700, "duration_s": 1.0, "arrival_s": 1.0, "priority": 1}
    _, result = run([700], jobs, {}, preemption=True)
    (made,) = result.frame("journal").filter(what="preempt").select("time_s", "pod", "node", "detail").rows()
    assert made[:3] == (1.0, "high", "n0")
    assert made[3] == "makes low-0, low-1, low-2, low-3, low-4 and 2 more go"


def test_a_run_without_controllers_has_no_journal():
    _, result = run([1000], {"a": {"duration_s": 1.0}}, {}, controllers={})
    assert "journal" not in result.tables


class Restless:
    """Moves and resizes at random, within reason and without."""

    every_s = 0.7

    def __init__(self, seed) -> None:
        self.random = np.random.default_rng(seed)

    def act(self, view):
        draw = self.random
        assert (view.table.free >= 0).all()
        actions = []
        for one in view.running.values():
            if draw.random() < 0.3:
                actions.append(Move(one.pod, "restless", node=draw.choice(["", *view.table.names])))
            elif draw.random() < 0.4:
                limit = int(draw.choice([0, 3000]))
                actions.append(Resize(one.pod, int(draw.integers(1, 1500)), "restless", cpu_limit_milli=limit))
            elif draw.random() < 0.2:
                actions.append(Hold(one.pod, str(draw.choice(view.table.names)), "restless", for_s=1.0))
        return actions


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 1200), st.floats(0.1, 6.0), st.floats(0.0, 8.0)), min_size=1, max_size=8),
    st.integers(0, 10**6),
    st.sampled_from(["fixed", "shared-cpu"]),
    st.sampled_from([0.0, 0.5]),
)
def test_whatever_controllers_do_every_pod_ends_and_one_seed_gives_the_same_bytes(jobs, seed, work, restart_time_s):
    pods = {
        f"p{at}": {"cpu_milli": cpu, "work_cpu_s": size, "duration_s": size, "arrival_s": arrival_s}
        for at, (cpu, size, arrival_s) in enumerate(jobs)
    }
    faults = [(3, "n0", "fail"), (5, "n0", "repair")]

    def once():
        return run(
            [1500, 2000, 1200],
            pods,
            {},
            controllers={"restless": Restless(seed)},
            work=work,
            restart_time_s=restart_time_s,
            after_failure="resume",
            faults=faults,
            until_s=500,
        )

    log, result = once()
    assert result.summary["finished"] == len(jobs)
    assert np.asarray(result.nodes["cpu_free_milli"]).tolist() == [1500, 2000, 1200]
    again, result_again = once()
    assert log == again
    for name in result.tables:
        assert result.frame(name).equals(result_again.frame(name))
