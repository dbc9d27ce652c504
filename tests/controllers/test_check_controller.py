"""The check that users run on their controllers finds what it promises to find."""

import itertools

import pytest

from foresail.controllers import CONTROLLERS, controller
from foresail.core.control import Move, Resize
from foresail.testing import check_controller, make_pod, make_table, make_view


@pytest.mark.parametrize("name", CONTROLLERS)
def test_every_controller_keeps_the_contract(name):
    check_controller(controller(name))


COUNT = itertools.count()


class Odd:
    every_s = 1.0

    def __init__(self, act):
        self._act = act

    def act(self, view):
        return self._act(view)


def rob(view):
    view.table.free[0] += 1
    return []


def forget(view):
    view.running.clear()
    return []


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda view: [Resize(one.pod, 0, "why") for one in view.running.values()], "cpu_milli is 0"),
        (lambda view: [Move(one.pod, "why", "nowhere") for one in view.running.values()], "no node 'nowhere'"),
        (lambda view: [Resize(one.pod, 1, f"{next(COUNT)} times") for one in view.running.values()], "and then"),
        (rob, "Odd changed what it was shown: free"),
        (forget, "Odd changed what it was shown"),
    ],
)
def test_a_controller_that_breaks_the_contract_is_found(act, said):
    with pytest.raises(AssertionError, match=said):
        check_controller(Odd(act))


def test_a_view_shows_what_runs_where_and_what_is_measured():
    table = make_table(allocatable=[(4000, 8, 0)] * 2)
    pods = [make_pod(name, cpu=1000, nodes=table) for name in "ab"]
    view = make_view(
        table, {"node-1": pods}, now_s=9.0, since_s=4.0, limits_milli={"b": 1500}, readings={("a", "x"): 2.5}
    )
    (room, on_it), *others = view.by_node()
    assert others == []
    assert (room.name, room.row, room.cpu_milli, room.cpu_free_milli) == ("node-1", 1, 4000, 2000)
    assert [(one.pod.name, one.since_s, one.cpu_milli, one.cpu_limit_milli) for one in on_it] == [
        ("a", 4.0, 1000, 0),
        ("b", 4.0, 1000, 1500),
    ]
    assert (view.telemetry.reading("a", "x"), view.telemetry.reading("b", "x")) == (2.5, None)
