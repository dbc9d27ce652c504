import dataclasses
import json
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.backoff import Backoff
from foresail.core.journal import What
from foresail.core.spec import Gang, NodeSpec, PodSpec, Workload
from foresail.errors import InputError, OptionError
from foresail.policies.profiles.load import load_profile
from foresail.results.tables import FRAGMENT_CLASSES
from foresail.sim.faults import Fault, Faults
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.testing import make_workload
from foresail.traces.openb.get import OPENB_NODES
from foresail.traces.trace import Trace, load

NEVER = math.inf


def make_trace(nodes, pods, gangs=()) -> Trace:
    """`nodes`: cpu of each, or (cpu, gpus). `pods`: (name, cpu, arrival, duration) and further columns by name."""
    node_specs = []
    for at, has in enumerate(nodes):
        cpu, gpus = has if isinstance(has, tuple) else (has, 0)
        node_specs.append(NodeSpec(f"n{at}", cpu, 0, gpus, "T4" if gpus else ""))
    rows = [(*pod[:4], pod[4] if len(pod) > 4 else {}) for pod in pods]
    specs: dict[PodSpec, int] = {}
    spec_of = []
    for _, cpu, _, _, more in rows:
        gpu = more.get("gpu", 0)
        spec = PodSpec(cpu_milli=cpu, gpu_count=math.ceil(gpu / 1000), gpu_milli=min(gpu, 1000))
        spec_of.append(specs.setdefault(spec, len(specs)))
    gang_at = {gang.name: at for at, gang in enumerate(gangs)}
    workload = Workload(
        names=[row[0] for row in rows],
        specs=list(specs),
        spec_of=np.array(spec_of, dtype=np.int64),
        arrival_s=np.array([row[2] for row in rows], dtype=np.float64),
        duration_s=np.array([row[3] for row in rows], dtype=np.float64),
        priority=np.array([row[4].get("priority", 0) for row in rows], dtype=np.int64),
        gang_of=np.array([gang_at.get(row[4].get("gang"), -1) for row in rows], dtype=np.int64),
        gangs=list(gangs),
    )
    return Trace("test", node_specs, workload)


def note(log, record):
    """Write down what changes; arrivals and refusals, of which there are many, are left out."""
    if record.what not in {What.ARRIVE, What.REFUSE}:
        log.append((record.time_s, record.what, record.pod or record.node))


def history(trace, *, faults=None, policy="best-fit", **options):
    """Everything that happens, and the result."""
    log: list[tuple[float, str, str]] = []
    fault_list = None if faults is None else Faults.of([Fault(*fault) for fault in faults], trace.nodes)
    result = run_clock(
        trace,
        load_profile(policy),
        settings=ClockSettings(**options),
        faults=fault_list,
        listeners=[partial(note, log)],
    )
    return log, result


def column(result, name):
    return np.asarray(result.pods[name]).tolist()


# --- an instant ------------------------------------------------------------------------------------------------------


def test_a_pod_starts_the_instant_room_is_freed():
    log, result = history(make_trace([1], [("a", 1, 0, 5), ("b", 1, 1, 2)]))
    assert log == [(0, "start", "a"), (5, "end", "a"), (5, "start", "b"), (7, "end", "b")]
    assert column(result, "wait_s") == [0, 4]
    assert column(result, "outcome") == ["finished", "finished"]


def test_at_one_instant_pods_leave_then_nodes_change_then_pods_arrive_then_the_scheduler_decides():
    pods = [("z", 1, 0, 5), ("late", 2, 5, 1), ("first", 1, 5, 1), ("second", 1, 5, 1, {"priority": 1})]
    log, _ = history(make_trace([1, 1], pods), faults=[(5, "n0", "fail"), (6, "n0", "repair")], fail_impossible=False)
    assert log == [
        (0, "start", "z"),
        (5, "end", "z"),
        (5, "fail", "n0"),
        (5, "start", "second"),
        (6, "end", "second"),
        (6, "repair", "n0"),
        (6, "start", "first"),
        (7, "end", "first"),
    ]


