"""Running counts: the same as counting all pods again, however pods and questions came about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foresail.core.kubernetes import KubernetesPod, PodTerm, Requirement, Selector, Weighted
from foresail.core.model import Placement
from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.core.tallies import LabelSet, PodSelector

WEB = Selector((Requirement("app", "In", ("web",)),))
LABELLED = Selector((Requirement("app", "Exists"),))
TEAM = Selector((Requirement("team", "In", ("a",)),))
FAR = PodTerm("zone", WEB, ("default",))
NEAR = PodTerm("host", LABELLED, (), TEAM)
SPECS = [
    PodSpec(),
    PodSpec(labels=(("app", "web"),)),
    PodSpec(labels=(("app", "web"), ("tier", "front")), kubernetes=KubernetesPod(terminating=True)),
    PodSpec(labels=(("app", "db"),), namespace="ns", kubernetes=KubernetesPod(anti_affinity=(FAR, FAR))),
    PodSpec(kubernetes=KubernetesPod(affinity=(NEAR,), preferred_anti_affinity=(Weighted(7, NEAR),))),
]
SELECTORS = [
    (PodSelector(WEB, frozenset({"default"})),),
    (PodSelector(WEB, frozenset({"default"}), terminating_too=False),),
    (PodSelector(LABELLED, frozenset(), Selector()), PodSelector(WEB, frozenset({"ns", "default"}))),
    (PodSelector(None, frozenset({"default"})),),
]
WAITING = [
    LabelSet("default", (("app", "web"),)),
    LabelSet("default", (("app", "web"),), namespace_labels=(("team", "a"),)),
    LabelSet("ns", (("app", "db"),)),
]


def shown(table):
    """Every question there is, with the number of pods that add to the answer."""
    tallies = table.tenants.tallies
    counted = [tallies.pods_selected(*selectors) for selectors in SELECTORS]
    about = [tallies.terms_about(waiting) for waiting in WAITING]
    return [(tally.by_node.tolist(), tally.pods) for tally in counted], [
        {key: (tally.by_node.tolist(), tally.pods) for key, tally in counted.items() if tally.pods}
        for terms in about
        for counted in (terms.anti_affinity, terms.affinity, terms.preferred)
    ]


def make_table(placed=()):
    table = NodeTable([NodeSpec(f"n{row}", 100, 100) for row in range(3)])
    for held in placed:
        table.assume(table.pod(held.pod.name, held.pod.spec), Placement(held.row, f"n{held.row}"))
    return table


@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(0, len(SPECS) - 1), st.integers(0, 2)),
            st.tuples(st.just("leave"), st.integers(0, 100)),
            st.tuples(st.sampled_from(["ask", "clear"]), st.none()),
        ),
        max_size=30,
    )
)
def test_counts_that_were_kept_are_those_of_a_table_that_counts_afresh(steps):
    table = make_table()
    for number, (what, which) in enumerate(steps):
        if what == "leave":
            if table.placed:
                table.forget(list(table.placed)[which % len(table.placed)])
        elif what == "clear":
            table.tenants.tallies.clear(table.count)
        elif what == "ask":
            assert shown(table) == shown(make_table(table.placed.values()))
        else:
            table.assume(table.pod(str(number), SPECS[what]), Placement(which, f"n{which}"))
    assert shown(table) == shown(make_table(table.placed.values()))


def test_terms_of_pods_on_nodes_count_for_those_they_select():
    table = make_table()
    for name, which, row in (("a", 3, 0), ("b", 4, 1), ("c", 4, 1)):
        table.assume(table.pod(name, SPECS[which]), Placement(row, f"n{row}"))
    web = ({"zone": ([2, 0, 0], 1)}, {}, {})
    web_of_the_team = ({"zone": ([2, 0, 0], 1)}, {"host": ([0, 2, 0], 2)}, {"host": ([0, -14, 0], 2)})
    assert shown(table)[1] == [*web, *web_of_the_team, {}, {}, {}]


@pytest.mark.parametrize("selectors", SELECTORS)
def test_nothing_stays_behind_when_all_pods_have_left(selectors):
    table = make_table()
    tallies = table.tenants.tallies
    tallies.pods_selected(*selectors)
    for number, spec in enumerate(SPECS):
        table.assume(table.pod(str(number), spec), Placement(0, "n0"))
    for number in range(len(SPECS)):
        table.forget(str(number))
    assert tallies.pods_selected(*selectors).by_node.tolist() == [0, 0, 0]
    assert (tallies._of_labels, tallies._of_terms, tallies._counting._pods, tallies._selecting._selectors) == ({},) * 4
