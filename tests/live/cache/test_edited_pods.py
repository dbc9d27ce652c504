"""Pods that somebody edits while they run: what they hold is what the API server enforces, whatever they say."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.live.cluster import make_cache, make_node, make_pod

from foresail.core.model import Placement
from foresail.core.table import NodeTable
from foresail.kube.objects.values import (
    GANG,
    GANG_MIN,
    GPU_COUNT,
    GPU_DEVICES,
    GPU_MILLI,
    GPU_MODEL,
    HELD_REQUEST,
    OWNER,
    POD_GROUP,
    SCORED_REQUEST,
)

NVIDIA = "nvidia.com/gpu"


def with_nodes(*names: str, **node):
    cache, heard = make_cache()
    cache.handler("Node").replace([make_node(name, **node) for name in names])
    heard.told()
    return cache, heard, cache.handler("Pod")


def taken(table: NodeTable, row: int = 0) -> dict[str, int]:
    """What is booked on a node, by resource; GPUs also as the number that no other pod could have."""
    gone = dict(zip(table.resources, (table.allocatable[row] - table.free[row]).tolist(), strict=True))
    has = int(table.gpu_count[row])
    return gone | {"whole": has - int((table.gpu_free[row, :has] >= 1000).sum())}


@pytest.mark.parametrize(
    "annotations",
    [
        {SCORED_REQUEST: "x"},
        {HELD_REQUEST: "-1/5"},
        {GPU_MILLI: "half"},
        {GPU_COUNT: "-3"},
        {GPU_COUNT: "0", GPU_MILLI: "700"},
        {GPU_COUNT: "99999"},
    ],
)
@pytest.mark.parametrize("scheduler", ["foresail", "default-scheduler", "another"])
def test_no_annotation_takes_a_running_pod_out_of_the_books(annotations, scheduler):
    cache, heard, pods = with_nodes("a", cpu="32")
    pods.apply("ADDED", make_pod("tenant", "30", "a", schedulerName=scheduler))
    pods.apply("MODIFIED", make_pod("tenant", "30", "a", annotations=annotations, schedulerName=scheduler))
    assert taken(cache.table)["cpu"] == 30_000
    assert list(cache.unreadable) == ["uid-tenant"]
    pods.apply("MODIFIED", make_pod("tenant", "30", "a", schedulerName=scheduler))
    assert (taken(cache.table)["cpu"], cache.unreadable) == (30_000, {})
    heard.told()
    # While it waits, the same annotation is told and keeps it from being placed.
    pods.apply("ADDED", make_pod("waits", "1", annotations=annotations))
    assert [what[:2] for what in heard.told()] == [("unreadable", "uid-waits")]
    assert cache.waiting("uid-waits") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": "high"},
        {"tolerations": [{"operator": "Maybe"}]},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": 5}]}}},
        {"topologySpreadConstraints": [{"maxSkew": 0}]},
        {"volumes": [{"persistentVolumeClaim": {}}]},
        {"volumes": [7]},
        {"nodeSelector": {"disk": 1}},
        {"schedulingGroup": "g"},
        {"initContainers": "none"},
    ],
)
def test_a_part_that_cannot_be_read_takes_no_other_with_it(wrong):
    cache, _, pods = with_nodes("a", cpu="32")
    pod = make_pod("p", "30", "a", labels={"app": "web"}, **wrong)
    pod["spec"]["containers"][0]["ports"] = [{"hostPort": 80}]
    pods.apply("ADDED", pod)
    held = cache.table.placed["uid-p"].pod.spec
    assert taken(cache.table)["cpu"] == 30_000
    assert (held.labels, [port.port for port in held.kubernetes.host_ports]) == ((("app", "web"),), [80])
    assert cache.unreadable["uid-p"]


def test_one_amount_that_cannot_be_read_takes_no_other_with_it():
    cache, _, pods = with_nodes("a", cpu="32")
    pod = make_pod("p", "2", "a")
    pod["spec"]["containers"] += [
        {"name": "b", "resources": {"requests": {"cpu": "lots", "memory": "1Gi"}, "limits": {"cpu": "3"}}},
        {"name": "c", "resources": {"requests": {"cpu": "-1"}}},
        "no container",
    ]
    pods.apply("ADDED", pod)
    # The limit of b stands in for the request that cannot be read.
    assert (taken(cache.table)["cpu"], taken(cache.table)["memory"]) == (5000, 2**30)


def test_amounts_beyond_all_machines_do_not_turn_round_to_free_room():
    cache, _, pods = with_nodes("a", cpu="32")
    largest = str(2**63 - 1)
    for at in range(4):
        pod = make_pod(f"p{at}", "1", "a", annotations={HELD_REQUEST: f"{largest}/{largest}"})
        pod["spec"]["containers"] = 2 * [{"resources": {"requests": {"cpu": largest, "memory": largest}}}]
        pods.apply("ADDED", pod)
        assert (cache.table.free[0, :2] < 0).all()
        assert (cache.table.tenants.held[0] > 0).all()
    for at in range(4):
        pods.apply("DELETED", make_pod(f"p{at}", node="a"))
    assert cache.table.free[0].tolist() == cache.table.allocatable[0].tolist()


def test_what_a_pod_says_it_counts_for_in_scores_adds_to_its_containers_and_never_lowers_them():
    cache, _, pods = with_nodes("a", cpu="32")
    pods.apply("ADDED", make_pod("p", "30", "a"))
    as_requested = cache.table.tenants.held[0].tolist()
    assert as_requested == [30_000, 200 * 2**20]
    for stated, counts in (
        ("0/0", as_requested),
        ("40000/1", [40_000, 200 * 2**20]),
        ("1/999999999", [30_000, 999_999_999]),
    ):
        pods.apply("MODIFIED", make_pod("p", "30", "a", annotations={HELD_REQUEST: stated, SCORED_REQUEST: stated}))
        assert cache.table.tenants.held[0].tolist() == counts
        assert taken(cache.table)["cpu"] == 30_000


@pytest.mark.parametrize(
    ("asked", "whole"),
    [({GPU_COUNT: "2", GPU_MILLI: "500"}, 2), ({GPU_MILLI: "2500"}, 3), ({GPU_COUNT: "1", NVIDIA: "3"}, 3)],
)
def test_containers_whose_requests_for_gpus_do_not_go_together_hold_the_most_of_them(asked, whole):
    cache, _, pods = with_nodes("a", gpus=8)
    pod = make_pod("p", node="a")
    pod["spec"]["containers"][0]["resources"]["requests"] = asked
    pods.apply("ADDED", pod)
    assert taken(cache.table)["whole"] == whole


@pytest.mark.parametrize("annotations", [{GPU_COUNT: "0"}, {GPU_MILLI: "100"}, {GPU_COUNT: "1", GPU_MILLI: "1"}])
def test_annotations_add_gpus_to_what_containers_request_and_never_lower_it(annotations):
    cache, _, pods = with_nodes("a", gpus=8)
    pods.apply("ADDED", make_pod("real", node="a", gpus=4, annotations=annotations))
    assert (taken(cache.table)["whole"], cache.unreadable) == (4, {})
    pods.apply("ADDED", make_pod("more", node="a", gpus=1, annotations={GPU_COUNT: "3"}))
    assert taken(cache.table)["whole"] == 7
    # The same while it waits: it is not placed where its containers do not fit.
    pods.apply("ADDED", make_pod("waits", gpus=4, annotations=annotations))
    waiting = cache.waiting("uid-waits")
    assert (waiting.gpu_count, waiting.gpu_milli) == (4, 1000)


@pytest.mark.parametrize("later", [{GPU_MILLI: "1"}, {GPU_COUNT: "0"}, {GPU_MILLI: "junk"}, {}])
def test_what_a_pod_was_given_is_not_given_back_by_an_edit(later):
    cache, _, pods = with_nodes("a", gpus=2)
    share = {GPU_MILLI: "700", GPU_DEVICES: "1"}
    pods.apply("ADDED", make_pod("p", node="a", annotations=share))
    pods.apply("MODIFIED", make_pod("p", node="a", annotations={**later, GPU_DEVICES: "0"}))
    assert cache.table.gpu_free.tolist() == [[1000, 300]]
    # Even if its node goes and comes back; and no longer once it has ended.
    cache.remove_nodes(["a"])
    cache.handler("Node").replace([make_node("a", gpus=2)])
    assert cache.table.gpu_free.tolist() == [[1000, 300]]
    pods.apply("MODIFIED", make_pod("p", node="a", phase="Succeeded", annotations=later))
    assert cache.table.gpu_free.tolist() == [[1000, 1000]]


def test_an_edit_between_decision_and_bind_gives_nothing_back_either():
    cache, _, pods = with_nodes("a", gpus=2)
    pods.apply("ADDED", make_pod("p", annotations={GPU_MILLI: "700"}))
    cache.table.assume(cache.waiting("uid-p"), Placement(0, "a", (1,)))
    pods.apply("MODIFIED", make_pod("p", annotations={GPU_MILLI: "1"}))
    pods.apply("MODIFIED", make_pod("p", node="a", annotations={GPU_MILLI: "1", GPU_DEVICES: "0"}))
    assert cache.table.gpu_free.tolist() == [[1000, 300]]


def test_a_pod_that_says_it_has_more_holds_more_beside_what_it_had():
    cache, _, pods = with_nodes("a", gpus=4)
    pods.apply("ADDED", make_pod("p", node="a", annotations={GPU_COUNT: "1", GPU_DEVICES: "2"}))
    pods.apply("MODIFIED", make_pod("p", node="a", annotations={GPU_COUNT: "2", GPU_DEVICES: "0,3"}))
    assert cache.table.placed["uid-p"].devices == (0, 2)


def stood_since(name: str, day: int, devices: str, gpus: int = 1):
    pod = make_pod(name, node="a", gpus=gpus, annotations={GPU_DEVICES: devices})
    pod["metadata"]["creationTimestamp"] = f"2026-01-{day:02}T00:00:00Z"
    return pod


@pytest.mark.parametrize("devices", ["0", "5", "4", "-1", "200", "0,0", "one", ""])
def test_however_many_pods_name_one_device_each_holds_one(devices):
    cache, _, pods = with_nodes("a", gpus=4)
    for at, name in enumerate("xyz"):
        pods.apply("ADDED", stood_since(name, 1 + at, devices))
    assert cache.table.gpu_free[0, :4].tolist().count(0) == 3
    assert taken(cache.table)["whole"] == 3


def test_of_two_pods_that_name_one_device_the_older_is_believed_whichever_is_told_first():
    old, young = stood_since("old", 1, "3", gpus=1), stood_since("young", 2, "2,3", gpus=2)
    for told in ((old, young), (young, old)):
        cache, _, pods = with_nodes("a", gpus=4)
        for pod in told:
            pods.apply("ADDED", pod)
        assert {uid: held.devices for uid, held in cache.table.placed.items()} == {
            "uid-old": (3,),
            "uid-young": (0, 1),
        }
        assert (cache.is_guess("uid-old"), cache.is_guess("uid-young")) == (False, True)
        pods.apply("DELETED", old)
        assert cache.table.placed["uid-young"].devices == (2, 3)


def test_a_device_that_comes_back_is_its_pods_again():
    cache, _, pods = with_nodes("a", gpus=4)
    pods.apply("ADDED", stood_since("p", 1, "3"))
    for gpus, devices in ((0, (0,)), (4, (3,)), (2, (0,)), (4, (3,))):
        cache.handler("Node").apply("MODIFIED", make_node("a", gpus=gpus))
        assert cache.table.placed["uid-p"].devices == devices


# --- a law -----------------------------------------------------------------------------------------------------------

QUANTITIES = st.one_of(
    st.builds("{}{}".format, st.integers(0, 10**4), st.sampled_from(["m", "", "k", "u", "n", "Ki", "Mi"])),
    st.builds("{}e{}".format, st.integers(0, 99), st.integers(-3, 3)),
    st.builds("{}.{}".format, st.integers(0, 99), st.integers(0, 99)),
)
SCALE = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3}
BINARY = {"Ki": 1024, "Mi": 1024**2}
RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "cpu": QUANTITIES,
        "memory": QUANTITIES,
        "example.com/dongle": st.integers(0, 9).map(str),
        NVIDIA: st.integers(0, 4).map(str),
    },
)
CONTAINERS = st.lists(RESOURCES, min_size=1, max_size=3)
OVERHEAD = st.fixed_dictionaries({}, optional={"cpu": QUANTITIES, "memory": QUANTITIES})
STARTERS = st.lists(st.tuples(RESOURCES, st.booleans()), max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | QUANTITIES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(["0", "1", "-1", "x", "", "1/1", "5/", "500", "99999999999999999999", "0,1", "7", "a|b"])
NAMES = (GPU_COUNT, GPU_MILLI, GPU_MODEL, GPU_DEVICES, OWNER, SCORED_REQUEST, HELD_REQUEST, GANG_MIN)
ANNOTATIONS = st.dictionaries(st.sampled_from(NAMES), WORDS | JSON, max_size=4)
LABELS = st.dictionaries(st.sampled_from([GANG, POD_GROUP, "app"]), st.text(max_size=4) | JSON, max_size=3) | JSON
STATES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["c0", "c1", "i0"])},
        optional={"allocatedResources": RESOURCES | JSON, "resources": st.builds(dict, requests=RESOURCES) | JSON},
    ),
    max_size=3,
)
STATUS = JSON | st.fixed_dictionaries(
    {}, optional={"containerStatuses": STATES | JSON, "startTime": JSON, "conditions": JSON, "nominatedNodeName": JSON}
)
TIMES = st.one_of(st.none(), st.just("2026-01-01T00:00:00Z"), JSON)


def worth(text: str) -> Decimal:
    """A quantity's value, by decimal arithmetic alone."""
    for suffix, factor in BINARY.items():
        if text.endswith(suffix):
            return Decimal(text.removesuffix(suffix)) * factor
    suffix = text[-1] if text[-1].isalpha() else ""
    return Decimal(text.removesuffix(suffix)).scaleb(SCALE[suffix])


