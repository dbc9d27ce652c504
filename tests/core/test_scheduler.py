import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.backoff import NO_BACKOFF, Backoff
from foresail.core.clock import SimClock
from foresail.core.decide import decide
from foresail.core.model import Mask, Nodes, NoFit, Placement, Pod, Scores
from foresail.core.profile import Profile, UsedFilter, UsedScore
from foresail.core.queue import Queue
from foresail.core.scheduler import Scheduler
from foresail.core.spec import Gang, PodSpec
from foresail.errors import PolicyError
from foresail.policies.gpu_sharing.best_fit import BestFit
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.plain.fit import Fit, Schedulable
from foresail.policies.profiles.load import load_profile
from foresail.testing import make_table


class Diary:
    """A cluster that starts every pod at once and writes down what it was asked for."""

    def __init__(self, *cpu_milli: int, backoff: Backoff = NO_BACKOFF, profile: Profile | None = None) -> None:
        self.table = make_table(allocatable=[(cpu, 0, 0) for cpu in cpu_milli])
        self.clock = SimClock()
        self.log: list[tuple[float, str, str]] = []
        self.decided: list[str] = []
        self.why: list[str] = []
        self.scheduler = Scheduler(
            self, profile or load_profile("best-fit"), Queue(self.clock, backoff=backoff), decide=self._decide
        )

    def _decide(self, pod, table, profile):
        self.decided.append(pod.name)
        return decide(pod, table, profile)

    def bind(self, pod: Pod, placement: Placement) -> None:
        self.log.append((self.clock.now(), f"bind {placement.node}", pod.name))

    def refuse(self, pod: Pod, why: NoFit) -> None:
        self.log.append((self.clock.now(), "refuse", pod.name))

    def give_up(self, gang: Gang, members: list[Pod], why: str) -> None:
        self.log += [(self.clock.now(), "give up", pod.name) for pod in members]
        self.why.append(why)

    def policy_failed(self, pods: list[Pod], error: PolicyError) -> None:
        self.log += [(self.clock.now(), "policy failed", pod.name) for pod in pods]
        self.why.append(str(error))

    def submit(self, name: str, cpu_milli: int, **options: object) -> None:
        shape = self.table.shape(PodSpec(cpu_milli=cpu_milli))
        self.scheduler.submit(Pod(name, shape, arrival_s=self.clock.now(), **options))  # type: ignore[arg-type]

    def run(self, at_s: float | None = None) -> list[tuple[float, str, str]]:
        """Let the scheduler work, and take what was written down since the last time."""
        if at_s is not None:
            self.clock.advance_to(at_s)
        self.scheduler.run_until_idle()
        log, self.log = self.log, []
        return log


def test_pods_are_bound_by_priority_and_the_rest_waits_for_room():
    diary = Diary(4)
    diary.submit("a", 3)
    diary.submit("b", 3, priority=1)
    diary.submit("c", 1)
    assert diary.run() == [(0, "bind node-0", "b"), (0, "refuse", "a"), (0, "bind node-0", "c")]
    diary.clock.advance_to(5)
    diary.scheduler.release("b")
    assert diary.run() == [(5, "bind node-0", "a")]
    assert len(diary.scheduler.queue) == 0


def test_a_departure_wakes_only_those_who_fit_on_that_node():
    diary = Diary(2, 9)
    diary.submit("on-small", 2)
    diary.submit("on-large", 9)
    diary.run()
    for cpu_milli in (1, 2, 5, 9):
        for copy in "xyz":
            diary.submit(f"{copy}{cpu_milli}", cpu_milli)
    diary.run()
    diary.decided.clear()
    diary.scheduler.release("on-small")
    assert diary.run() == [(0, "bind node-0", "x1"), (0, "bind node-0", "y1")]
    # z1 finds the node full again and is not even decided about; neither is anyone who asks for 2 or more.
    assert diary.decided == ["x1", "y1"]


def test_a_departure_that_helps_nobody_costs_no_decision():
    diary = Diary(2, 2)
    diary.submit("a", 1)
    diary.submit("b", 2)
    diary.run()
    for number in range(20):
        diary.submit(f"big-{number}", 2)
    assert [entry for entry in diary.run() if entry[1] != "refuse"] == []
    diary.submit("c", 1)
    diary.run()
    diary.decided.clear()
    diary.scheduler.release("a")  # one of two is free now: too little for all who wait
    assert diary.run() == []
    assert diary.decided == []


def test_a_cordoned_node_that_is_opened_wakes_those_who_fit():
    diary = Diary(4)
    diary.table.set_unschedulable(0, unschedulable=True)
    diary.submit("a", 1)
    history = diary.run()
    diary.table.set_unschedulable(0, unschedulable=False)
    diary.scheduler.node_changed(0)
    assert [*history, *diary.run()] == [(0, "refuse", "a"), (0, "bind node-0", "a")]


class EvenCluster:
    """Passes only while an even number of pods run anywhere: no node's answer is its own."""

    reason = "stand in an odd cluster"
    row_wise = False

    def passes(self, _pod, nodes):
        return nodes.table.pod_count[nodes.index] * 0 + nodes.table.pod_count.sum() % 2 == 0