def test_pods_that_arrive_together_start_in_the_order_of_the_trace():
    log, result = history(make_trace([9], [("b", 1, 3, 1), ("a", 1, 3, 1), ("c", 1, 0, 1)]))
    assert [name for _, kind, name in log if kind == "start"] == ["c", "b", "a"]
    assert column(result, "pod") == ["c", "b", "a"]


def test_a_pod_without_duration_leaves_in_the_instant_it_starts():
    log, _ = history(make_trace([1], [("a", 1, 2, 0), ("b", 1, 2, 0)]))
    assert log == [(2, "start", "a"), (2, "end", "a"), (2, "start", "b"), (2, "end", "b")]


def test_a_higher_priority_goes_first_and_smaller_pods_pass_the_one_that_does_not_fit():
    pods = [("hold", 1, 0, 4), ("low", 2, 1, 1), ("high", 2, 2, 1, {"priority": 7}), ("small", 1, 3, 2)]
    log, _ = history(make_trace([2], pods))
    assert log == [
        (0, "start", "hold"),
        (3, "start", "small"),
        (4, "end", "hold"),
        (5, "end", "small"),
        (5, "start", "high"),
        (6, "end", "high"),
        (6, "start", "low"),
        (7, "end", "low"),
    ]


def test_ties_go_to_the_first_node_by_name_however_the_list_is_sorted():
    trace = make_trace([4, 4, 4], [("a", 1, 0, 1)])
    trace.nodes.reverse()
    _, result = history(trace)
    assert result.placements["node"] == ["n0"]


# --- pods that do not end, or never start -----------------------------------------------------------------------------


def test_a_pod_without_end_runs_on_and_what_cannot_follow_waits():
    log, result = history(make_trace([1], [("a", 1, 2, NEVER), ("b", 1, 4, 1)]))
    assert log == [(2, "start", "a")]
    assert column(result, "outcome") == ["running", "waiting"]
    assert result.pods["reason"] == ["", "no node fits: most have too little cpu"]
    assert result.summary["end_s"] == 4
    assert result.summary["makespan_s"] is None
    assert result.summary["still_waiting_s"] == {"mean": 0, "max": 0}


def test_a_pod_that_no_node_could_ever_take_fails_at_once():
    log, result = history(make_trace([2], [("big", 3, 1, 5), ("ok", 1, 1, 5)]))
    assert log == [(1, "give_up", "big"), (1, "start", "ok"), (6, "end", "ok")]
    why = "no node fits, even if empty: most have too little cpu"
    assert result.pods["reason"] == [why, ""]
    assert result.summary["failed_by_reason"] == {why: 1}


def test_or_it_waits_for_ever_if_asked_to():
    log, result = history(make_trace([2], [("big", 3, 1, 5), ("ok", 1, 1, 5)]), fail_impossible=False)
    assert log == [(1, "start", "ok"), (6, "end", "ok")]
    assert (column(result, "outcome"), column(result, "wait_s")) == (["waiting", "finished"], [5, 0])


def test_a_cordoned_node_counts_as_possible_only_if_it_is_ever_opened():
    trace = make_trace([4], [("a", 1, 0, 1)])
    trace.nodes = [dataclasses.replace(trace.nodes[0], unschedulable=True)]
    assert history(trace)[0] == [(0, "give_up", "a")]
    assert history(trace, faults=[(3, "n0", "uncordon")])[0] == [
        (3, "uncordon", "n0"),
        (3, "start", "a"),
        (4, "end", "a"),
    ]


def test_without_nodes_every_pod_fails():
    _, result = history(make_trace([], [("a", 1, 0, 1)]))
    assert result.pods["reason"] == ["there are no nodes"]


def test_without_pods_there_is_one_row_and_nothing_in_it():
    _, result = history(make_trace([1], []))
    assert np.asarray(result.timeline["time_s"]).tolist() == [0]
    assert (result.summary["pods"], result.summary["wait_s"]["p95"], result.summary["makespan_s"]) == (0, None, None)


