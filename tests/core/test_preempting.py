"""Preemption as the scheduler does it: who waits, who goes, who starts, and when."""

from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.clock import SimClock
from foresail.core.decide import decide
from foresail.core.kubernetes import HostPort, KubernetesPod
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.preempting import Preempting
from foresail.core.preemption import Preemption, find_victims
from foresail.core.queue import Queue
from foresail.core.scheduler import Scheduler
from foresail.core.spec import Gang, PodSpec
from foresail.core.table import NodeTable
from foresail.policies.profiles.load import load_profile
from foresail.testing import make_table


class Diary:
    """A cluster that writes down what it is asked for; victims leave at once, or when they are told to."""

    def __init__(
        self, *cpu_milli: int, policy: str = "best-fit", at_once: bool = True, never: tuple[str, ...] = ()
    ) -> None:
        self.table: NodeTable = make_table(allocatable=[(cpu, 0, 0) for cpu in cpu_milli])
        self.log: list[str] = []
        self.at_once = at_once
        self.profile = load_profile(policy)
        self.preemption = Preempting(may_preempt=lambda pod: pod.name not in never)
        self.scheduler = Scheduler(self, self.profile, Queue(SimClock()), preemption=self.preemption)

    def bind(self, pod: Pod, placement: Placement) -> None:
        self.log.append(f"{pod.name} on {placement.node}")

    def refuse(self, pod: Pod, why: NoFit) -> None:
        self.log.append(f"{pod.name} refused")

    def give_up(self, gang: Gang, members: list[Pod], why: str) -> None: ...

    def preempt(self, pod: Pod, plan: Preemption) -> None:
        self.log.append(f"{pod.name} for {' '.join(held.pod.name for held in plan.evictions)}")
        if self.at_once:
            for held in plan.victims:
                self.scheduler.evict(held.pod.uid)

    def submit(self, name: str, cpu_milli: int, spec: PodSpec | None = None, **options: object) -> None:
        shape = self.table.shape(spec or PodSpec(cpu_milli=cpu_milli))
        self.scheduler.submit(Pod(name, shape, **options))  # type: ignore[arg-type]

    def run(self) -> list[str]:
        self.scheduler.run_until_idle()
        log, self.log = self.log, []
        return log


def test_victims_wait_again_and_the_pod_starts_at_once():
    diary = Diary(4)
    diary.submit("low", 3)
    assert diary.run() == ["low on node-0"]
    diary.submit("high", 3, priority=1)
    assert diary.run() == ["high for low", "high on node-0", "low refused"]
    diary.scheduler.release("high")
    assert diary.run() == ["low on node-0"]


def test_one_of_more_priority_rouses_the_sleepers_who_ask_the_same():
    diary = Diary(4)
    diary.submit("a", 3)
    diary.submit("b", 3)
    assert diary.run() == ["a on node-0", "b refused"]
    diary.submit("c", 3, priority=1)
    assert diary.run() == ["c for a", "c on node-0", "b refused"]


def test_those_it_makes_way_for_may_make_way_themselves():
    diary = Diary(3, 2)
    for name, cpu, priority in (("low", 2, 0), ("middle", 2, 1)):
        diary.submit(name, cpu, priority=priority)
        diary.run()
    diary.submit("high", 3, priority=2)
    assert diary.run() == ["high for middle", "high on node-0", "middle for low", "middle on node-1", "low refused"]


def test_a_victim_may_look_further_than_those_who_ask_the_same_and_were_woken_for_its_node():
    diary = Diary(4, 3)
    for name, cpu, priority in (("a", 1, 0), ("b", 3, 0), ("c", 1, 0), ("d", 1, 0), ("middle", 3, 1)):
        diary.submit(name, cpu, priority=priority)
        diary.run()
    assert [pod.name for pod in diary.scheduler.queue] == ["b"]
    diary.submit("high", 4, priority=2)
    # b was woken for the room that middle left; middle itself, of more priority, makes room on the other node.
    assert diary.run()[:4] == ["high for middle a", "high on node-0", "middle for c d", "middle on node-1"]


def test_a_departure_that_leaves_room_beside_lesser_pods_wakes():
    diary = Diary(4)
    diary.submit("top", 2, priority=9)
    diary.submit("low", 2)
    diary.submit("high", 3, priority=1)
    assert diary.run() == ["top on node-0", "high refused", "low on node-0"]
    diary.scheduler.release("top")
    assert diary.run() == ["high for low", "high on node-0", "low refused"]


def test_a_pod_waits_for_those_who_take_time_and_nobody_takes_its_place():
    diary = Diary(4, at_once=False)
    diary.submit("low", 3)
    diary.run()
    diary.submit("high", 3, priority=1)
    assert diary.run() == ["high for low", "high refused"]
    # Room for one more there is, but not once the nominated pod stands there.
    diary.submit("late", 1, priority=1)
    diary.submit("urgent", 1, priority=2)
    assert diary.run() == ["urgent on node-0", "late refused"]
    diary.scheduler.release("low")
    assert diary.run() == ["high on node-0"]
    assert len(diary.preemption.holds) == 0


