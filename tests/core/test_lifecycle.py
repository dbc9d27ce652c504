"""The states of a pod: what is drawn is what may happen, and every pod is counted in one of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foresail.core import lifecycle
from foresail.core.lifecycle import CHANGES, By, Lives, State


def test_the_picture_names_every_state_and_every_way_out_of_it_is_a_change():
    drawn = set(re.findall(r"\b[A-Z]{4,}\b", lifecycle.__doc__ or ""))
    assert {state.name for state in State} <= drawn
    for state in State:
        ways = {after for before, after in CHANGES if before is state}
        assert (State.GONE in ways) == (state is not State.GONE)
        assert state not in ways
    ends = {state for state in State if {after for before, after in CHANGES if before is state} <= {State.GONE}}
    assert ends == {State.FINISHED, State.FAILED, State.GONE}


def test_only_controllers_let_pods_move_and_only_the_scheduler_decides():
    assert {change for change, by in CHANGES.items() if by is By.CONTROLLER} == {(State.RUNNING, State.MOVING)}
    assert {before for (before, _), by in CHANGES.items() if by is By.SCHEDULER} == {
        State.WAITING,
        State.RESTING,
        State.BINDING,
    }


@pytest.mark.parametrize(("before", "after"), [(one, other) for one in State for other in State if one is not other])
def test_a_change_that_is_not_drawn_is_refused_and_changes_nothing(before, after):
    lives = Lives()
    if before is State.GONE:
        with pytest.raises(KeyError):
            lives.turn("p", after)
        return
    lives.begin("p", before)
    if (before, after) in CHANGES:
        lives.turn("p", after)
        assert lives.of("p") is after
        return
    with pytest.raises(ValueError, match=f"p is {before} and cannot become {after}"):
        lives.turn("p", after)
    assert (lives.of("p"), lives.count[before], lives.count[after]) == (before, 1, 0)


def test_a_pod_is_met_once_and_one_that_nobody_knows_is_gone():
    lives = Lives()
    assert (lives.of("p"), "p" in lives) == (State.GONE, False)
    lives.forget("p")
    lives.meet("p", State.WAITING)
    with pytest.raises(ValueError, match="p is waiting already"):
        lives.begin("p", State.RUNNING)
    lives.meet("p", State.RUNNING)
    lives.turn("p", State.RUNNING)  # it may be told twice
    assert (lives.of("p"), lives.count[State.RUNNING], len(lives)) == (State.RUNNING, 1, 1)
    lives.forget("p")
    assert ("p" in lives, len(lives), set(lives.count.values())) == (False, 0, {0})


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(State))))
def test_every_pod_is_counted_in_the_state_that_it_is_in(steps):
    lives = Lives()
    expected: dict[int, State] = {}
    for uid, state in steps:
        before = expected.get(uid, State.GONE)
        if before is State.GONE:
            if state is not State.GONE:
                lives.begin(uid, state)
                expected[uid] = state
        elif (before, state) in CHANGES or before is state:
            lives.turn(uid, state)
            expected[uid] = state
        expected = {uid: state for uid, state in expected.items() if state is not State.GONE}
        for one in State:
            assert lives.count[one] == list(expected.values()).count(one)
        assert {uid: lives.of(uid) for uid in range(4) if uid in lives} == expected