@pytest.mark.parametrize(("arrival_s", "duration_s"), [(-1, 1), (math.inf, 1), (0, -1), (0, math.nan)])
def test_a_time_that_is_none_is_refused(arrival_s, duration_s):
    with pytest.raises(InputError, match="pod a arrives at"):
        history(make_trace([1], [("a", 1, arrival_s, duration_s)]))


# --- gangs -----------------------------------------------------------------------------------------------------------


def test_a_gang_starts_whole_or_waits_and_gives_up():
    pods = [
        ("hold", 1, 0, 10),
        ("g-1", 1, 1, 5, {"gang": "g"}),
        ("g-2", 1, 2, 5, {"gang": "g"}),
        ("h-1", 1, 11, 5, {"gang": "h"}),
        ("h-2", 1, 12, 5, {"gang": "h"}),
    ]
    log, result = history(make_trace([2], pods, [Gang("g", 2, 4), Gang("h", 2, 4)]))
    assert log == [
        (0, "start", "hold"),
        (5, "give_up", "g-1"),
        (5, "give_up", "g-2"),
        (10, "end", "hold"),
        (12, "start", "h-1"),
        (12, "start", "h-2"),
        (17, "end", "h-1"),
        (17, "end", "h-2"),
    ]
    why = "the gang gave up after 4 s: no room was found for 2 members together"
    assert result.pods["reason"] == ["", why, why, "", ""]
    assert column(result, "wait_s") == [0, 4, 3, 1, 0]


def test_an_incomplete_gang_says_what_it_waits_for():
    trace = make_trace([2], [("g-1", 1, 1, 5, {"gang": "g"})], [Gang("g", 2, 100)])
    _, result = history(trace, until_s=50)
    assert result.pods["reason"] == ["waits for the rest of its gang"]
    assert column(result, "wait_s") == [49]


# --- faults ----------------------------------------------------------------------------------------------------------


def test_a_failed_node_loses_its_pods_and_they_start_over():
    log, result = history(make_trace([1], [("a", 1, 0, 5)]), faults=[(3, "n0", "fail"), (10, "n0", "repair")])
    assert log == [
        (0, "start", "a"),
        (3, "fail", "n0"),
        (3, "evict", "a"),
        (10, "repair", "n0"),
        (10, "start", "a"),
        (15, "end", "a"),
    ]
    assert [column(result, name) for name in ("start_s", "wait_s", "run_s", "restarts")] == [[10], [7], [8], [1]]
    assert column(result, "slowdown") == [1.5]
    assert (result.summary["evicted"], result.summary["restarted_pods"]) == (1, 1)


def test_or_they_go_on_where_they_were():
    log, _ = history(
        make_trace([1], [("a", 1, 0, 5)]), faults=[(3, "n0", "fail"), (10, "n0", "repair")], after_failure="resume"
    )
    assert log[-2:] == [(10, "start", "a"), (12, "end", "a")]


def test_a_cordoned_node_keeps_its_pods_but_takes_no_more():
    trace = make_trace([2], [("a", 1, 0, 5), ("b", 1, 2, 1)])
    log, _ = history(trace, faults=[(1, "n0", "cordon"), (8, "n0", "uncordon")])
    assert log == [
        (0, "start", "a"),
        (1, "cordon", "n0"),
        (5, "end", "a"),
        (8, "uncordon", "n0"),
        (8, "start", "b"),
        (9, "end", "b"),
    ]


_RING = [("g-1", 1, 0, 9, {"gang": "g"}), ("g-2", 1, 0, 9, {"gang": "g"})]


def test_a_gang_that_loses_a_member_goes_on_and_takes_it_back():
    log, _ = history(make_trace([1, 1], _RING, [Gang("g", 2)]), faults=[(4, "n0", "fail"), (6, "n0", "repair")])
    assert log[2:] == [
        (4, "fail", "n0"),
        (4, "evict", "g-1"),
        (6, "repair", "n0"),
        (6, "start", "g-1"),
        (9, "end", "g-2"),
        (15, "end", "g-1"),
    ]


