"""Progress placement against the published formulas, written down once more and by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.controllers import load_companions, load_controllers
from foresail.controllers.watch_progress import WatchProgress
from foresail.core.control import CPU_USED_MILLI, CPU_USED_S, STEPS_DONE, STEPS_TOTAL, RunningPod, View
from foresail.core.decide import decide
from foresail.core.model import Placement
from foresail.core.spec import NodeSpec, Training
from foresail.errors import OptionError
from foresail.policies import policy
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.testing import check_controller, make_pod, make_table, make_view, make_workload
from foresail.testing.builders import Readings
from foresail.traces.trace import Trace

# --- the oracle ------------------------------------------------------------------------------------------------------


def published(jobs, total, now, alpha=1):
    """Score of a node that is within its limit, score if all are over, and whether it is over.

    A job is a dict with `start` and `submit`, `total_epochs`; once it has reported twice also `cpu`, `epoch` and
    `epoch_time`. Fractions, so that nothing is rounded before ⌈ ⌉.
    """
    n = len(jobs)
    reporting = [job for job in jobs if "epoch_time" in job]
    used = Fraction(0)
    if reporting:
        used = Fraction(n, len(reporting)) * sum(Fraction(job["cpu"]) for job in reporting)
        if used > total:
            used = Fraction(total)
    c = over_c = 1
    for job in jobs:
        if "epoch_time" in job:
            u = Fraction(job["cpu"]) / used
            left = Fraction(job["total_epochs"]) - Fraction(job["epoch"])
            c += math.ceil(Fraction(job["epoch_time"]) / u * left)
            over_c += math.ceil(Fraction(job["epoch_time"]) * n * left)
        else:
            u = Fraction(1, n)
            c += math.ceil((Fraction(now) - Fraction(job["start"])) / u * Fraction(job["total_epochs"]))
            over_c += math.ceil((Fraction(now) - Fraction(job["submit"])) * n * Fraction(job["total_epochs"]))
    return c * n, over_c * n, used > Fraction(alpha) * total


def best(nodes):
    """Index of the node that wins, the first of equals."""
    within = [at for at, (_, _, over) in enumerate(nodes) if not over]
    if within:
        return min(within, key=lambda at: nodes[at][0])
    return min(range(len(nodes)), key=lambda at: nodes[at][1])


def test_the_oracle_by_hand():
    # used = 3/2 · (400 + 200) = 900 of 1600. U = 4/9 and 2/9, P = 2·9/4·90 = 405 and 4·9/2·50 = 900; the third has
    # U = 1/3 and P = 7·3·100 = 2100. C = 3406. If all are over: 2·3·90 + 4·3·50 + 10·3·100 = 4140.
    jobs = [
        {"cpu": 400, "epoch_time": 2, "epoch": 10, "total_epochs": 100, "start": 0, "submit": 0},
        {"cpu": 200, "epoch_time": 4, "epoch": 50, "total_epochs": 100, "start": 0, "submit": 0},
        {"total_epochs": 100, "start": 23, "submit": 20},
    ]
    assert published(jobs, 1600, 30) == (3406 * 3, 4141 * 3, False)
    assert published(jobs, 1600, 30, alpha=Fraction(1, 2)) == (3406 * 3, 4141 * 3, True)
    assert published([], 1600, 30) == (0, 0, False)


# --- on the table ----------------------------------------------------------------------------------------------------


def watched(nodes, now=30.0, cpus=None, watch=None):
    """A table with these jobs on its nodes, seen by the watcher twice: an epoch before the last row of each, and now.

    Every job's rows come 10 steps apart.
    """
    table = make_table(allocatable=[(cpu, 0, 0) for cpu in cpus or [16_000] * len(nodes)])
    watch = watch or WatchProgress()
    running, readings = {}, {}
    for at, jobs in enumerate(nodes):
        for number, job in enumerate(jobs):
            pod = make_pod(f"job-{at}-{number}", nodes=table)
            pod.arrival_s = job["submit"]
            running.setdefault(f"node-{at}", []).append((pod, job))
            readings[pod.uid, CPU_USED_MILLI] = 10.0 * job.get("cpu", 0)
    by_node = {node: [pod for pod, _ in pods] for node, pods in running.items()}
    view = make_view(table, by_node, now_s=0.0, readings=readings)
    looks = sorted({now, *(now - job["epoch_time"] for jobs in nodes for job in jobs if "epoch_time" in job)})
    for look_s in looks:
        for pods in running.values():
            for pod, job in pods:
                view.running[pod.uid] = view.running[pod.uid]._replace(since_s=job["start"])
                if "epoch_time" in job and look_s >= now - job["epoch_time"]:
                    readings[pod.uid, STEPS_DONE] = 10.0 * (job["epoch"] - (look_s < now))
                    readings[pod.uid, STEPS_TOTAL] = 10.0 * job["total_epochs"]
        assert watch.act(View(look_s, table, view.running, view.telemetry)) == []
    return table


JOB = st.fixed_dictionaries(
    {"start": st.integers(0, 30), "submit": st.integers(0, 5), "total_epochs": st.just(100)},
    optional={"reports": st.tuples(st.integers(1, 600), st.integers(1, 20), st.integers(2, 100))},
)


def flat(job):
    reports = job.pop("reports", None)
    job["submit"] = min(job["submit"], job["start"])
    if reports is None:
        return job
    return job | dict(zip(("cpu", "epoch_time", "epoch"), reports, strict=True))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(JOB.map(flat), max_size=4), min_size=2, max_size=4), st.sampled_from([0.25, 0.5, 0.75, 1.0]))
def test_the_node_of_the_published_formulas_wins(nodes, limit):
    table = watched(nodes)
    pod = make_pod("new", nodes=table)
    raw = policy("progress", limit=limit).score(pod, table.all)
    expected = [published(jobs, 1600, 30, Fraction(limit)) for jobs in nodes]
    for at, (score, score_if_over, over) in enumerate(expected):
        found = -raw[at]
        # ⌈ ⌉ of a number that rounding puts just above a whole one is one more, for each job.
        far = 2.0**52 if over else 0.0
        assert found - far == pytest.approx(score_if_over if over else score, abs=len(nodes[at]) ** 2)
        assert (found >= 2.0**52) == over
    exact = [(int(-raw[at]), int(-raw[at] - 2**52), over) for at, (_, _, over) in enumerate(expected)]
    assert int(raw.argmax()) == best(exact)


def test_the_example_by_hand_and_a_limit_that_all_are_over():
    jobs = [
        {"cpu": 400, "epoch_time": 2, "epoch": 10, "total_epochs": 100, "start": 0, "submit": 0},
        {"cpu": 200, "epoch_time": 4, "epoch": 50, "total_epochs": 100, "start": 0, "submit": 0},
        {"total_epochs": 100, "start": 23, "submit": 20},
    ]
    # Alone: used = U = all it has, so P = 2·50 = 100 and C·n = 101.
    other = [{"cpu": 1200, "epoch_time": 2, "epoch": 50, "total_epochs": 100, "start": 0, "submit": 0}]
    table = watched([jobs, other])
    pod = make_pod("new", nodes=table)
    assert policy("progress").score(pod, table.all).tolist() == [-10218.0, -101.0]
    # 900 of 1600 are below 0.6, 1200 are not; below 0.5 neither is.
    far = 2.0**52
    assert policy("progress", limit=0.6).score(pod, table.all).tolist() == [-10218.0, -101.0 - far]
    assert policy("progress", limit=0.5).score(pod, table.all).tolist() == [-4141.0 * 3 - far, -101.0 - far]


def test_used_cpu_ends_at_what_the_node_has_so_a_full_node_is_not_over_a_limit_of_one():
    busy = {"epoch_time": 2, "epoch": 50, "total_epochs": 100, "start": 0, "submit": 0}
    table = watched([[busy | {"cpu": 500}, {"total_epochs": 100, "start": 30, "submit": 0}]], cpus=[8000])
    # used = 2 · 500 = 1000, at most 800: U = 5/8, P = 2·8/5·50 = 160 and 0.
    assert policy("progress").score(make_pod(nodes=table), table.all).tolist() == [-161.0 * 2]
    assert policy("progress", limit=0.99).score(make_pod(nodes=table), table.all)[0] < -(2.0**52)


def test_where_nobody_watches_the_node_with_fewest_pods_wins():
    table = make_table(allocatable=[(4000, 0, 0)] * 3)
    for number, node in enumerate((0, 0, 1, 2, 2)):
        table.assume(make_pod(f"p{number}", nodes=table), Placement(node, f"node-{node}"))
    assert policy("progress").score(make_pod(nodes=table), table.all).tolist() == [-2.0, -1.0, -2.0]


def test_pods_that_came_or_left_since_the_last_look_count():
    done = {"cpu": 100, "epoch_time": 1, "epoch": 100, "total_epochs": 100, "start": 0, "submit": 0}
    left = {"cpu": 100, "epoch_time": 1, "epoch": 98, "total_epochs": 100, "start": 0, "submit": 0}
    table = watched([[dict(left)], [dict(done)], []])
    scorer, pod = policy("progress"), make_pod("new", nodes=table)
    assert scorer.score(pod, table.all).tolist() == [-3.0, -1.0, 0.0]
    table.assume(pod, Placement(1, "node-1"))
    table.assume(make_pod("late", nodes=table), Placement(2, "node-2"))
    table.forget("job-0-0")
    assert scorer.score(make_pod("next", nodes=table), table.all).tolist() == [0.0, -2.0, -1.0]


def test_in_a_mix_the_best_gets_100_the_worst_within_the_limit_0_and_those_over_it_0():
    far = 2.0**52
    raw = np.array([-300.0, -100.0, -200.0, -far - 5.0])
    scorer, table = policy("progress"), make_table(allocatable=[(4000, 0, 0)] * 4)
    normalize = lambda raw: scorer.normalize(make_pod(), table.all, raw).tolist()  # noqa: E731
    assert normalize(raw) == [0.0, 100.0, 50.0, 0.0]
    assert normalize(raw[3:]) == [100.0]
    assert normalize(np.array([-far - 5.0, -far - 1.0])) == [0.0, 100.0]
    assert normalize(raw[:0]) == []


# --- the watcher -----------------------------------------------------------------------------------------------------


def look(watch, table, pod, now_s, readings, since_s=0.0):
    running = {pod.uid: RunningPod(pod, "node-0", since_s, pod.spec.cpu_milli)}
    told = Readings({(pod.uid, name): value for name, value in readings.items()})
    watch.act(View(now_s, table, running, told))
    return table.side_column("progress.cost", 1.0).values[0]


def test_two_rows_make_an_epoch_a_restart_begins_anew_and_nonsense_is_no_row():
    table = make_table(allocatable=[(4000, 0, 0)])
    pod, watch = make_pod("job", nodes=table), WatchProgress(epochs=7.0)
    steps = lambda done, total=100.0: {CPU_USED_MILLI: 500.0, STEPS_DONE: done, STEPS_TOTAL: total}  # noqa: E731
    assert look(watch, table, pod, 2.0, {}) == 1 + 2 * 7  # nothing is known of its epochs
    assert look(watch, table, pod, 4.0, steps(20.0)) == 1 + 4 * 5  # one row at step 20 of 100
    assert look(watch, table, pod, 6.0, steps(30.0)) == 1 + 2 * 7  # 10 steps in 2 s, 7 times as many left
    assert look(watch, table, pod, 8.0, steps(30.0)) == 1 + 2 * 7  # the same row
    assert look(watch, table, pod, 9.0, steps(math.nan)) == 1 + 2 * 7
    assert look(watch, table, pod, 9.0, steps(200.0)) == 1 + 2 * 7  # more than there are
    assert look(watch, table, pod, 10.0, steps(50.0)) == 1 + 4 * 2.5
    assert look(watch, table, pod, 12.0, steps(25.0)) == 1 + 12 * 4  # a restart: one row again
    assert look(watch, table, pod, 14.0, steps(75.0)) == 1 + 1  # 50 steps in 2 s, half an epoch left
    assert look(watch, table, pod, 15.0, steps(100.0)) == 1.0


def test_cpu_comes_from_what_was_used_between_two_looks_where_nobody_measures_it():
    table = make_table(allocatable=[(4000, 0, 0)])
    pod, watch = make_pod("job", nodes=table), WatchProgress()
    used = table.side_column("progress.used")
    for now_s, used_s in ((0.0, 0.0), (5.0, 10.0), (10.0, 15.0)):
        look(watch, table, pod, now_s, {CPU_USED_S: used_s, STEPS_DONE: now_s + 1, STEPS_TOTAL: 100.0})
        assert used.values[0] == {0.0: 0.0, 5.0: 0.5, 10.0: 0.25}[now_s]
    look(watch, table, pod, 15.0, {CPU_USED_S: 20.0, CPU_USED_MILLI: 3000.0, STEPS_DONE: 20.0, STEPS_TOTAL: 100.0})
    assert used.values[0] == 0.75


def test_pods_of_the_system_are_no_jobs_and_nothing_is_kept_of_jobs_that_are_gone():
    table = make_table(allocatable=[(4000, 0, 0)])
    watch = WatchProgress()
    look(watch, table, make_pod("job", nodes=table), 5.0, {STEPS_DONE: 5.0, STEPS_TOTAL: 9.0, CPU_USED_S: 1.0})
    assert (len(watch._rows), len(watch._used)) == (1, 1)
    watch.act(make_view(table, {}, now_s=9.0))
    assert (watch._rows, watch._used) == ({}, {})
    assert table.side_column("progress.cost", 1.0).values.tolist() == [1.0]


def test_the_contract_holds():
    check_controller(WatchProgress())
    with pytest.raises(ValueError, match="every_s is 0"):
        WatchProgress(every_s=0)
    with pytest.raises(ValueError, match="epochs is 0"):
        WatchProgress(epochs=0)
    with pytest.raises(OptionError, match=r"limit is 0\.0; it is a part of a node's CPU, above 0"):
        policy("progress", limit=0)


# --- companions ------------------------------------------------------------------------------------------------------


def test_a_policy_brings_its_controller_along_unless_one_of_that_name_is_given():
    companions = load_profile("progress(every_s=2)").companions
    assert list(load_companions(companions)) == ["watch-progress:every_s=2.0,epochs=100.0"]
    assert load_companions(companions, beside=load_controllers(["watch-progress:every_s=1"])) == {}
    assert list(load_companions(companions, beside=load_controllers(["equal-shares"])))
    assert load_profile("progress:2+progress:1").companions == load_profile("progress").companions
    assert load_profile("fgd").companions == ()
    with pytest.raises(OptionError, match="every_s is 0"):
        load_companions(load_profile("progress(every_s=0)").companions)


# --- in the simulator ------------------------------------------------------------------------------------------------


class Oracle:
    """Keeps its own books of every job, by what is measured, and says which node the formulas give."""

    every_s = 5.0

    def __init__(self):
        self.rows = {}
        self.nodes = {}
        self.pods = {}

    def act(self, view):
        on = {name: [] for name in view.table.names}
        for uid, one in view.running.items():
            step = view.telemetry.reading(uid, STEPS_DONE)
            rows = self.rows.setdefault(uid, [])
            if step is not None and (not rows or rows[-1][1] != step):
                rows.append((view.now_s, step))
            job = {"start": one.since_s, "submit": one.pod.arrival_s, "total_epochs": 50}
            if rows:
                job["total_epochs"] = Fraction(view.telemetry.reading(uid, STEPS_TOTAL)) / Fraction(rows[0][1])
            if len(rows) > 1:
                (before_s, before), (at_s, at) = rows[-2:]
                job["total_epochs"] = Fraction(view.telemetry.reading(uid, STEPS_TOTAL)) / Fraction(at - before)
                job["epoch"] = Fraction(at) / Fraction(at - before)
                job["epoch_time"] = Fraction(at_s) - Fraction(before_s)
                job["cpu"] = view.telemetry.reading(uid, CPU_USED_MILLI)
            on[one.node].append(job)
        self.nodes = {
            name: (jobs, published(jobs, int(view.table.allocatable[view.table.row_of[name], 0]), view.now_s))
            for name, jobs in on.items()
        }
        self.pods = dict(zip(view.table.names, view.table.pod_count.tolist(), strict=True))
        return []


@pytest.mark.parametrize("seed", range(4))
def test_every_job_goes_where_the_formulas_say_as_of_the_last_look(seed):
    random = np.random.default_rng(seed)
    training = Training("t", steps=1000, report_every=10, loss=(1.0, 0.0))
    pods = {
        f"job-{number:02}": {
            "cpu_milli": 100,
            "cpu_limit_milli": 4000,
            "work_cpu_s": float(random.integers(50, 600)),
            "arrival_s": float(random.integers(0, 200)),
            "training": training,
        }
        for number in range(25)
    }
    nodes = [NodeSpec(f"n{at}", cpu, 0) for at, cpu in enumerate((4000, 8000, 8000))]
    oracle, decisions, fewest = Oracle(), [], []

    def listening(pod, table, profile):
        outcome = decide(pod, table, profile)
        expected = {}
        for row, name in enumerate(table.names):
            if not oracle.nodes:
                expected[name] = int(table.pod_count[row])
                continue
            jobs, (score, _, _) = oracle.nodes[name]
            now = len(jobs) + int(table.pod_count[row]) - oracle.pods[name]
            expected[name] = (score // len(jobs) if jobs else 1) * now
        counts = dict(zip(table.names, table.pod_count.tolist(), strict=True))
        decisions.append((expected, outcome.node))
        fewest.append(counts[outcome.node] == min(counts.values()))
        return outcome

    result = run_clock(
        Trace("test", nodes, make_workload(pods)),
        load_profile("progress(epochs=50)"),
        settings=ClockSettings(work="shared-cpu"),
        controllers={"oracle": oracle},
        decide=listening,
    )
    assert result.summary["finished"] == 25
    assert len(decisions) == 25
    for expected, node in decisions:
        # Within one for each ⌈ ⌉ that rounding may lift, times the jobs.
        assert expected[node] <= min(expected.values()) * 1.0001 + 64
    assert len({node for _, node in decisions}) == 3
    assert not all(fewest), "to count pods would do"
    # What it relies on is no part of what was asked for.
    assert result.controllers == ("oracle",)


def test_the_policy_alone_is_a_run_without_controllers_as_far_as_results_go():
    pods = {f"p{at}": {"cpu_milli": 100, "duration_s": 50.0, "arrival_s": float(at)} for at in range(4)}
    trace = Trace("test", [NodeSpec(f"n{at}", 4000, 0) for at in range(2)], make_workload(pods))
    result = run_clock(trace, load_profile("progress"))
    assert (result.controllers, result.summary["finished"]) == ((), 4)
    assert not {"journal", "candidates"} & result.tables.keys()
    again = run_clock(trace, load_profile("progress"))
    assert again.placements["node"] == result.placements["node"]
