"""What gangs say of how close they are to be, and of members to come, as it reaches core; and when pods end."""

import pytest
from tests.live.cluster import make_node, make_pod

from foresail.kube.objects.values import GANG, GANG_LATER, GANG_MIN, GANG_TOPOLOGY
from foresail.live.cache.listing import filled
from foresail.live.scheduler.ends import PodEnds
from foresail.policies.plain.devices import LeastSufficient


def waiting(pod):
    cache = filled({"Node": [make_node("a")], "Pod": [pod]}, LeastSufficient())
    (uid,) = cache.pods
    return cache, cache.as_waiting(uid)


@pytest.mark.parametrize(
    ("text", "labels", "required"),
    [(None, (), False), ("required:rack", ("rack",), True), ("preferred:rack,zone", ("rack", "zone"), False)],
)
def test_the_annotation_of_a_member_is_its_gangs_topology(text, labels, required):
    annotations = {GANG_MIN: "2"} | ({} if text is None else {GANG_TOPOLOGY: text})
    _, pod = waiting(make_pod("p", labels={GANG: "g"}, annotations=annotations))
    assert (pod.gang.topology, pod.gang.topology_required) == (labels, required)


def test_members_that_come_later_are_declared_but_not_waited_for():
    _, pod = waiting(make_pod("p", labels={GANG: "g"}, annotations={GANG_MIN: "5", GANG_LATER: "1"}))
    assert (pod.gang.min_members, pod.gang.at_once) == (5, 4)
    _, why = waiting(make_pod("p", labels={GANG: "g"}, annotations={GANG_MIN: "5", GANG_LATER: "some"}))
    assert GANG_LATER in why


def test_an_annotation_that_cannot_be_read_keeps_the_pod_waiting_and_says_why():
    _, why = waiting(make_pod("p", labels={GANG: "g"}, annotations={GANG_MIN: "2", GANG_TOPOLOGY: "rack"}))
    assert 'the topology is "rack"; write required: or preferred:' in why


@pytest.mark.parametrize(
    ("more", "annotations", "end_s"),
    [
        ({}, {}, float("inf")),
        ({"activeDeadlineSeconds": 30}, {}, 160.0),
        ({"activeDeadlineSeconds": 30, "terminationGracePeriodSeconds": 5}, {}, 135.0),
        ({"activeDeadlineSeconds": 30}, {"foresail.dev/duration-s": "1"}, 160.0),
        ({}, {"foresail.dev/duration-s": "1"}, float("inf")),
    ],
)
def test_when_a_waiting_pod_would_end(more, annotations, end_s):
    class Clock:
        def now(self):
            return 100.0

    cache, pod = waiting(make_pod("p", annotations=annotations, **more))
    assert PodEnds(cache, Clock(), unix_s=lambda: 5000.0)(pod) == end_s
