"""Runs that are stepped from outside: what they ask, what they take for an answer, and that they are the same runs."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.control import Hold, Move, Resize
from foresail.core.model import NoFit, Placement
from foresail.core.spec import Gang, NodeSpec, PodSpec, Workload
from foresail.errors import ControllerError, PolicyError
from foresail.policies.profiles.load import load_profile
from foresail.results.folder import run_files
from foresail.sim.faults import Fault, Faults
from foresail.sim.protocols.clock import clock_episode, run_clock
from foresail.sim.protocols.clock_settings import ClockSettings, parse_backoff
from foresail.sim.protocols.openb import openb_episode, run_openb
from foresail.testing import make_workload
from foresail.traces.generate.generate import GenerateSettings, generate
from foresail.traces.trace import Trace


def busy_trace(seed: int = 0, pods: int = 240) -> Trace:
    """Queues, priorities, gangs and GPU shares on a little cluster."""
    random = np.random.default_rng(seed)
    specs = [PodSpec(cpu_milli=1000), PodSpec(cpu_milli=4000, gpu_count=2, gpu_milli=1000)]
    specs += [PodSpec(cpu_milli=500, gpu_count=1, gpu_milli=milli) for milli in (250, 400, 1000)]
    workload = Workload(
        names=[f"p{number}" for number in range(pods)],
        specs=specs,
        spec_of=random.integers(0, len(specs), pods),
        arrival_s=np.sort(random.integers(0, 240, pods)).astype(np.float64),
        duration_s=random.integers(0, 60, pods).astype(np.float64),
        priority=random.integers(0, 3, pods),
        gang_of=np.where(random.random(pods) < 0.15, random.integers(0, 6, pods), -1),
        gangs=[Gang(f"g{number}", 3, 50.0) for number in range(6)],
    )
    return Trace("busy", [NodeSpec(f"n{number}", 8000, 0, 4, "T4") for number in range(4)], workload)


def busy_faults(trace: Trace) -> Faults:
    events = [(50.0, "n1", "fail"), (90.0, "n1", "repair"), (120.0, "n2", "cordon"), (160.0, "n3", "fail")]
    events += [(200.0, "n2", "uncordon"), (210.0, "n3", "repair")]
    return Faults.of([Fault(*event) for event in events], trace.nodes)


class Restless:
    """Moves, resizes and holds, so that every kind of question meets every kind of change."""

    every_s = 7.0

    def act(self, view):
        running = [one.pod for one in view.running.values() if one.pod.gang is None]
        actions = [Move(pod, "for a change") for pod in running[:1]]
        actions += [Move(pod, "over there", node="n0") for pod in running[1:2]]
        actions += [Resize(pod, pod.spec.cpu_milli + 100, "a little more") for pod in running[2:4]]
        return actions + [
            Hold(pod, node, "for later", for_s=5.0) for pod, node in zip(running[4:6], ("n2", "n3"), strict=False)
        ]


CLOCKS = {
    "plain": {},
    "faults": {"after_failure": "resume", "gang_restart": "all"},
    "preemption": {"preemption": True, "backoff": parse_backoff("1:20")},
    "controllers": {"preemption": True},
    "shared-cpu": {"work": "shared-cpu", "restart_time_s": 2.0, "until_s": 300.0},
}


def clock_options(kind: str, trace: Trace) -> dict:
    """How a run of each kind is asked for, besides trace and profile."""
    return {
        "settings": ClockSettings(**CLOCKS[kind]),
        "faults": busy_faults(trace) if kind in {"faults", "preemption", "shared-cpu"} else None,
        "controllers": {"restless": Restless()} if kind in {"controllers", "shared-cpu"} else None,
        "seed": 3,
    }


def generated(pods: int = 600) -> Trace:
    return Trace("generated", *generate(GenerateSettings(nodes=12, pods=pods, seed=5, spec_share=0.2)))


def go(episode, answer):
    """Answer for every pod; returns the bytes of the results and everything that was answered."""
    answers = []
    while (pod := episode.next()) is not None:
        answers.append(answer(episode, pod))
        episode.answer(answers[-1])
    return run_files(episode.result(), {}), answers


def as_decided(episode, _pod):
    return episode.decide()


class Repeat:
    """Gives answers that were given before, in words of its own."""

    def __init__(self, answers) -> None:
        self._answers = iter(answers)

    def __call__(self, episode, _pod):
        before = next(self._answers)
        if isinstance(before, NoFit):
            assert not episode.feasible().any()
            return None
        assert episode.feasible()[before.row]
        return Placement(before.row, before.node, before.devices)


@pytest.mark.parametrize("policy", ["fgd", "best-fit", "random", "kubernetes", "power:100+fgd:900"])
def test_an_openb_episode_answered_as_the_profile_decides_is_that_run_to_the_last_byte(policy):
    wanted = run_files(run_openb(generated(), load_profile(policy), load=1.2, seed=7), {})
    found, answers = go(openb_episode(generated(), load_profile(policy), load=1.2, seed=7), as_decided)
    assert found == wanted
    assert {type(answer) for answer in answers} == {Placement, NoFit}
    again, _ = go(openb_episode(generated(), load_profile(policy), load=1.2, seed=7), Repeat(answers))
    assert again == wanted


@pytest.mark.parametrize("policy", ["fgd", "random", "kubernetes"])
@pytest.mark.parametrize("kind", CLOCKS)
def test_a_clock_episode_answered_as_the_profile_decides_is_that_run_to_the_last_byte(kind, policy):
    trace = busy_trace()
    result = run_clock(trace, load_profile(policy), **clock_options(kind, trace))
    wanted = run_files(result, {})
    found, answers = go(clock_episode(trace, load_profile(policy), **clock_options(kind, trace)), as_decided)
    assert found == wanted
    assert {type(answer) for answer in answers} == {Placement, NoFit}
    if kind in {"controllers", "shared-cpu"}:
        assert {"move", "resize", "hold"} <= {str(what) for what in result.tables["journal"]["what"]}
    if kind != "plain":
        assert result.summary["evicted"] or kind == "controllers"
    if policy != "random":  # which draws when it is asked, and is not asked here
        again, _ = go(clock_episode(trace, load_profile(policy), **clock_options(kind, trace)), Repeat(answers))
        assert again == wanted


# --- wrong answers ---------------------------------------------------------------------------------------------------


def asked(pods, *, cpus=(1000, 4000), gpus=0, **options):
    """An episode that asks about its first pod."""
    nodes = [NodeSpec(f"n{at}", cpu, 0, gpus, "T4" if gpus else "") for at, cpu in enumerate(cpus)]
    episode = clock_episode(
        Trace("test", nodes, make_workload(pods)), load_profile("best-fit"), settings=ClockSettings(**options)
    )
    assert episode.next() is not None
    return episode


def test_a_node_that_does_not_take_the_pod_is_no_answer_and_the_pod_is_asked_for_again():
    episode = asked({"a": {"cpu_milli": 2000}})
    said = r"n0 does not take a: have too little cpu; Episode.feasible\(\) tells which nodes do"
    with pytest.raises(PolicyError, match=said):
        episode.on(0)
    with pytest.raises(PolicyError, match=said):
        episode.answer(Placement(0, "n0"))
    assert episode.next().name == "a"
    assert episode.feasible().tolist() == [False, True]
    episode.answer(episode.on(1))
    assert episode.next() is None
    assert episode.result().tables["placements"]["node"] == ["n1"]


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        (Placement(2, "n2"), "the answer for a is row 2; rows go from 0 to 1"),
        (Placement(-1, "n1"), "the answer for a is row -1; rows go from 0 to 1"),
        (Placement(1, "n0"), "the answer for a names n0 and row 1, which is n1"),
        (Placement(1, "n1", (0,)), r"a cannot have the GPUs \[0\] of n1: it requests 0 different ones"),
    ],
)
def test_what_is_no_node_is_no_answer(placement, said):
    episode = asked({"a": {"cpu_milli": 500}})
    with pytest.raises(PolicyError, match=said):
        episode.answer(placement)


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ((), "it requests 2 different ones"),
        ((1,), "it requests 2 different ones"),
        ((1, 1), "it requests 2 different ones"),
        ((1, 2, 3), "it requests 2 different ones"),
        ((1, 4), "the node has 4, counted from 0"),
        ((-1, 1), "the node has 4, counted from 0"),
        ((0, 1), r"it requests 1000 milli of each, and free are \[700, 1000\]"),
    ],
)
def test_devices_that_are_not_free_or_not_there_are_no_answer(devices, said):
    pods = {"share": {"cpu_milli": 1, "gpu_count": 1, "gpu_milli": 300}}
    pods["two"] = {"cpu_milli": 1, "gpu_count": 2, "gpu_milli": 1000}
    episode = asked(pods, gpus=4)
    episode.answer(episode.on(0, devices=(0,)))
    assert episode.next().name == "two"
    with pytest.raises(PolicyError, match=f"of n0: {said}"):
        episode.answer(Placement(0, "n0", devices))
    with pytest.raises(PolicyError, match=f"of n0: {said}"):
        episode.on(0, devices)
    episode.answer(episode.on(0, devices=(3, 1)))
    assert episode.next() is None
    assert episode.result().tables["placements"]["devices"] == ["0", "3-1"]


def test_answers_without_a_question_are_errors():
    nodes = [NodeSpec("n0", 1000, 0)]
    episode = clock_episode(Trace("test", nodes, make_workload({"a": {"cpu_milli": 1}})), load_profile("best-fit"))
    for ask in (lambda: episode.answer(None), episode.decide, episode.feasible, lambda: episode.on(0)):
        with pytest.raises(PolicyError, match=r"no pod to answer for: nobody has been asked about yet; next\(\) gives"):
            ask()
    assert episode.next() is episode.next()
    with pytest.raises(PolicyError, match=r"the run is not over yet; answer until next\(\) gives None"):
        episode.result()
    episode.answer(episode.on(0))
    with pytest.raises(PolicyError, match=r"a has its answer already; next\(\) gives the next pod"):
        episode.answer(None)
    assert [episode.next(), episode.next()] == [None, None]
    with pytest.raises(PolicyError, match="no pod to answer for: the run is over"):
        episode.answer(None)


def test_what_goes_wrong_in_the_run_is_raised_by_next_and_ends_the_episode():
    class Breaks:
        every_s = 1.0

        def act(self, _view):
            raise ValueError("no idea")

    trace = Trace("test", [NodeSpec("n0", 1000, 0)], make_workload({"a": {"cpu_milli": 1}}))
    episode = clock_episode(trace, load_profile("best-fit"), controllers={"breaks": Breaks()})
    episode.next()
    episode.answer(episode.on(0))
    with pytest.raises(ControllerError, match="ValueError: no idea"):
        episode.next()
    assert episode.next() is None


# --- refusals --------------------------------------------------------------------------------------------------------


def story(pods, answer, *, cpus=(1000,), **options):
    """What happened, as (time, what, pod, detail), and which pods were asked about at what time."""
    nodes = [NodeSpec(f"n{at}", cpu, 0) for at, cpu in enumerate(cpus)]
    log, questions = [], []
    episode = clock_episode(
        Trace("test", nodes, make_workload(pods)),
        load_profile("best-fit"),
        settings=ClockSettings(**options),
        listeners=[lambda record: log.append((record.time_s, str(record.what), record.pod, record.detail))],
    )

    def noting(episode, pod):
        questions.append((episode.time_s, pod.name))
        return answer(episode, pod)

    go(episode, noting)
    return [entry for entry in log if entry[1] != "arrive"], questions, episode.result()


def declining(*names):
    """Refuse these pods the first time, and answer as the profile decides else."""
    left = list(names)

    def answer(episode, pod):
        if pod.name in left:
            left.remove(pod.name)
            return None
        return episode.decide()

    return answer


def test_a_declined_pod_waits_until_room_becomes_free_though_there_was_room_all_the_time():
    pods = {"a": {"cpu_milli": 100, "duration_s": 5.0}, "b": {"cpu_milli": 200, "duration_s": 1.0}}
    log, questions, result = story(pods, declining("b"))
    assert log == [
        (0, "start", "a", ""),
        (0, "refuse", "b", "0/1 nodes fit b: 1 were declined by whoever was asked"),
        (5, "end", "a", ""),
        (5, "start", "b", ""),
        (6, "end", "b", ""),
    ]
    assert questions == [(0, "a"), (0, "b"), (5, "b")]
    assert np.asarray(result.tables["pods"]["wait_s"]).tolist() == [0, 5]


def test_a_pod_that_is_declined_for_ever_still_waits_at_the_end():
    _, questions, result = story({"a": {"cpu_milli": 100}}, lambda _episode, _pod: None)
    assert questions == [(0, "a")]
    assert result.tables["pods"]["outcome"] == ["waiting"]
    assert result.tables["pods"]["reason"] == ["no node fits: most were declined by whoever was asked"]


@pytest.mark.parametrize("declines", [True, False])
def test_nobody_is_made_to_go_for_a_pod_that_was_declined_but_for_one_that_fits_nowhere(declines):
    pods = {"low": {"cpu_milli": 800, "duration_s": 9.0}}
    pods["high"] = {"cpu_milli": 800, "duration_s": 1.0, "arrival_s": 1.0, "priority": 5}
    cpus = (1000, 1000) if declines else (1000,)
    log, questions, _ = story(pods, declining("high"), cpus=cpus, preemption=True)
    evicted = [entry[:3] for entry in log if entry[1] == "evict"]
    assert evicted == ([] if declines else [(1, "evict", "low")])
    # What was cleared for it is its own without another question.
    assert [name for _, name in questions].count("high") == (2 if declines else 1)


def test_nobody_is_made_to_go_for_a_declined_member_of_a_gang():
    gang = {"gang": Gang("g", 1), "priority": 5, "cpu_milli": 500}
    pods = {"low": {"cpu_milli": 500, "duration_s": 50.0}, "first": gang | {"duration_s": 50.0}}
    pods["second"] = gang | {"arrival_s": 1.0, "duration_s": 1.0}
    log, _, _ = story(pods, declining("second"), cpus=(1000, 500), preemption=True)
    assert [entry for entry in log if entry[1] == "evict"] == []
    full, _, _ = story(pods, declining("second"), cpus=(1000,), preemption=True)
    assert [entry[:3] for entry in full if entry[1] == "evict"] == [(1, "evict", "low")]


def test_a_gang_of_which_one_is_declined_does_not_start_and_leaves_no_trace():
    gang = {"gang": Gang("g", 2), "cpu_milli": 300, "duration_s": 2.0}
    pods = {"alone": {"cpu_milli": 100, "duration_s": 4.0}, "g-0": dict(gang), "g-1": gang | {"cpu_milli": 200}}
    free = []

    def answer(episode, pod):
        free.append((pod.name, int(episode.table.free[0, 0])))
        return declined(episode, pod)

    declined = declining("g-1")
    log, _, _ = story(pods, answer)
    assert free == [("alone", 1000), ("g-0", 900), ("g-1", 600), ("g-0", 1000), ("g-1", 700)]
    assert [entry[:3] for entry in log if entry[1] == "start"] == [
        (0, "start", "alone"),
        (4, "start", "g-0"),
        (4, "start", "g-1"),
    ]


def test_an_openb_pod_that_is_declined_has_failed_and_says_why():
    episode = openb_episode(generated(), load_profile("best-fit"), load=0.3, seed=1)
    first = episode.next().name
    assert episode.feasible().any()
    go(episode, declining(first))
    result = episode.result()
    assert result.summary["failed_by_reason"]["were declined by whoever was asked"] == 1
    assert (result.tables["placements"]["pod"][0], result.tables["placements"]["node"][0]) == (first, "")


def test_room_that_is_held_for_another_is_no_answer():
    class Holds:
        every_s = 100.0

        def act(self, view):
            return [Hold(one.pod, "n1", "it will move", for_s=50.0) for one in view.running.values()]

    nodes = [NodeSpec("n0", 1000, 0), NodeSpec("n1", 1000, 0)]
    pods = {"a": {"cpu_milli": 800, "duration_s": 90.0}, "b": {"cpu_milli": 500, "arrival_s": 1.0}}
    pods["c"] = {"cpu_milli": 500, "arrival_s": 2.0, "priority": 1}
    episode = clock_episode(
        Trace("test", nodes, make_workload(pods)),
        load_profile("best-fit"),
        settings=ClockSettings(until_s=10.0),
        controllers={"holds": Holds()},
    )
    episode.next()
    episode.answer(episode.on(0))
    assert episode.next().name == "b"
    assert episode.feasible().tolist() == [False, False]
    with pytest.raises(PolicyError, match="n1 does not take b: its room is held for a"):
        episode.on(1)
    episode.answer(None)
    assert episode.next().name == "c"  # of more priority than the pod that holds the room
    assert episode.feasible().tolist() == [False, True]


# --- any answers -----------------------------------------------------------------------------------------------------


def at_random(seed):
    random = np.random.default_rng(seed)

    def answer(episode, pod):
        table = episode.table
        assert (table.free >= 0).all()
        assert (table.gpu_free >= 0).all()
        assert pod.uid not in table.placed
        rows = np.flatnonzero(episode.feasible())
        if not len(rows) or random.random() < 0.1:
            return None
        return episode.on(random.choice(rows))

    return answer


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(list(CLOCKS)))
def test_any_answers_keep_the_books_right_and_the_same_answers_give_the_same_bytes(seed, kind):
    trace = busy_trace(seed, pods=120)
    runs = []
    for _ in range(2):
        episode = clock_episode(trace, load_profile("gpu-packing"), **clock_options(kind, trace))
        runs.append(go(episode, at_random(seed)))
    assert runs[0] == runs[1]


def test_an_episode_may_be_stepped_from_changing_threads():
    wanted = run_files(run_openb(generated(60), load_profile("fgd"), seed=7), {})
    episode = openb_episode(generated(60), load_profile("fgd"), seed=7)
    with ThreadPoolExecutor(2) as threads:
        while threads.submit(episode.next).result() is not None:
            threads.submit(lambda: episode.answer(episode.decide())).result()
    assert run_files(episode.result(), {}) == wanted