def test_or_it_starts_over_as_a_whole_with_a_new_timeout():
    trace = make_trace([1, 1], _RING, [Gang("g", 2, timeout_s=3)])
    log, _ = history(trace, faults=[(4, "n0", "fail"), (6, "n0", "repair")], gang_restart="all")
    assert log[2:] == [
        (4, "fail", "n0"),
        (4, "evict", "g-1"),
        (4, "evict", "g-2"),
        (6, "repair", "n0"),
        (6, "start", "g-1"),
        (6, "start", "g-2"),
        (15, "end", "g-1"),
        (15, "end", "g-2"),
    ]
    late, _ = history(trace, faults=[(4, "n0", "fail"), (8, "n0", "repair")], gang_restart="all")
    assert late[2:] == [
        (4, "fail", "n0"),
        (4, "evict", "g-1"),
        (4, "evict", "g-2"),
        (7, "give_up", "g-1"),
        (7, "give_up", "g-2"),
    ]


def test_faults_after_the_last_pod_is_gone_do_not_prolong_the_run():
    log, result = history(make_trace([1], [("a", 1, 0, 5)]), faults=[(100, "n0", "fail")])
    assert (log[-1], result.summary["end_s"]) == ((5, "end", "a"), 5)


# --- preemption ------------------------------------------------------------------------------------------------------

URGENT = [("low", 2, 0, 10), ("urgent", 2, 4, 3, {"priority": 1})]


def test_without_preemption_more_priority_waits_like_any_other():
    log, _ = history(make_trace([2], URGENT))
    assert log == [(0, "start", "low"), (10, "end", "low"), (10, "start", "urgent"), (13, "end", "urgent")]


@pytest.mark.parametrize(("after_failure", "end_s"), [("restart", 17), ("resume", 13)])
def test_a_pod_of_less_priority_makes_way_and_goes_on_later(after_failure, end_s):
    log, result = history(make_trace([2], URGENT), preemption=True, after_failure=after_failure)
    assert log == [
        (0, "start", "low"),
        (4, "preempt", "urgent"),
        (4, "evict", "low"),
        (4, "start", "urgent"),
        (7, "end", "urgent"),
        (7, "start", "low"),
        (end_s, "end", "low"),
    ]
    assert column(result, "restarts") == [1, 0]
    assert column(result, "wait_s") == [3, 0]
    assert result.summary["evicted"] == 1


def test_a_gang_that_restarts_as_a_whole_does_so_when_one_member_makes_way():
    gang = Gang("g", 2)
    pods = [("g0", 1, 0, 10, {"gang": "g"}), ("g1", 1, 0, 10, {"gang": "g"}), ("urgent", 1, 4, 3, {"priority": 1})]
    log, _ = history(make_trace([1, 1], pods, [gang]), preemption=True, gang_restart="all")
    assert log[2:] == [
        (4, "preempt", "urgent"),
        (4, "evict", "g0"),
        (4, "evict", "g1"),
        (4, "start", "urgent"),
        (7, "end", "urgent"),
        (7, "start", "g0"),
        (7, "start", "g1"),
        (17, "end", "g0"),
        (17, "end", "g1"),
    ]


# --- settings --------------------------------------------------------------------------------------------------------


def test_a_run_can_stop_early_and_pods_that_have_not_come_are_left_out():
    log, result = history(make_trace([1], [("a", 1, 0, 5), ("b", 1, 1, 5), ("c", 1, 9, 1)]), until_s=7)
    assert log == [(0, "start", "a"), (5, "end", "a"), (5, "start", "b")]
    assert column(result, "pod") == ["a", "b"]
    assert column(result, "run_s") == [5, 2]
    assert (result.summary["end_s"], result.summary["not_arrived"]) == (7, 1)
    assert result.timeline["time_s"][-1] == 7


def test_arrivals_can_come_closer_together():
    log, _ = history(make_trace([9], [("a", 1, 0, 5), ("b", 1, 8, 5)]), arrival_scale=0.25)
    assert log == [(0, "start", "a"), (2, "start", "b"), (5, "end", "a"), (7, "end", "b")]


