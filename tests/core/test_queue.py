import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.backoff import NO_BACKOFF, Backoff
from foresail.core.clock import SimClock
from foresail.core.model import Pod
from foresail.core.queue import Queue
from foresail.core.spec import Gang, NodeSpec, PodSpec
from foresail.core.table import NodeTable


class World:
    """A queue with a clock, and pods to put into it."""

    def __init__(self, backoff: Backoff = NO_BACKOFF) -> None:
        self.clock = SimClock()
        self.queue = Queue(self.clock, backoff=backoff)
        self.table = NodeTable([NodeSpec("n", 1000, 0)])

    def pod(self, name: str, cpu_milli: int = 1, **options: object) -> Pod:
        return Pod(name, self.table.shape(PodSpec(cpu_milli=cpu_milli)), **options)  # type: ignore[arg-type]

    def add(self, name: str, cpu_milli: int = 1, **options: object) -> Pod:
        pod = self.pod(name, cpu_milli, **options)
        self.queue.add(pod)
        return pod

    def take(self) -> list[str] | None:
        """Give the next lane its turn and find room for all of it."""
        turn = self.queue.pop()
        if turn is None:
            return None
        lane, pods = turn
        self.queue.done(lane, pods)
        return [pod.name for pod in pods]

    def refuse(self) -> list[str] | None:
        """Give the next lane its turn and find no room."""
        turn = self.queue.pop()
        if turn is None:
            return None
        lane, pods = turn
        self.queue.sleep(lane)
        return [pod.name for pod in pods]

    def take_all(self) -> list[str]:
        taken = []
        while (names := self.take()) is not None:
            taken += names
        return taken


@pytest.fixture
def world() -> World:
    return World()


# --- order -----------------------------------------------------------------------------------------------------------


def test_pods_come_by_priority_then_arrival_then_submission(world):
    world.add("late", 1, arrival_s=9.0)
    world.add("second", 2, arrival_s=3.0)
    world.add("third", 1, arrival_s=3.0)
    world.add("urgent", 2, arrival_s=9.0, priority=5)
    assert world.take_all() == ["urgent", "second", "third", "late"]


_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.integers(-1, 2), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.integers(0, 40)),
        st.tuples(st.just("take")),
        st.tuples(st.just("back"), st.integers(0, 40)),
    ),
    max_size=60,
)


@settings(deadline=None)  # a busy machine is no failure
@given(_ACTIONS)
def test_the_order_is_that_of_one_sorted_list(actions):
    world = World()
    waiting: list[tuple[int, float, int, str]] = []
    gone: list[str] = []
    for number, action in enumerate(actions):
        if action[0] == "add":
            _, cpu_milli, priority, arrival_s = action
            world.add(f"p{number}", cpu_milli, priority=priority, arrival_s=float(arrival_s))
            waiting.append((-priority, float(arrival_s), number, f"p{number}"))
        elif action[0] == "remove" and waiting:
            name = waiting.pop(action[1] % len(waiting))[3]
            world.queue.remove(name)
            gone.append(name)
        elif action[0] == "back" and gone:
            name = gone.pop(action[1] % len(gone))
            world.add(name, action[1] % 3)
            waiting.append((0, 0.0, number, name))
        elif action[0] == "take":
            waiting.sort()
            assert world.take() == ([waiting.pop(0)[3]] if waiting else None)
        assert len(world.queue) == len(waiting)
        assert sorted(pod.name for pod in world.queue) == sorted(entry[3] for entry in waiting)
    assert world.take_all() == [name for *_, name in sorted(waiting)]
    assert len(world.queue) == 0


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=30), st.randoms(use_true_random=False))
def test_no_lane_starves_among_sleepers(pods, random):
    """Whatever is refused meanwhile, every pod has its turn once all are woken and find room."""
    world = World()
    for number, (cpu_milli, priority) in enumerate(pods):
        world.add(f"p{number}", cpu_milli, priority=priority)
        if random.random() < 0.5:
            world.refuse()
        if random.random() < 0.3:
            world.queue.wake(0, lambda _pod, _row: random.random() < 0.5)
    world.queue.wake_all()
    assert sorted(world.take_all()) == sorted(f"p{number}" for number in range(len(pods)))


# --- sleeping and waking ---------------------------------------------------------------------------------------------