def test_a_filter_that_looks_at_all_nodes_has_everyone_woken():
    filters = [("even", EvenCluster()), ("schedulable", Schedulable()), ("fit", Fit())]
    profile = Profile("even", filters=filters, scores=[UsedScore("best-fit", BestFit())], devices=LeastSufficient())
    diary = Diary(5, 5, profile=profile)
    diary.submit("a", 5)
    diary.submit("b", 1)
    history = diary.run()
    diary.scheduler.release("a")  # frees node-0; b could have had node-1 all the time
    assert [*history, *diary.run()] == [
        (0, "bind node-0", "a"),
        (0, "refuse", "b"),
        (0, "bind node-0", "b"),
    ]


def test_an_evicted_pod_waits_again_in_its_old_place():
    diary = Diary(2)
    diary.submit("a", 2)
    diary.run()
    diary.clock.advance_to(1)
    diary.submit("b", 2)
    diary.run()
    held = diary.scheduler.evict("a")
    assert (held.pod.name, held.row) == ("a", 0)
    assert diary.run() == [(1, "bind node-0", "a")]
    assert [pod.name for pod in diary.scheduler.queue] == ["b"]


def test_a_pod_that_runs_cannot_be_placed_again():
    diary = Diary(9)
    diary.submit("a", 1)
    diary.run()
    diary.submit("a", 1)
    with pytest.raises(ValueError, match="a is already on node-0; forget it first"):
        diary.run()


def test_place_decides_here_and_now():
    diary = Diary(2)
    fits = diary.scheduler.place(Pod("a", diary.table.shape(PodSpec(cpu_milli=2))))
    refused = diary.scheduler.place(Pod("b", diary.table.shape(PodSpec(cpu_milli=1))))
    assert isinstance(fits, Placement)
    assert isinstance(refused, NoFit)
    assert (diary.log, len(diary.scheduler.queue)) == ([(0, "bind node-0", "a")], 0)


def test_backoff_keeps_a_woken_pod_away():
    diary = Diary(1, backoff=Backoff(1, 10))
    diary.submit("a", 1)
    diary.submit("b", 1)
    history = diary.run()
    diary.scheduler.release("a")
    history += diary.run(0.5)
    assert diary.scheduler.queue.next_time_s() == 1
    history += diary.run(1)
    assert history == [(0, "bind node-0", "a"), (0, "refuse", "b"), (1, "bind node-0", "b")]


# --- gangs -----------------------------------------------------------------------------------------------------------


def test_a_gang_starts_whole_when_there_is_room_for_all_of_it():
    diary = Diary(3)
    gang = Gang("g", 2)
    diary.submit("a", 1)
    diary.submit("b", 1)
    diary.submit("g-1", 1, gang=gang)
    diary.submit("g-2", 1, gang=gang)
    history = diary.run()
    diary.clock.advance_to(4)
    diary.scheduler.release("a")
    assert [*history, *diary.run()] == [
        (0, "bind node-0", "a"),
        (0, "bind node-0", "b"),
        (0, "refuse", "g-1"),
        (0, "refuse", "g-2"),
        (4, "bind node-0", "g-1"),
        (4, "bind node-0", "g-2"),
    ]


def patient_gang():
    """A pod stands where a gang of two would need its room; the gang waits for 10 s."""
    diary = Diary(2)
    gang = Gang("g", 2, timeout_s=10)
    diary.submit("a", 1)
    diary.run()
    diary.submit("g-1", 1, gang=gang)
    diary.submit("g-2", 1, gang=gang)
    diary.run()
    return diary


def test_a_gang_without_room_gives_up_after_a_last_try():
    diary = patient_gang()
    assert diary.run(9) == []
    assert diary.run(10) == [(10, "give up", "g-1"), (10, "give up", "g-2")]
    assert diary.why == ["the gang gave up after 10 s: no room was found for 2 members together"]


def test_a_gang_may_start_in_the_instant_its_patience_ends():
    diary = patient_gang()
    diary.clock.advance_to(10)
    diary.scheduler.release("a")
    assert diary.run() == [(10, "bind node-0", "g-1"), (10, "bind node-0", "g-2")]


def test_an_impatient_gang_still_has_one_try():
    diary = Diary(2)
    gang = Gang("g", 2, timeout_s=0)
    diary.submit("g-1", 1, gang=gang)
    diary.submit("g-2", 1, gang=gang)
    assert diary.run() == [(0, "bind node-0", "g-1"), (0, "bind node-0", "g-2")]


def test_a_gang_whose_members_do_not_come_says_so():
    diary = Diary(2)
    diary.submit("g-1", 1, gang=Gang("g", 3, timeout_s=5))
    assert diary.run(5) == [(5, "give up", "g-1")]
    assert diary.why == ["the gang gave up after 5 s: only 1 of 3 members came"]