def test_backoff_delays_a_pod_that_was_refused():
    trace = make_trace([1], [("a", 1, 0, 5), ("b", 1, 1, 1), ("c", 1, 4.5, 1)])
    log, _ = history(trace, backoff=Backoff(10, 60))
    assert log == [
        (0, "start", "a"),
        (5, "end", "a"),
        (11, "start", "b"),
        (12, "end", "b"),
        (12, "start", "c"),
        (13, "end", "c"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until_s": -1}, "until_s is -1"),
        ({"snapshot_every_s": math.nan}, "snapshot_every_s is nan"),
        ({"arrival_scale": 0}, "arrival_scale is 0"),
        ({"slowdown_threshold_s": 0}, "slowdown_threshold_s is 0"),
        ({"restart_time_s": -1}, "restart_time_s is -1"),
        ({"checkpoint_every_s": math.inf, "after_failure": "resume"}, "checkpoint_every_s is inf"),
        ({"checkpoint_every_s": 5}, 'checkpoint_every_s needs after_failure "resume"'),
        ({"oversubscription_loss": math.nan, "work": "shared-cpu"}, "oversubscription_loss is nan"),
        ({"oversubscription_loss": 1}, 'oversubscription_loss needs work "shared-cpu"'),
        ({"work": "shared"}, 'work is "shared"; it is "fixed" or "shared-cpu"'),
        ({"after_failure": "again"}, 'after_failure is "again"; it is "restart" or "resume"'),
        ({"gang_restart": "some"}, 'gang_restart is "some"; it is "member" or "all"'),
    ],
)
def test_a_setting_that_means_nothing_is_refused(options, message):
    with pytest.raises(OptionError, match=message):
        ClockSettings(**options)


# --- work ------------------------------------------------------------------------------------------------------------


def shared(pods, cpus, **options):
    trace = Trace("test", [NodeSpec(f"n{at}", cpu, 0) for at, cpu in enumerate(cpus)], make_workload(pods))
    log: list[tuple[float, str, str]] = []
    settings = ClockSettings(work="shared-cpu", **options)
    result = run_clock(trace, load_profile("best-fit"), settings=settings, listeners=[partial(note, log)])
    return log, result


def test_pods_that_share_cpu_are_placed_by_request_and_end_when_their_work_is_done():
    pods = {
        "a": {"cpu_milli": 500, "work_cpu_s": 4.0},
        "b": {"cpu_milli": 500, "work_cpu_s": 10.0},
        "late": {"cpu_milli": 500, "work_cpu_s": 1.0, "cpu_limit_milli": 500},
    }
    log, result = shared(pods, [1000], snapshot_every_s=5)
    assert log == [
        (0, "start", "a"),
        (0, "start", "b"),
        (8, "end", "a"),
        (8, "start", "late"),
        (10, "end", "late"),
        (15, "end", "b"),
    ]
    # Alone, a and b take 4 and 10 s on the one CPU, late 2 s within its limit; shorter than 10 s counts as 10 s.
    assert column(result, "slowdown") == [1, 1.5, 1]
    assert result.timeline["busy_cpu_milli"].tolist() == [1000, 1000, 1000, 0]
    assert result.nodes["cpu_busy_milli"].tolist() == [0]


def test_pods_that_end_together_leave_before_anybody_is_decided_about():
    pods = {
        "a": {"cpu_milli": 500, "work_cpu_s": 3.0},
        "b": {"cpu_milli": 500, "work_cpu_s": 3.0},
        "small": {"cpu_milli": 400, "work_cpu_s": 1.0, "arrival_s": 1.0},
        "big": {"cpu_milli": 1000, "work_cpu_s": 1.0, "arrival_s": 1.0, "priority": 1},
    }
    log, _ = shared(pods, [1000])
    assert log[2:5] == [(6, "end", "a"), (6, "end", "b"), (6, "start", "big")]