def test_pods_that_ask_the_same_need_not_wait_for_each_others_victims():
    diary = Diary(3, 3, 3, at_once=False)
    for name in ("x", "y"):
        diary.submit(name, 3)
    diary.submit("top", 3, priority=9)
    diary.run()
    for name in ("a", "b", "c"):
        diary.submit(name, 3, priority=1)
    assert diary.run() == ["a for x", "b for y", "a refused"]
    diary.scheduler.release("x")
    assert diary.run() == ["a on node-1"]
    diary.scheduler.release("y")
    assert diary.run() == ["b on node-2"]
    assert [pod.name for pod in diary.scheduler.queue] == ["c"]


def test_a_pod_that_never_preempts_does_not_stop_those_behind_it():
    diary = Diary(3, never=("modest",))
    diary.submit("low", 3)
    diary.run()
    diary.submit("modest", 3, priority=2)
    assert diary.run() == ["modest refused"]
    diary.submit("other", 3, priority=3)
    assert diary.run() == ["other for low", "other on node-0", "modest refused"]


def test_a_withdrawn_pod_holds_no_node():
    diary = Diary(3, at_once=False)
    diary.submit("low", 3)
    diary.run()
    diary.submit("high", 3, priority=1)
    diary.run()
    diary.scheduler.withdraw("high")
    diary.scheduler.release("low")
    diary.submit("next", 3)
    assert diary.run() == ["next on node-0"]


def test_a_gang_preempts_only_once_it_has_started():
    diary = Diary(2, 1)
    gang = Gang("ring", 2)
    diary.submit("low", 1)
    diary.run()
    for name in ("r0", "r1"):
        diary.submit(name, 1, gang=gang, priority=1)
    assert diary.run() == ["r0 on node-0", "r1 on node-0"]
    diary.submit("r2", 1, gang=gang, priority=1)
    assert diary.run() == ["r2 for low", "r2 on node-1", "low refused"]
    late = Gang("late", 2)
    for name in ("l0", "l1"):
        diary.submit(name, 1, gang=late, priority=9)
    assert diary.run() == ["l0 refused", "l1 refused"]


# --- victims that take their time ------------------------------------------------------------------------------------


def test_a_pod_whose_node_went_to_another_looks_for_one_elsewhere():
    diary = Diary(2, 2, at_once=False)
    diary.submit("w", 2)
    diary.run()
    diary.submit("x", 1, arrival_s=1)
    diary.run()
    diary.submit("high", 2, priority=1)
    assert diary.run() == ["high for x", "high refused"]
    diary.submit("urgent", 1, priority=2)
    assert diary.run() == ["urgent on node-1"]
    diary.scheduler.release("x")
    assert diary.run() == ["high for w", "high refused"]
    diary.scheduler.release("w")
    assert diary.run() == ["high on node-0"]


def test_what_was_left_to_a_pod_that_no_longer_waits_is_had_at_once():
    diary = Diary(3, at_once=False)
    diary.submit("low", 2)
    diary.run()
    diary.submit("high", 3, priority=1)
    diary.submit("next", 1)
    assert diary.run() == ["high for low", "high refused", "next refused"]
    diary.scheduler.withdraw("high")
    assert diary.run() == ["next on node-0"]


def test_one_that_comes_behind_a_pod_that_waits_for_its_victims_has_victims_of_its_own():
    diary = Diary(3, 3, at_once=False)
    for name in ("x", "y"):
        diary.submit(name, 3)
    diary.run()
    diary.submit("a", 3, priority=1)
    assert diary.run() == ["a for x", "a refused"]
    diary.submit("b", 3, priority=1)
    assert diary.run() == ["b for y", "a refused"]


def test_a_node_that_is_held_for_a_pod_behind_another_is_not_lost_to_both():
    diary = Diary(3, 3, at_once=False)
    for name in ("x", "y"):
        diary.submit(name, 3)
    diary.run()
    diary.submit("a", 3, priority=1)
    diary.submit("b", 3, priority=1)
    assert diary.run() == ["a for x", "b for y", "a refused"]
    # More priority takes the node that others leave for the first of the two.
    diary.submit("top", 3, priority=2)
    diary.scheduler.release("x")
    assert diary.run() == ["top on node-0", "a refused"]
    diary.scheduler.release("y")
    assert diary.run() == ["b on node-1", "a refused"]


SLOW_STEPS = st.lists(
    st.tuples(
        st.sampled_from(("come", "come", "come", "modest", "leave", "go", "go", "withdraw", "fail")),
        st.integers(1, 3),
        st.integers(0, 3),
    ),
    max_size=25,
)