def test_members_beyond_the_minimum_follow_when_there_is_room():
    diary = Diary(3)
    gang = Gang("g", 2)
    for number in range(1, 5):
        diary.submit(f"g-{number}", 1, gang=gang)
    history = diary.run()
    diary.scheduler.release("g-2")
    assert [*history, *diary.run()] == [
        (0, "bind node-0", "g-1"),
        (0, "bind node-0", "g-2"),
        (0, "bind node-0", "g-3"),
        (0, "refuse", "g-4"),
        (0, "bind node-0", "g-4"),
    ]


# --- against a model without lanes -----------------------------------------------------------------------------------


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.lists(
        st.one_of(
            st.tuples(st.just("submit"), st.integers(1, 6), st.integers(0, 2)),
            st.tuples(st.just("release"), st.integers(0, 30)),
        ),
        max_size=40,
    ),
)
def test_lanes_and_sleep_give_what_trying_every_waiting_pod_would_give(rooms, actions):
    diary = Diary(*rooms)
    plain = make_table(allocatable=[(room, 0, 0) for room in rooms])
    profile = load_profile("best-fit")
    waiting: list[tuple[int, int, str, int]] = []
    running: list[str] = []
    for number, action in enumerate(actions):
        if action[0] == "submit":
            _, cpu_milli, priority = action
            diary.submit(f"p{number}", cpu_milli, priority=priority)
            waiting.append((-priority, number, f"p{number}", cpu_milli))
        elif running:
            name = running.pop(action[1] % len(running))
            diary.scheduler.release(name)
            plain.forget(name)
        expected = []
        for entry in sorted(waiting):
            pod = Pod(entry[2], plain.shape(PodSpec(cpu_milli=entry[3])))
            outcome = decide(pod, plain, profile)
            if isinstance(outcome, Placement):
                plain.assume(pod, outcome)
                waiting.remove(entry)
                running.append(pod.name)
                expected.append((0.0, f"bind {outcome.node}", pod.name))
        assert [entry for entry in diary.run() if entry[1] != "refuse"] == expected
        assert {pod.name for pod in diary.scheduler.queue} == {entry[2] for entry in waiting}


class WantsCompany:
    """A filter that looks at other nodes: it passes a pod only once some pod runs anywhere."""

    row_wise = False
    reason = "are lonely"

    def passes(self, pod, nodes):
        return np.full(len(nodes), pod.name != "shy" or bool(nodes.table.placed))


def test_a_pod_that_waited_for_company_is_tried_again_when_another_is_placed():
    profile = load_profile("least-allocated")
    profile.filters.append(UsedFilter("company", WantsCompany()))
    diary = Diary(4, profile=profile)
    diary.submit("shy", 2)
    assert diary.run() == [(0, "refuse", "shy")]
    diary.submit("bold", 1)
    assert diary.run() == [(0, "bind node-0", "bold"), (0, "bind node-0", "shy")]


class _Moody:
    """Raises for every pod that asks this much."""

    row_wise = True

    def __init__(self, cpu_milli: int) -> None:
        self.cpu_milli = cpu_milli

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        if pod.spec.cpu_milli == self.cpu_milli:
            raise RuntimeError("not today")
        return nodes.free[:, 0]


def test_pods_on_which_a_policy_fails_keep_waiting_and_the_others_pass_them_by():
    policy = _Moody(200)
    profile = Profile("moody", filters=[("fit", Fit())], scores=[UsedScore("moody", policy)], devices=LeastSufficient())
    diary = Diary(1000, profile=profile)
    diary.submit("bad", 200)
    diary.submit("good", 100)
    assert diary.run() == [(0, "policy failed", "bad"), (0, "bind node-0", "good")]
    assert diary.why == ['policy "moody" failed on bad: RuntimeError: not today']
    policy.cpu_milli = 0
    diary.scheduler.queue.wake_all()
    assert diary.run() == [(0, "bind node-0", "bad")]


def test_a_gang_on_which_a_policy_fails_leaves_no_room_booked():
    policy = _Moody(200)
    profile = Profile("moody", filters=[("fit", Fit())], scores=[UsedScore("moody", policy)], devices=LeastSufficient())
    diary = Diary(1000, profile=profile)
    gang = Gang("g", 2)
    diary.submit("a", 100, gang=gang)
    diary.submit("b", 200, gang=gang)
    assert diary.run() == [(0, "policy failed", "a"), (0, "policy failed", "b")]
    assert diary.table.free[0, 0] == 1000


def test_another_profile_tries_those_again_who_fitted_nowhere():
    diary = Diary(
        1000,
        profile=Profile(
            "none", filters=[("no", _Never())], scores=[UsedScore("s", BestFit())], devices=LeastSufficient()
        ),
    )
    diary.submit("a", 100)
    assert diary.run() == [(0, "refuse", "a")]
    assert diary.scheduler.queue.sleeps("a")
    assert [pod.name for pod in diary.scheduler.queue.same_lane("a")] == ["a"]
    diary.scheduler.profile = load_profile("best-fit")
    assert diary.run() == [(0, "bind node-0", "a")]


class _Never:
    row_wise = True
    reason = "are closed"

    def passes(self, pod: Pod, nodes: Nodes) -> Mask:
        return np.zeros(len(nodes), dtype=np.bool_)
