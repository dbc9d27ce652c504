"""What `decide` remembers never changes what it decides."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.decide import decide
from foresail.core.memory import RowWiseWarning
from foresail.core.model import Placement, Pod
from foresail.core.profile import Profile, UsedScore
from foresail.core.spec import Gang, NodeSpec, PodSpec, Workload
from foresail.core.table import CPU, NodeTable
from foresail.policies import POLICIES
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.plain.fit import Fit
from foresail.policies.profiles.load import load_profile

NODES = [
    NodeSpec("a", 16_000, 64, 2, "T4", labels=(("rack", "r0"),)),
    NodeSpec("b", 16_000, 64, 2, "T4", labels=(("rack", "r0"),)),
    NodeSpec("c", 32_000, 64, 4, "V100M32", labels=(("rack", "r1"),)),
    NodeSpec("d", 8_000, 16, 0, "", labels=(("rack", "r1"),)),
    NodeSpec("e", 32_000, 128, 1, "A10", max_pods=3),
]
RANK = [3, 0, 4, 1, 2]
SPECS = [
    PodSpec(1000, 4),
    PodSpec(4000, 16, owner="web"),
    PodSpec(2000, 8, 1, 300),
    PodSpec(2000, 8, 1, 700, ("T4",)),
    PodSpec(2000, 8, 1, 1000),
    PodSpec(4000, 16, 2, 1000),
    PodSpec(1000, 1, 1, 500, owner="web"),
]
WORKLOAD = Workload([f"pod-{at}" for at in range(len(SPECS))], SPECS, np.arange(len(SPECS)))
RING = Gang("ring", 2)

MIXES = [
    "power:100+fgd:900",
    "rack-pack+best-fit:2",
    "least-allocated+random",
    "fgd(levels=50)",
    *(f"dot-product(dimension={dimension},norm=node)" for dimension in ("share", "divide", "extend")),
]
TIES = [{"name": f"ties {tie}", "scores": [{"policy": "fgd"}], "tie": tie} for tie in ("random", "best-fit")]


class Undeclared:
    """A policy of somebody who never heard of row_wise."""

    def score(self, pod, nodes):
        return (nodes.free[:, CPU] - pod.request[CPU]) % 7000


def undeclared():
    return Profile(
        "undeclared", filters=[("fit", Fit())], scores=[UsedScore("u", Undeclared())], devices=LeastSufficient()
    )


PROFILES = {
    **{name: (lambda name=name: load_profile(name)) for name in (*POLICIES, *MIXES)},
    **{data["name"]: (lambda data=data: load_profile(data)) for data in TIES},
    "undeclared": undeclared,
}

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, len(SPECS) - 1), st.booleans()),
        st.tuples(st.just("remove"), st.integers(0, 1000), st.booleans()),
        st.tuples(st.just("cordon"), st.integers(0, len(NODES) - 1), st.booleans()),
        st.tuples(st.just("down"), st.integers(0, len(NODES) - 1), st.booleans()),
    ),
    max_size=25,
)


def rebuilt(table):
    """The same state in a table that has never decided anything."""
    fresh = NodeTable(NODES, rank=RANK)
    for placed in table.placed.values():
        pod = Pod(placed.pod.name, fresh.shape(placed.pod.spec), gang=placed.pod.gang)
        fresh.assume(pod, Placement(placed.row, fresh.names[placed.row], placed.devices))
    for row in range(len(NODES)):
        fresh.set_unschedulable(row, unschedulable=bool(table.unschedulable[row]))
        fresh.set_down(row, down=bool(table.down[row]))
    return fresh


@pytest.mark.parametrize("name", PROFILES)
@settings(max_examples=12, deadline=None)
@given(steps=STEPS)
def test_a_remembered_decision_is_the_decision_of_a_fresh_table(name, steps):
    table = NodeTable(NODES, rank=RANK)
    remembering = PROFILES[name]()
    remembering.learn(WORKLOAD, table.all)
    for number, (action, which, flag) in enumerate(steps):
        if action == "remove":
            if table.placed:
                table.forget(list(table.placed)[which % len(table.placed)])
        elif action == "cordon":
            table.set_unschedulable(which, unschedulable=flag)
        elif action == "down":
            table.set_down(which, down=flag)
        else:
            gang = RING if flag else None
            fresh, forgetful = rebuilt(table), PROFILES[name]()
            forgetful.learn(WORKLOAD, fresh.all)
            # Random policies draw alike from here, whatever they drew before.
            remembering.seed(number)
            forgetful.seed(number)
            pod = Pod(f"pod-{number}", table.shape(SPECS[which]), gang=gang)
            decision = decide(pod, table, remembering)
            assert decision == decide(Pod(pod.name, fresh.shape(SPECS[which]), gang=gang), fresh, forgetful)
            if isinstance(decision, Placement):
                table.assume(pod, decision)


class Relative:
    """Says nothing, and looks at the other nodes."""

    def score(self, _pod, nodes):
        return nodes.free[:, CPU] / nodes.free[:, CPU].max()


class ByName:
    """Says nothing, and looks at the pod's name."""

    def score(self, pod, nodes):
        return (nodes.index + ord(pod.name[-1])) % 5


@pytest.mark.parametrize("scorer", [Relative, ByName])
def test_a_policy_that_is_not_row_wise_is_found_out_and_then_always_asked(scorer):
    table = NodeTable(NODES, rank=RANK)
    score = UsedScore("sly", scorer())
    profile = Profile("p", filters=[("fit", Fit())], scores=[score], devices=LeastSufficient())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(40):
            decide(Pod(f"pod-{number}", table.shape(SPECS[0])), table, profile)
    assert [warning.category for warning in caught] == [RowWiseWarning]
    assert 'policy "sly"' in str(caught[0].message)
    assert score.row_wise is False
