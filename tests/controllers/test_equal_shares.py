from hypothesis import given
from hypothesis import strategies as st

from foresail.controllers import controller
from foresail.core.control import View
from foresail.core.model import Pod
from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.testing import make_view


def a_view(nodes: dict[str, int], pods: list[tuple[str, str, int, int, str]]) -> View:
    """Nodes by milli-CPU; pods with node, request, limit and namespace."""
    table = NodeTable([NodeSpec(name, milli, 0) for name, milli in nodes.items()])
    running: dict[str, list[Pod]] = {}
    for name, node, cpu_milli, _, namespace in pods:
        running.setdefault(node, []).append(table.pod(name, PodSpec(cpu_milli, namespace=namespace)))
    return make_view(table, running, limits_milli={name: limit_milli for name, _, _, limit_milli, _ in pods})


def told(view: View, **options) -> list[tuple[str, int, str]]:
    return [
        (action.pod.name, action.cpu_milli, action.why) for action in controller("equal-shares", **options).act(view)
    ]


def test_jobs_of_a_node_get_equal_shares_of_what_the_others_leave():
    view = a_view(
        {"a": 4000, "b": 1000},
        [
            ("one", "a", 100, 0, "default"),
            ("two", "a", 2000, 0, "team"),
            ("proxy", "a", 1000, 0, "kube-system"),
            ("alone", "b", 1000, 0, "default"),
        ],
    )
    assert told(view) == [(name, 1500, "2 jobs share 3000 milli-CPU") for name in ("one", "two")]
    assert told(view, namespace="team") == [("two", 2900, "1 jobs share 2900 milli-CPU")]


def test_what_a_limit_leaves_over_goes_to_the_others():
    pods = [("tight", "a", 500, 600, "default"), ("one", "a", 100, 0, "default"), ("two", "a", 100, 9000, "default")]
    assert [(name, milli) for name, milli, _ in told(a_view({"a": 4000}, pods))] == [
        ("tight", 600),
        ("one", 1700),
        ("two", 1700),
    ]


def test_a_node_that_is_too_small_for_its_jobs_lets_them_shrink_and_one_without_room_is_left_alone():
    pods = [("one", "a", 900, 0, "default"), ("two", "a", 300, 0, "default")]
    view = a_view({"a": 1200}, pods)
    view.table.put_nodes([NodeSpec("a", 1000, 0)])
    assert [milli for _, milli, _ in told(view)] == [500, 500]
    view.table.put_nodes([NodeSpec("a", 0, 0)])
    assert told(view) == []


amounts = st.tuples(st.integers(1, 3000), st.sampled_from((0, 0, 200, 3000)))


@given(st.integers(0, 9000), st.lists(amounts, max_size=6))
def test_shares_are_equal_within_the_node_and_stay_once_they_are(spare_milli, jobs):
    jobs = [(milli, limit and max(limit, milli)) for milli, limit in jobs]
    has = spare_milli + sum(milli for milli, _ in jobs)
    named = [(str(at), "a", milli, limit, "default") for at, (milli, limit) in enumerate(jobs)]
    answer = {name: milli for name, milli, _ in told(a_view({"a": has}, named))}
    now = [(name, node, answer.get(name, milli), limit, space) for name, node, milli, limit, space in named]
    assert sum(milli for _, _, milli, _, _ in now) <= has
    free = [milli for _, _, milli, limit, _ in now if not limit or milli < limit]
    assert not free or max(free) - min(free) <= 1
    assert all(milli <= min(free, default=milli) for _, _, milli, limit, _ in now if limit and milli == limit)
    assert told(a_view({"a": has}, now)) == []