def test_a_refused_shape_sleeps_and_others_pass_it_by(world):
    world.add("big-1", 9)
    world.add("big-2", 9)
    world.add("small", 1)
    history = [world.refuse(), world.take(), world.take()]
    world.queue.wake(0)
    assert [*history, world.take_all()] == [["big-1"], ["small"], None, ["big-1", "big-2"]]


def test_one_more_of_a_sleeping_shape_is_not_tried(world):
    world.add("a", 9)
    world.refuse()
    world.add("b", 9, priority=100)
    assert world.take() is None
    world.queue.wake(0)
    assert world.take_all() == ["b", "a"]


def test_only_lanes_that_could_be_helped_wake(world):
    for cpu_milli in (1, 2, 3):
        world.add(f"p{cpu_milli}", cpu_milli)
        world.refuse()
    asked = []
    world.queue.wake(0, lambda pod, row: asked.append((pod.name, row)) or pod.spec.cpu_milli == 2)
    assert asked == [("p1", 0), ("p2", 0), ("p3", 0)]
    assert world.take_all() == ["p2"]
    assert len(world.queue) == 2


def test_a_woken_lane_whose_room_was_taken_goes_back_to_sleep_without_a_turn(world):
    room = {0, 1}
    world.add("a", 2)
    world.refuse()
    world.queue.wake(0, lambda _pod, row: row in room)
    room.clear()
    assert world.queue.pop(lambda _pod, row: row in room) is None
    room.add(1)
    world.queue.wake(1, lambda _pod, row: row in room)
    lane, pods = world.queue.pop(lambda _pod, row: row in room)
    assert [pod.name for pod in pods] == ["a"]
    assert lane.failures == 1  # going back to sleep is no failure of its own


def test_a_lane_that_is_awake_hears_of_further_room(world):
    world.add("a", 2)
    world.refuse()
    world.queue.wake(0)
    world.queue.wake(1, lambda _pod, _row: pytest.fail("it is awake already"))
    assert world.queue.pop(lambda _pod, row: row == 1) is not None


# --- removal ---------------------------------------------------------------------------------------------------------


def test_a_removed_pod_is_not_handed_out_and_the_next_keeps_its_own_place(world):
    world.add("a", 1, arrival_s=0.0)
    world.add("b", 2, arrival_s=1.0)
    world.add("c", 1, arrival_s=2.0)
    world.queue.remove("a")
    world.queue.remove("a")
    world.queue.remove("never seen")
    assert "a" not in world.queue
    assert world.take_all() == ["b", "c"]


def test_a_pod_removed_and_added_again_is_handed_out_once(world):
    world.add("a")
    world.queue.remove("a")
    world.add("a")
    assert world.take_all() == ["a"]


def test_removal_of_a_sleeper_leaves_nothing_to_wake(world):
    world.add("a")
    world.refuse()
    world.queue.remove("a")
    assert not world.queue.has_sleepers
    world.queue.wake(0)
    assert world.take() is None


def test_a_pod_cannot_wait_twice(world):
    world.add("a")
    with pytest.raises(ValueError, match="a is already waiting"):
        world.add("a")


# --- backoff ---------------------------------------------------------------------------------------------------------


def test_backoff_doubles_from_one_second_to_ten():
    assert [Backoff().pause_s(failures) for failures in (1, 2, 3, 4, 5, 6, 500)] == [1, 2, 4, 8, 10, 10, 10]


def test_a_woken_lane_waits_for_its_backoff_to_end():
    world = World(Backoff())
    world.add("a")
    history = []
    for _ in range(5):
        assert world.refuse() == ["a"]
        assert world.queue.next_time_s() == float("inf")  # asleep: time alone does not help it
        world.queue.wake(0)
        assert world.take() is None
        at_s = world.queue.next_time_s()
        history.append(at_s - world.clock.now())
        world.clock.advance_to(at_s)
    assert history == [1, 2, 4, 8, 10]


def test_success_ends_the_doubling():
    world = World(Backoff())
    world.add("a")
    world.refuse()
    world.add("b")
    world.queue.wake(0)
    world.clock.advance_to(1)
    assert world.take() == ["a"]
    world.refuse()
    world.queue.wake(0)
    assert world.queue.next_time_s() == 2


def test_a_wake_after_the_backoff_is_heard_at_once():
    world = World(Backoff())
    world.add("a")
    world.refuse()
    world.clock.advance_to(5)
    world.queue.wake(0)
    assert world.take() == ["a"]