def test_a_fixed_duration_goes_on_from_its_last_checkpoint_and_pays_for_its_restart():
    pods = [("a", 1, 0, 10)]
    log, result = history(
        make_trace([1], pods),
        faults=[(8, "n0", "fail"), (9, "n0", "repair")],
        after_failure="resume",
        checkpoint_every_s=3,
        restart_time_s=2,
    )
    assert log[-1] == (15, "end", "a")  # 6 of 10 are kept; starts at 9, gets on from 11
    assert column(result, "run_s") == [14]


# --- what is measured ------------------------------------------------------------------------------------------------


def test_snapshots_show_what_is_so_after_everything_at_their_time():
    trace = make_trace([(4, 2)], [("a", 1, 1, 2, {"gpu": 1000}), ("b", 1, 2, 4, {"gpu": 2000}), ("c", 9, 3, 1)])
    _, result = history(trace, snapshot_every_s=1)
    timeline = {name: np.asarray(values).tolist() for name, values in result.timeline.items()}
    assert timeline["time_s"] == [1, 2, 3, 6, 7]  # nothing happens between 3 and 7, so 4 and 5 are left out
    assert timeline["arrived_gpu_milli"] == [1000, 3000, 3000, 3000, 3000]
    assert timeline["used_gpu_milli"] == [1000, 1000, 2000, 2000, 0]
    assert timeline["running"] == [1, 1, 1, 1, 0]
    assert timeline["waiting"] == [0, 1, 0, 0, 0]
    assert timeline["failed"] == [0, 0, 1, 1, 1]
    assert timeline["finished"] == [0, 0, 1, 1, 2]


def test_means_over_time_are_exact_whatever_the_snapshots():
    trace = make_trace([(4, 2)], [("a", 1, 0, 2, {"gpu": 1000}), ("b", 2, 1, 7, {"gpu": 1000})])
    summaries = [history(trace, snapshot_every_s=every_s)[1].summary for every_s in (0.3, 5, 1000, None)]
    for summary in summaries:
        # a: 1 GPU for 2 s, b: 1 GPU for 7 s; 2 GPUs for 8 s.
        assert summary["allocation"]["gpu_pct"] == pytest.approx(100 * 9 / 16)
        assert summary["allocation"]["cpu_pct"] == pytest.approx(100 * 16 / 32)
        assert summary["allocation"]["memory_pct"] is None
        assert summary["fragmentation"] == summaries[0]["fragmentation"]


def test_percentiles_slowdown_and_makespan():
    pods = [(f"p{number}", 1, 2, 20) for number in range(4)] + [("short", 1, 2, 1)]
    _, result = history(make_trace([1], pods))
    assert column(result, "wait_s") == [0, 20, 40, 60, 80]
    assert result.summary["wait_s"] == {"mean": 40, "p50": 40, "p95": 76, "p99": pytest.approx(79.2), "max": 80}
    assert column(result, "slowdown") == pytest.approx([1, 2, 3, 4, 8.1])
    assert result.summary["completion_s"]["mean"] == pytest.approx((20 + 40 + 60 + 80 + 81) / 5)
    assert result.summary["makespan_s"] == 81


def test_placements_are_in_order_of_the_last_start_and_then_of_submission():
    pods = [("big", 9, 0, 1), ("a", 1, 0, 5), ("b", 1, 1, 1), ("w", 3, 2, 1)]
    faults = [(2, "n0", "fail"), (3, "n0", "repair"), (4, "n0", "fail")]
    _, result = history(make_trace([2], pods), faults=faults, until_s=3.5, fail_impossible=False)
    assert [list(map(str, values)) for values in zip(*result.placements.values(), strict=True)] == [
        ["0", "b", "n0", "", "1.0"],
        ["1", "a", "n0", "", "3.0"],
        ["2", "big", "", "", "nan"],
        ["3", "w", "", "", "nan"],
    ]