def enforced(containers, starters, overhead) -> dict[str, Decimal]:
    """What a kubelet admits the pod with: all containers and sidecars, or an init container with those before it, and
    what its runtime needs on top.
    """
    least: dict[str, Decimal] = {}
    for name in ("cpu", "memory", "example.com/dongle", NVIDIA):
        beside, peak = Decimal(0), Decimal(0)
        for resources, sidecar in starters:
            amount = worth(resources.get(name, "0"))
            peak = max(peak, beside + amount)
            beside += amount if sidecar else 0
        running = beside + sum((worth(one.get(name, "0")) for one in containers), Decimal(0))
        least[name] = max(peak, running) + worth(overhead.get(name, "0"))
    return least


def built(containers, starters, overhead, annotations=None, labels=None, status=None, created=None):
    pod = make_pod("p", node="a")
    pod["spec"]["containers"] = [
        {"name": f"c{at}", "resources": {"requests": requests}} for at, requests in enumerate(containers)
    ]
    pod["spec"]["initContainers"] = [
        {"name": f"i{at}", "resources": {"requests": requests}, **({"restartPolicy": "Always"} if sidecar else {})}
        for at, (requests, sidecar) in enumerate(starters)
    ]
    pod["spec"]["overhead"] = overhead
    pod["metadata"] |= {"annotations": annotations, "labels": labels, "creationTimestamp": created}
    return pod | {"status": status}