def test_a_forgotten_lane_does_not_rouse_a_new_one_of_the_same_shape():
    world = World(Backoff(5, 5))
    world.add("a")
    world.refuse()
    world.queue.wake(0)
    world.queue.remove("a")
    world.clock.advance_to(1)
    world.add("b")
    world.refuse()
    world.clock.advance_to(6)
    assert world.queue.next_time_s() == float("inf")
    assert world.take() is None
    world.queue.wake(0)
    assert world.take() == ["b"]


# --- gangs -----------------------------------------------------------------------------------------------------------


def test_a_gang_is_ready_when_enough_members_wait(world):
    gang = Gang("g", 2)
    world.add("g-1", gang=gang)
    first = world.take()
    world.add("other")
    world.add("g-2", gang=gang, priority=1)
    assert [first, world.take(), world.take(), world.take()] == [None, ["g-2", "g-1"], ["other"], None]


def test_a_late_member_of_a_gang_that_has_started_goes_by_itself(world):
    gang = Gang("g", 2)
    for name in ("g-1", "g-2"):
        world.add(name, gang=gang)
    history = [world.take()]
    world.add("g-3", gang=gang)
    assert [*history, world.take()] == [["g-1", "g-2"], ["g-3"]]


def test_a_gang_that_does_not_start_is_given_up_when_its_time_is_over(world):
    gang = Gang("g", 3, timeout_s=10)
    world.clock.advance_to(5)
    world.add("g-1", gang=gang)
    world.add("g-2", gang=gang)
    assert world.queue.next_time_s() == 15
    world.clock.advance_to(14.9)
    assert world.queue.give_up() == []
    world.clock.advance_to(15)
    assert [(gang.name, [pod.name for pod in pods], short) for gang, pods, short in world.queue.give_up()] == [
        ("g", ["g-1", "g-2"], 1)
    ]
    assert len(world.queue) == 0
    assert world.queue.next_time_s() == float("inf")
    assert world.take() is None


def test_a_gang_that_has_started_is_never_given_up_and_takes_lost_members_back_one_by_one(world):
    gang = Gang("g", 2, timeout_s=10)
    pods = [world.add(name, gang=gang) for name in ("g-1", "g-2")]
    assert world.take() == ["g-1", "g-2"]
    assert world.queue.next_time_s() == float("inf")
    world.clock.advance_to(3)
    world.queue.add(pods[0], again=True)
    assert world.queue.next_time_s() == float("inf")
    assert world.take() == ["g-1"]


def test_a_restarted_gang_waits_together_again_with_a_new_timeout(world):
    gang = Gang("g", 2, timeout_s=10)
    pods = [world.add(name, gang=gang) for name in ("g-1", "g-2")]
    world.take()
    world.clock.advance_to(3)
    for pod in pods:
        world.queue.add(pod, again=True)
    world.queue.restart(gang)
    assert world.queue.next_time_s() == 13
    world.queue.remove("g-1")
    alone = world.take()
    world.queue.add(pods[0])
    assert [alone, world.take()] == [None, ["g-2", "g-1"]]
    assert world.queue.next_time_s() == float("inf")


def test_a_gang_that_loses_a_waiting_member_is_not_ready(world):
    gang = Gang("g", 2)
    world.add("g-1", gang=gang)
    world.add("g-2", gang=gang)
    world.queue.remove("g-1")
    assert world.take() is None
    world.add("g-3", gang=gang)
    assert world.take() == ["g-2", "g-3"]


def test_a_new_member_wakes_a_sleeping_gang(world):
    gang = Gang("g", 1)
    world.add("g-1", 9, gang=gang)
    world.refuse()
    world.add("g-2", 1, gang=gang)
    assert world.take() == ["g-1", "g-2"]


def test_members_that_are_found_in_place_count_towards_the_start_of_their_gang(world):
    gang = Gang("g", 3)
    world.queue.members_placed(gang, 0)
    world.add("g-3", gang=gang)
    assert world.take() is None
    world.queue.members_placed(gang, 2)
    assert world.take() == ["g-3"]
    assert world.queue.next_time_s() == float("inf")


def test_a_gang_that_asks_for_less_starts_sooner_and_an_empty_one_is_forgotten(world):
    world.add("g-1", gang=Gang("g", 2))
    world.queue.members_placed(Gang("g", 1), 0)
    assert world.take() == ["g-1"]
    world.queue.members_placed(Gang("g", 1), 0)
    assert list(world.queue._lanes) == []
