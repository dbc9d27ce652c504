"""A pod that is resized counts for the most its node may have to give it: asked for, set aside, or in use."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foresail.kube.objects.granted import with_granted
from foresail.kube.objects.requests import effective_requests

NANO = 10**9


def container(name: str, cpu: str | None, limit: str | None = None, **more: Any) -> dict[str, Any]:
    resources = {"requests": {} if cpu is None else {"cpu": cpu}, "limits": {} if limit is None else {"cpu": limit}}
    return {"name": name, "resources": resources, **more}


def state(name: str, allocated: str | None = None, actual: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name}
    if allocated is not None:
        found["allocatedResources"] = {"cpu": allocated}
    if actual is not None:
        found["resources"] = {"requests": {"cpu": actual}}
    return found


def cpus(spec: dict[str, Any], **status: Any) -> float:
    """What the pod counts for."""
    return effective_requests(with_granted(spec, status)).get("cpu", 0) / NANO


SIDECAR = {"restartPolicy": "Always"}
INFEASIBLE = [{"type": "PodResizePending", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "reason": "Deferred"}]


def test_each_container_counts_for_its_own_most():
    spec = {"containers": [container("a", "1"), container("b", "4")]}
    states = [state("a", "3", "2"), state("b", "1", "1")]
    assert cpus(spec, containerStatuses=states) == 3 + 4


def test_a_sidecar_is_resized_like_a_container_and_what_only_starts_the_pod_is_not():
    spec = {"containers": [container("a", "1")], "initContainers": [container("i", "2", **SIDECAR)]}
    assert cpus(spec, containerStatuses=[], initContainerStatuses=[state("i", "5", "5")]) == 1 + 5
    # One that has run and ended holds nothing any more, whatever its last state says.
    spec["initContainers"] = [container("i", "2")]
    assert cpus(spec, initContainerStatuses=[state("i", "5", "5")]) == 2


def test_a_pod_with_an_amount_as_a_whole_counts_for_the_most_of_that():
    spec = {"containers": [container("a", "1")], "resources": {"requests": {"cpu": "2"}}}
    assert cpus(spec) == 2
    assert (
        cpus(
            spec,
            allocatedResources={"cpu": "3"},
            resources={"requests": {"cpu": "4"}},
            containerStatuses=[state("a", "1", "1")],
        )
        == 4
    )


def test_a_limit_stands_in_for_a_request_that_is_missing_also_while_the_node_says_less():
    spec = {"containers": [container("a", None, limit="3")]}
    assert cpus(spec) == 3
    assert cpus(spec, containerStatuses=[state("a", "1", "1")]) == 3


@pytest.mark.parametrize(("conditions", "counts"), [([], 4), (DEFERRED, 4), (INFEASIBLE, 2)])
def test_what_is_put_off_may_yet_be_given_and_what_is_infeasible_will_not(conditions, counts):
    spec = {"containers": [container("a", "4")]}
    assert cpus(spec, containerStatuses=[state("a", "1", "2")], conditions=conditions) == counts


def test_what_the_node_grants_beyond_the_request_is_kept_by_name():
    spec = {"containers": [container("a", "1")]}
    states = [{"name": "a", "allocatedResources": {"cpu": "1", "memory": "5"}}]
    assert effective_requests(with_granted(spec, {"containerStatuses": states})) == {"cpu": NANO, "memory": 5 * NANO}


def test_nothing_is_changed_where_nothing_is_under_way_nor_what_was_given():
    spec = {"containers": [container("a", "1")]}
    assert with_granted(spec, {}) is spec
    assert with_granted(spec, {"containerStatuses": [{"name": "a", "restartCount": 3}]}) is spec
    before = repr(spec)
    with_granted(spec, {"containerStatuses": [state("a", "7", "8")]})
    assert repr(spec) == before


AMOUNTS = st.one_of(st.none(), st.integers(0, 9).map(str))


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=3), st.booleans())
def test_it_is_the_largest_of_what_is_said_container_by_container(said, refused):
    """By KEP 1287: max(spec, allocated, actual), and without the spec once the kubelet has called it infeasible."""
    spec = {"containers": [container(str(at), asked, limit) for at, (asked, limit, _, _) in enumerate(said)]}
    states = [state(str(at), allocated, actual) for at, (_, _, allocated, actual) in enumerate(said)]
    expected = 0
    for asked, limit, allocated, actual in said:
        wanted = int(asked if asked is not None else limit or 0)
        granted = [int(one) for one in (allocated, actual) if one is not None]
        expected += max(granted) if refused and granted else max([wanted, *granted])
    assert cpus(spec, containerStatuses=states, conditions=INFEASIBLE if refused else []) == expected
