"""Pods of a cluster explained: those that wait, and those that stand somewhere."""

import pytest
from tests.live.cluster import make_node, make_pod

from foresail.core.model import NoFit
from foresail.errors import InputError, OptionError
from foresail.kube.objects.values import GANG, GANG_MIN, GPU_MILLI
from foresail.live.cache.listing import filled
from foresail.live.scheduler.explain import explain_live
from foresail.live.scheduler.run import profile_for
from foresail.policies.plain.devices import LeastSufficient


def explained(name, *pods, nodes=None, **more):
    nodes = nodes or [make_node("a"), make_node("b"), make_node("c", unschedulable=True)]
    cache = filled({"Node": nodes, "Pod": list(pods)}, LeastSufficient())
    return explain_live(cache, name, profile_for("kubernetes"), **more)


def test_a_waiting_pod_is_told_where_it_would_go_now():
    found = explained("p", make_pod("p"), make_pod("q", node="a"))
    assert (found.stands_on, found.rank, found.refused, found.notes) == ("", None, [], [])
    assert (found.decision.outcome.node, found.decision.feasible) == ("b", 2)
    assert [one.node for one in found.decision.candidates] == ["b", "a"]


def test_a_pod_on_a_node_gives_its_room_back_first_and_its_node_is_ranked():
    full = make_pod("p", "4", "a")
    found = explained("default/p", full, make_pod("q", node="b"), top=1)
    assert (found.stands_on, found.rank, found.decision.outcome.node, found.decision.feasible) == ("a", 1, "a", 1)
    light = make_pod("p", "1", "a")
    found = explained("p", light, make_pod("q", node="a"), top=1)
    assert (found.stands_on, found.rank, found.decision.outcome.node) == ("a", 2, "b")
    assert [one.node for one in found.decision.candidates] == ["b"]


def test_a_node_that_would_refuse_its_pod_now_says_why():
    found = explained("p", make_pod("p", "1", "c"))
    assert (found.stands_on, found.rank, found.refused) == ("c", None, ["node(s) were unschedulable"])
    gone = explained("p", make_pod("p", "1", "gone"))
    assert (gone.stands_on, gone.rank, gone.refused, gone.decision.outcome.node) == ("gone", None, [], "a")


def test_a_pod_that_fits_nowhere_and_whatever_else_holds_it_back():
    gang = {"labels": {GANG: "g"}, "annotations": {GANG_MIN: "2"}}
    found = explained("p", make_pod("p", "9", schedulingGates=[{"name": "x"}], deleted=True, **gang))
    assert isinstance(found.decision.outcome, NoFit)
    assert found.decision.outcome.reasons == {"Insufficient cpu": 2, "node(s) were unschedulable": 1}
    assert found.notes == [
        "it is being deleted",
        "it is held back by scheduling gates",
        "it is one of gang default/g (at least 2 together), shown here alone",
    ]


def test_a_pod_that_is_not_there_or_that_nobody_can_place():
    with pytest.raises(OptionError, match='no pod "default/wbe"; did you mean "default/web"'):
        explained("wbe", make_pod("web"))
    with pytest.raises(OptionError, match='no pod "team/web"'):
        explained("web", make_pod("web"), namespace="team")
    with pytest.raises(InputError, match=r"default/p cannot be placed by anyone: .*gpu-milli"):
        explained("p", make_pod("p", annotations={GPU_MILLI: "x"}))
    with pytest.raises(InputError, match=r"its PodGroup default/g .* does not exist"):
        explained("p", make_pod("p", schedulingGroup={"podGroupName": "g"}))
