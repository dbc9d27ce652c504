"""Numbers that plug-ins keep per node follow their nodes, and remembered scores follow the numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.decide import decide
from foresail.core.model import Nodes, Pod, Scores
from foresail.core.profile import Profile, UsedScore
from foresail.core.spec import NodeSpec
from foresail.core.table import NodeTable
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.plain.fit import Fit
from foresail.testing import make_pod, make_table

NAMES = [f"n{number}" for number in range(6)]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.sampled_from(NAMES), max_size=4), st.integers(0, 9)),
        st.tuples(st.just("remove"), st.lists(st.sampled_from(NAMES), max_size=3)),
        st.tuples(st.just("write"), st.dictionaries(st.sampled_from(NAMES), st.floats(-9, 9) | st.just(np.nan))),
        st.tuples(st.just("make late")),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_a_side_column_is_a_dict_by_node_name_whatever_comes_and_goes(steps):
    table = NodeTable([])
    expected: dict[str, float] = {}
    late: dict[str, int] | None = None
    for kind, *what in steps:
        if kind == "put":
            table.put_nodes(NodeSpec(name, what[1], 8) for name in what[0])
            for name in what[0]:
                expected.setdefault(name, -1.0)
                if late is not None:
                    late.setdefault(name, 7)
        elif kind == "remove":
            table.remove_nodes(what[0])
            for name in what[0]:
                expected.pop(name, None)
                if late is not None:
                    late.pop(name, None)
        elif kind == "write":
            told = {name: value for name, value in what[0].items() if name in table.row_of}
            rows = [table.row_of[name] for name in told]
            cursor, structure = table.touches, table.structure
            table.side_column("growth", -1.0).write(rows, list(told.values()))
            changed = {table.row_of[name] for name, value in told.items() if repr(expected[name]) != repr(value)}
            assert table.structure == structure
            touched = set(table.touched_since(cursor).tolist())
            assert touched <= changed  # 0.0 and -0.0 are the same number
            assert {row for row in changed if told[table.names[row]] != 0} <= touched
            expected.update(told)
        elif late is None:
            table.side_column("late", 7, np.int32)
            late = dict.fromkeys(table.names, 7)
    values = table.side_column("growth", -1.0).values
    assert values.dtype == np.float64
    np.testing.assert_equal(dict(zip(table.names, values.tolist(), strict=True)), {n: expected[n] for n in table.names})
    if late is not None:
        assert dict(zip(table.names, table.all.side("late", 7, np.int32).tolist(), strict=True)) == late


class Fastest:
    row_wise = True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        return nodes.side("growth")


def test_a_remembered_score_is_asked_for_again_where_a_number_was_written_and_only_there():
    table = make_table(allocatable=[(4000, 8, 0)] * 3)
    asked = []

    class Watched(Fastest):
        def score(self, pod: Pod, nodes: Nodes) -> Scores:
            asked.append(nodes.index.tolist())
            return super().score(pod, nodes)

    profile = Profile("p", filters=[("fit", Fit())], scores=[UsedScore("w", Watched())], devices=LeastSufficient())
    pod = make_pod("p", cpu=1, nodes=table)
    assert decide(pod, table, profile).node == "node-0"
    growth = table.side_column("growth")
    growth.write(2, 5.0)
    assert decide(pod, table, profile).node == "node-2"
    growth.write([0, 1, 2], [0.0, 9.0, 5.0])
    assert decide(pod, table, profile).node == "node-1"
    assert asked == [[0, 1, 2], [2], [1]]


def test_a_column_is_written_through_write_alone_and_named_alike_everywhere():
    table = make_table(allocatable=[(4000, 8, 0)] * 3)
    column = table.side_column("pressure", np.nan)
    assert table.side_column("pressure", np.nan) is column
    with pytest.raises(ValueError, match="read-only"):
        column.values[0] = 1.0
    with pytest.raises(
        ValueError, match='the side column "pressure" is float64 filled with nan, not float64 filled with 0'
    ):
        table.all.side("pressure")
    with pytest.raises(ValueError, match="not int64 filled with nan; name it alike everywhere"):
        table.side_column("pressure", np.nan, np.int64)


def test_a_part_of_the_nodes_sees_its_part_of_the_column():
    table = make_table(allocatable=[(4000, 8, 0)] * 3)
    table.side_column("growth").write([0, 1, 2], [1.0, 2.0, 3.0])
    assert table.all.at(np.array([2, 0])).side("growth").tolist() == [3.0, 1.0]


# --- resources by name -----------------------------------------------------------------------------------------------


def test_an_extended_resource_is_found_by_name_on_the_nodes_that_are_asked_about():
    table = make_table(
        free=[(4000, 8, 0, 5, 70), (4000, 8, 0, 6, 90)],
        allocatable=(4000, 8, 0, 9, 100),
        extended=("example.com/fpga", "foresail.dev/bandwidth"),
    )
    found = table.all.at(np.array([1])).resource("foresail.dev/bandwidth")
    assert (found.allocatable.tolist(), found.free.tolist()) == ([100], [90])
    assert table.resources[found.at] == "foresail.dev/bandwidth"
    assert found.requested_by(make_pod(extended={"foresail.dev/bandwidth": 30}, nodes=table)) == 30
    assert table.all.resource("cpu").free.tolist() == [4000, 4000]


def test_a_resource_that_no_node_has_is_none_of_it_everywhere():
    table = make_table(allocatable=[(4000, 8, 0)] * 2)
    found = table.all.resource("foresail.dev/bandwidth")
    assert (found.at, found.allocatable.tolist(), found.free.tolist()) == (None, [0, 0], [0, 0])
    pod = make_pod(extended={"foresail.dev/bandwidth": 30}, nodes=table)
    assert found.requested_by(make_pod(nodes=table)) == 0
    named = table.all.resource("foresail.dev/bandwidth")
    assert (named.at, named.allocatable.tolist(), named.requested_by(pod)) == (3, [0, 0], 30)