def test_the_result_is_complete_and_ready_for_json():
    _, result = history(make_trace([(4, 2)], [("a", 1, 0, 2, {"gpu": 500})]))
    assert (result.protocol, result.load, result.by_load, result.total_gpus) == ("clock", None, None, 2)
    assert set(result.timeline) == {
        *("time_s", "arrived_gpu_milli", "used_gpu_milli", "used_cpu_milli", "used_memory_bytes", "idle_gpu_milli"),
        *("fragment_milli", *FRAGMENT_CLASSES, "running", "waiting", "failed", "finished"),
    }
    assert json.loads(json.dumps(result.summary)) == result.summary


def test_progress_ends_at_the_whole():
    told = []
    run_clock(
        make_trace([1], [("a", 1, 0, 5), ("b", 9, 1, 1)]),
        load_profile("best-fit"),
        on_progress=lambda done, whole: told.append((done, whole)),
    )
    assert told[-1] == (4, 4)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


# --- what always holds -----------------------------------------------------------------------------------------------


@st.composite
def worlds(draw):
    nodes = draw(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), min_size=1, max_size=4))
    gangs = [Gang(f"g{at}", draw(st.integers(1, 3)), draw(st.sampled_from([0.0, 3.0, 20.0]))) for at in range(3)]
    pods = []
    for number in range(draw(st.integers(0, 14))):
        more = {
            "gpu": draw(st.sampled_from([0, 0, 300, 500, 1000, 2000])),
            "priority": draw(st.integers(0, 2)),
            "gang": draw(st.sampled_from([None, None, None, "g0", "g1", "g2"])),
        }
        duration_s = draw(st.sampled_from([0.0, 1.0, 2.5, 7.0, 30.0, NEVER]))
        pods.append((f"p{number}", draw(st.integers(0, 7)), float(draw(st.integers(0, 12))), duration_s, more))
    trace = make_trace(nodes, pods, gangs)
    faults = None
    if draw(st.booleans()):
        faults = Faults.random(trace.nodes, mttf_s=12, mttr_s=4, until_s=40, seed=draw(st.integers(0, 50)))
    options = {
        "snapshot_every_s": draw(st.sampled_from([None, 0.5, 1.0, 7.0])),
        "until_s": draw(st.sampled_from([None, None, 6.0, 20.0])),
        "after_failure": draw(st.sampled_from(["restart", "resume"])),
        "gang_restart": draw(st.sampled_from(["member", "all"])),
        "fail_impossible": draw(st.booleans()),
        "backoff": draw(st.sampled_from([Backoff(0, 0), Backoff(1, 10)])),
        "preemption": draw(st.booleans()),
        "gang_reserve_after_s": draw(st.sampled_from([None, None, 0.0, 2.0])),
    }
    return trace, faults, ClockSettings(**options), draw(st.sampled_from(["best-fit", "fgd", "random"]))


def run_logged(world):
    trace, faults, clock_settings, policy = world
    log = []
    result = run_clock(
        trace,
        load_profile(policy),
        seed=3,
        settings=clock_settings,
        faults=faults,
        listeners=[partial(note, log)],
    )
    return result, log


