"""What we would have done beside another scheduler: one choice a bind, counted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.live.cluster import OURS, make_node, make_pod

from foresail.errors import ResultsError
from foresail.live.scheduler.run import profile_for
from foresail.live.scheduler.shadow import Agreement, Shadow, ShadowedPod
from foresail.policies import POLICIES


def choice(ours, theirs="a", *, agree=False, feasible=True):
    return ShadowedPod("p", theirs, ours, agree=agree, feasible=feasible, our_score=1.0, their_score=1.0)


def test_each_choice_is_counted_once():
    agreement = Agreement()
    assert "0 pods bound by the other scheduler; agreed on 0:" in str(agreement)
    for one in (
        choice("a", agree=True),
        choice("b", agree=True),
        choice("b"),
        choice("b", feasible=False),
        choice("", feasible=False),
    ):
        agreement.add(one)
    assert agreement == Agreement(5, same_node=1, as_good=1, worse=1, infeasible=1, nowhere=1)
    assert str(agreement) == (
        "5 pods bound by the other scheduler; agreed on 2 (40.0 %): 1 on the same node, 1 on one as good; "
        "1 on a node that we score lower, 1 on one that our filters refuse, 1 that we would have let wait"
    )


@given(st.lists(st.builds(choice, st.sampled_from(["", "a", "b"]), agree=st.booleans(), feasible=st.booleans())))
def test_the_counts_add_up(made):
    agreement = Agreement()
    for one in made:
        agreement.add(one)
    parts = (agreement.same_node, agreement.as_good, agreement.worse, agreement.infeasible, agreement.nowhere)
    assert sum(parts) == agreement.pods == len(made)


def watching(policy="most-allocated", *, nodes=(), **more):
    shadow = Shadow(profile_for(policy), scheduler_name=OURS, **more)
    shadow.cache.handler("Node").replace(list(nodes))
    shadow.is_watching = True
    return shadow, shadow.cache.handler("Pod")


def bind(pods, name, node, **more):
    """A pod comes, and another scheduler gives it a node."""
    pods.apply("ADDED", make_pod(name, **more))
    pods.apply("MODIFIED", make_pod(name, node=node, **more))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_bind_is_compared_with_the_cluster_as_it_was_before_it(tmp_path):
    out = tmp_path / "deep" / "choices.jsonl"
    shadow, pods = watching(nodes=[make_node("a"), make_node("b"), make_node("small", cpu="1")], out=out)
    bind(pods, "p", "small")  # the most allocated of all, and full then
    pods.apply("MODIFIED", make_pod("p", node="small", phase="Running"))
    bind(pods, "q", "b")  # a is as good
    bind(pods, "r", "a")  # b holds q, so b is better
    bind(pods, "s", "small")  # full
    bind(pods, "t", "a", cpu="64")
    bind(pods, "other", "a", schedulerName="another")
    bind(pods, "u", "unknown")
    pods.apply("ADDED", make_pod("static", node="a"))  # nobody's choice: it came with its node
    shadow.close()
    assert shadow.agreement == Agreement(5, same_node=1, as_good=1, worse=1, infeasible=1, nowhere=1)
    told = lines(out)
    assert [(one["pod"], one["theirs"], one["ours"], one["agree"], one["feasible"]) for one in told] == [
        ("default/p", "small", "small", True, True),
        ("default/q", "b", "a", True, True),
        ("default/r", "a", "b", False, True),
        ("default/s", "small", "a", False, False),
        ("default/t", "a", "", False, False),
    ]
    assert [one["their_score"] is None for one in told] == [False, False, False, True, True]
    assert told[2]["their_score"] < told[2]["our_score"]
    assert [bool(one["why"]) for one in told] == [False] * 4 + [True]


def test_it_counts_only_what_is_bound_while_it_watches_and_ends_when_told():
    ends = []
    shadow, pods = watching(nodes=[make_node("a")], stop_after=2, on_end=lambda: ends.append("end"))
    shadow.is_watching = False
    bind(pods, "before", "a", cpu="100m")
    shadow.is_watching = True
    for number in range(4):
        bind(pods, f"p{number}", "a", cpu="100m")
    assert (shadow.agreement.pods, ends) == (2, ["end"])


class _Broken:
    row_wise = True

    def score(self, pod, nodes):
        raise RuntimeError("no opinion")


def test_a_policy_that_fails_is_a_choice_of_nowhere(monkeypatch):
    monkeypatch.setitem(POLICIES, "broken", f"{__name__}:_Broken")
    shadow, pods = watching("broken", nodes=[make_node("a"), make_node("b")])
    bind(pods, "p", "a")
    assert shadow.agreement == Agreement(1, nowhere=1)


def test_a_file_that_cannot_be_written_is_told_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"choices\.jsonl: cannot be written .*; give --out another file"):
        watching(out=tmp_path / "file" / "choices.jsonl")
