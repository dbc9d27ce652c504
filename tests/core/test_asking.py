"""Whoever asks the filters, and about however many nodes, hears the same."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.asking import (
    Filters,
    Without,
    count_reasons,
    reasons_if_all_refuse,
    reasons_of,
    refusal,
    resolvable_by_removal,
)
from foresail.core.decide import Decision
from foresail.core.explain import explain
from foresail.core.model import Placement, Pod
from foresail.core.profile import Profile, UsedScore
from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.plain.fit import Fit
from foresail.policies.plain.least_allocated import LeastAllocated


class Coded:
    """Refuses a node by the code that stands in a list, row by row."""

    def __init__(self, codes, *, row_wise=True, resolvable=True, unresolvable=()):
        self.codes = np.array(codes, dtype=np.uint8)
        self.row_wise = row_wise
        self.resolvable = resolvable
        self.unresolvable = unresolvable

    def refuses(self, _pod, nodes):
        return self.codes[nodes.index]

    def why(self, _pod, code):
        return (f"code {code}",)


def profile_of(*plugins):
    return Profile(
        "coded",
        filters=[(f"f{at}", plugin) for at, plugin in enumerate(plugins)],
        scores=[UsedScore("least-allocated", LeastAllocated())],
        devices=LeastSufficient(),
    )


def table_of(count):
    return NodeTable([NodeSpec(f"n{at}", 4000, 64) for at in range(count)])


codes = st.lists(st.sampled_from([0, 0, 1, 2, 255]), min_size=6, max_size=6)


@settings(deadline=None)
@given(st.lists(st.tuples(codes, st.booleans()), max_size=4))
def test_a_node_counts_under_the_first_filter_that_refuses_it_whoever_asks(filters):
    profile, table = profile_of(*(Coded(said, row_wise=row_wise) for said, row_wise in filters)), table_of(6)
    pod = table.pod("p", PodSpec(1000, 1))
    first = [next(((at, said[row]) for at, (said, _) in enumerate(filters) if said[row]), None) for row in range(6)]
    verdict = Decision(pod, table, profile).verdict
    judged, passes = Filters.of(profile).judge(pod, table, table.every_row)
    assert judged.tolist() == verdict.tolist()
    places = list(range(len(first))) if passes is None else passes.tolist()
    assert places == [at for at, one in enumerate(first) if one is None]
    for row, one in enumerate(first):
        said = () if one is None else (f"code {one[1]}",)
        assert refusal(pod, table, profile, row) == said
        assert (not verdict[row]) == (one is None) == Filters.of(profile).passes(pod, table, row)
        if one is not None:
            assert reasons_of(pod, profile, int(verdict[row])) == said
    counted = count_reasons(pod, profile, verdict)
    assert sum(counted.values()) == sum(one is not None for one in first)
    steps = explain(pod, table, profile).filters
    assert [step.refused for step in steps] == [
        {f"code {code}": first.count((at, code)) for code in (1, 2, 255) if (at, code) in first}
        for at in range(len(filters))
    ]


def test_what_removal_cannot_cure_is_told_by_filter_and_by_code():
    profile, table = (
        profile_of(Coded([1, 0, 0, 0], resolvable=False), Coded([1, 1, 2, 0], unresolvable={2})),
        table_of(4),
    )
    verdict = Decision(table.pod("p", PodSpec(1, 1)), table, profile).verdict
    assert resolvable_by_removal(verdict, profile).tolist() == [False, True, False, True]


def test_pods_that_no_node_would_ever_take_are_known_from_filters_of_single_nodes():
    table = table_of(2)
    pod = table.pod("p", PodSpec(1000, 1))
    assert reasons_if_all_refuse(pod, table, profile_of(Coded([1, 2]))) == {"code 1": 1, "code 2": 1}
    assert reasons_if_all_refuse(pod, table, profile_of(Coded([1, 0]), Coded([0, 1], row_wise=False))) == {}


def test_a_held_node_must_pass_with_and_without_who_holds_it():
    table = table_of(1)
    filters = Filters.of(profile_of(Fit()))
    large, small = Pod("large", table.shape(PodSpec(3000, 1))), Pod("small", table.shape(PodSpec(2000, 1)))
    table.assume(large, Placement(0, "n0"))
    held = table.placed["large"]
    assert not filters.passes(small, table, 0)
    with Without(table, [held]):
        assert filters.passes(small, table, 0)
        assert not filters.passes(small, table, 0, [held])
    assert table.free[0].tolist()[:2] == [1000, 63]