class SlowDiary(Diary):
    """Victims leave one by one, when they are let."""

    def __init__(self, *cpu_milli: int, policy: str) -> None:
        super().__init__(*cpu_milli, policy=policy, at_once=False)
        self.modest: set[str] = set()
        """Pods that make nobody go."""
        self.preemption.may_preempt = lambda pod: pod.name not in self.modest

    @property
    def leaving(self) -> list[object]:
        nominated = [held.pod.uid for held in self.preemption.holds if self.preemption.nominated(held.pod.uid)]
        told = {victim for uid in nominated for victim in self.preemption._nominations[uid].victims}
        return sorted(uid for uid in self.table.placed if uid in told)

    def step(self, number: int, what: str, cpu: int, priority: int) -> None:
        queue, table = self.scheduler.queue, self.table
        if what in {"come", "modest"}:
            self.modest |= {f"p{number}"} if what == "modest" else set()
            self.submit(f"p{number}", cpu, priority=priority, arrival_s=number)
        elif what == "go" and self.leaving:
            self.scheduler.release(self.leaving[cpu % len(self.leaving)])
        elif what == "leave" and table.placed:
            self.scheduler.release(sorted(table.placed)[cpu % len(table.placed)])
        elif what == "withdraw" and len(queue):
            self.scheduler.withdraw(sorted(pod.uid for pod in queue)[cpu % len(queue)])
        elif what == "fail" and len(self.preemption.holds):
            # A victim could not be made to go.
            self.preemption.withdraw(next(iter(self.preemption.holds)).pod.uid)
            queue.wake_all()
        self.run()


@settings(max_examples=200, deadline=None)
@given(SLOW_STEPS, st.sampled_from(("best-fit", "kubernetes")))
def test_when_the_last_victim_has_gone_nobody_who_waits_could_have_a_node(steps, policy):
    diary = SlowDiary(4, 3, 2, policy=policy)
    for number, step in enumerate(steps):
        diary.step(number, *step)
        assert (diary.table.free >= 0).all()
    while diary.leaving:
        diary.step(0, "go", 0, 0)
    for pod in diary.scheduler.queue:
        assert isinstance(decide(pod, diary.table, diary.profile), NoFit)
        assert pod.name in diary.modest or find_victims(pod, diary.table, diary.profile) is None


def test_a_lane_whose_own_turn_ends_a_hold_looks_at_that_node_again():
    # p6 and p7 request the same and both hold node-0 until p4, which is above them, takes most of it: each keeps the
    # other from the room that is left, and both let go in one turn of their lane.
    diary = SlowDiary(4, 3, 2, policy="best-fit")
    steps = [("come", 2, 0), ("come", 3, 0), ("come", 2, 0), ("come", 3, 3), ("modest", 3, 3), ("come", 2, 2)]
    for number, step in enumerate([*steps, ("come", 1, 2), ("come", 1, 2)]):
        diary.step(number, *step)
    while diary.leaving:
        diary.step(0, "go", 0, 0)
    assert {uid: held.row for uid, held in diary.table.placed.items()} == {"p3": 1, "p4": 0, "p5": 2, "p6": 0}
    assert [pod.name for pod in diary.scheduler.queue] == ["p7"]


def test_a_pod_behind_one_that_others_leave_for_looks_at_room_that_becomes_free():
    diary = SlowDiary(4, 3, 2, policy="best-fit")
    comes = [(1, 0), (3, 1), (3, 0), (1, 0), (1, 1), (1, 1), (1, 1), (3, 2), (3, 2)]
    for number, (cpu, priority) in enumerate(comes):
        diary.step(number, "come", cpu, priority)
    while diary.leaving:
        diary.step(0, "go", 0, 0)
    for pod in diary.scheduler.queue:
        assert find_victims(pod, diary.table, diary.profile) is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("come", "come", "come", "leave")),
        st.integers(1, 4),
        st.integers(0, 3),
        st.sampled_from(("", "", "port")),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from(("best-fit", "kubernetes")))
def test_when_all_is_quiet_nobody_who_waits_could_have_a_node(steps, policy):
    diary = Diary(4, 3, 2, policy=policy)
    table = diary.table
    for number, (what, cpu, priority, special) in enumerate(steps):
        if what == "come":
            ports = KubernetesPod(host_ports=(HostPort(80),)) if special else None
            diary.submit(f"p{number}", 0, PodSpec(cpu_milli=cpu, kubernetes=ports), priority=priority, arrival_s=number)
        elif table.placed:
            diary.scheduler.release(sorted(table.placed)[cpu % len(table.placed)])
        diary.run()
        assert len(diary.preemption.holds) == 0
        assert (table.free >= 0).all()
        for pod in diary.scheduler.queue:
            assert isinstance(decide(pod, table, diary.profile), NoFit)
            assert find_victims(pod, table, diary.profile) is None