@settings(max_examples=300, deadline=None)
@given(CONTAINERS, STARTERS, OVERHEAD, st.lists(st.tuples(ANNOTATIONS, LABELS, STATUS, TIMES), min_size=1, max_size=3))
@example([{"cpu": "30"}], [], {}, [({SCORED_REQUEST: "x"}, {}, {}, None)])
@example([{NVIDIA: "4"}], [], {}, [({GPU_COUNT: "0", GPU_DEVICES: "7"}, {}, {}, None)])
def test_whatever_a_pod_says_it_holds_what_its_containers_request(containers, starters, overhead, edits):
    cache, _, pods = with_nodes("a", cpu="1000", gpus=16, allocatable={"example.com/dongle": "99"})
    least = enforced(containers, starters, overhead)
    for junk in edits:
        pods.apply("MODIFIED", built(containers, starters, overhead, *junk))
        if "uid-p" not in cache.table.placed:
            assert cache.pods["uid-p"].ended
            continue
        booked = taken(cache.table)
        assert booked["cpu"] >= least["cpu"] * 1000
        assert booked["memory"] >= least["memory"]
        assert (cache.table.tenants.held[0] >= [booked["cpu"], booked["memory"]]).all()
        assert booked.get("example.com/dongle", 0) >= least["example.com/dongle"]
        assert booked["whole"] >= min(least[NVIDIA], 16)
    pods.apply("DELETED", make_pod("p"))
    assert cache.table.free[0].tolist() == cache.table.allocatable[0].tolist()
    assert (cache.table.tenants.held == 0).all()