def tables(result):
    return [
        {name: np.asarray(values).tolist() for name, values in table.items()}
        for table in (result.placements, result.pods, result.nodes, result.timeline)
    ]


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_every_pod_that_has_arrived_is_somewhere_at_every_snapshot(world):
    result, _ = run_logged(world)
    arrival_s = world[0].workload.arrival_s
    timeline = {name: np.asarray(values) for name, values in result.timeline.items()}
    arrived = [int((arrival_s <= time_s).sum()) for time_s in timeline["time_s"]]
    somewhere = timeline["running"] + timeline["finished"] + timeline["waiting"] + timeline["failed"]
    assert somewhere.tolist() == arrived
    assert (np.diff(timeline["time_s"]) > 0).all()
    assert (np.diff(timeline["finished"]) >= 0).all()
    if len(arrival_s):  # without pods nothing is typical
        assert np.allclose(sum(timeline[name] for name in FRAGMENT_CLASSES), timeline["idle_gpu_milli"])
    last = {name: int(timeline[name][-1]) for name in ("running", "waiting", "failed", "finished")}
    assert last == {name: result.summary[name] for name in last}
    assert last == {name: result.pods["outcome"].count(name) for name in last}


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_no_node_is_ever_over_its_capacity_and_pods_start_and_end_as_they_should(world):
    trace, _, clock_settings, _ = world
    result, log = run_logged(world)
    nodes = {name: np.asarray(values) for name, values in result.nodes.items()}
    assert (nodes["cpu_free_milli"] >= 0).all()
    assert (nodes["gpu_free_milli"] >= 0).all()
    assert all(int(free) >= 0 for row in result.nodes["gpu_free_milli_by_device"] for free in row.split("-") if free)
    total_cpu = sum(node.cpu_milli for node in trace.nodes)
    assert (np.asarray(result.timeline["used_cpu_milli"]) <= total_cpu).all()
    assert (np.asarray(result.timeline["idle_gpu_milli"]) >= 0).all()
    running: set[str] = set()
    duration_s = dict(zip(trace.workload.names, trace.workload.duration_s.tolist(), strict=True))
    started_s: dict[str, float] = {}
    for time_s, kind, name in log:
        if kind == "start":
            assert name not in running
            running.add(name)
            started_s[name] = time_s
        elif kind in ("end", "evict"):
            running.remove(name)
            if kind == "end" and clock_settings.after_failure == "restart":
                assert time_s == started_s[name] + duration_s[name]
    assert sorted(running) == sorted(
        name for name, outcome in zip(result.pods["pod"], result.pods["outcome"], strict=True) if outcome == "running"
    )
    times_s = [entry[0] for entry in log]
    assert times_s == sorted(times_s)


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_a_gang_starts_with_all_it_needs_or_not_at_all(world):
    trace, *_ = world
    _, log = run_logged(world)
    workload = trace.workload
    for at, gang in enumerate(workload.gangs):
        members = {workload.names[index] for index in np.flatnonzero(workload.gang_of == at)}
        starts_s = [time_s for time_s, kind, name in log if kind == "start" and name in members]
        if starts_s:
            assert starts_s.count(starts_s[0]) >= gang.min_members
        # A first start is either with the others or after them, never before.
        assert starts_s == sorted(starts_s)


@settings(max_examples=50, deadline=None)
@given(worlds())
def test_the_same_seed_gives_the_same_bytes(world):
    first, first_log = run_logged(world)
    again, again_log = run_logged(world)
    assert repr(tables(first)) == repr(tables(again))
    assert json.dumps(first.summary) == json.dumps(again.summary)
    assert first_log == again_log


@settings(max_examples=50, deadline=None)
@given(worlds())
def test_a_wait_is_time_spent_waiting(world):
    result, log = run_logged(world)
    end_s = result.summary["end_s"]
    for name, submit_s, wait_s, run_s, outcome in zip(
        *(result.pods[key] for key in ("pod", "submit_s", "wait_s", "run_s", "outcome")), strict=True
    ):
        last_s = end_s if outcome in ("running", "waiting") else max(entry[0] for entry in log if entry[2] == name)
        assert wait_s + run_s == pytest.approx(last_s - submit_s)


def test_the_public_trace_fits_its_cluster_and_nobody_waits(openb_csv):
    trace = load(openb_csv / OPENB_NODES, openb_csv / "openb_pod_list_default.csv")
    result = run_clock(trace, load_profile("fgd"))
    assert (result.summary["pods"], result.summary["finished"], result.summary["waiting"]) == (8152, 8152, 0)
    assert result.summary["wait_s"]["max"] == 0
    # Independent of the simulator: GPU time asked for, over all GPU time there is until the last pod leaves.
    workload = trace.workload
    milli = np.array([spec.gpu_count * spec.gpu_milli for spec in workload.specs])[workload.spec_of]
    whole = (workload.arrival_s + workload.duration_s).max() - workload.arrival_s.min()
    expected = float((milli * workload.duration_s).sum()) / (1000 * result.total_gpus * whole)
    assert result.summary["allocation"]["gpu_pct"] == pytest.approx(100 * expected, rel=1e-9)
