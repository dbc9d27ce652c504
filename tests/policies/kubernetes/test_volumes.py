"""Filters that look at volumes: restrictions, limits, binding and zones."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foresail.core.decide import decide
from foresail.core.model import Placement
from foresail.core.volumes import TakenVolumes
from foresail.kube.objects.pod import pod_spec_of
from foresail.policies.kubernetes.volume_binding import plan_volumes

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
MAX_COUNT = "node(s) exceed max volume count"
NOT_FOUND = "node(s) didn't find available persistent volumes to bind"
OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NO_ZONE = "node(s) had no available volume zone"
NO_SPACE = "node(s) did not have enough free storage"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def mounts(*claims):
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def on_nodes(*names):
    line = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}


def put_bound(cluster, name, *, modes=("ReadWriteOnce",), labels=None, csi=None, affinity=None):
    """Put a claim and the volume it is bound to."""
    spec = {"accessModes": list(modes), "volumeName": f"pv-{name}", "storageClassName": ""}
    cluster.put("PersistentVolumeClaim", name, annotations=BOUND, spec=spec, status={"phase": "Bound"})
    volume = {"accessModes": list(modes), "csi": csi, "nodeAffinity": affinity}
    volume["claimRef"] = {"namespace": "default", "name": name}
    cluster.put("PersistentVolume", f"pv-{name}", labels=labels, spec=volume, status={"phase": "Bound"})


def put_waiting(cluster, name, *, size="1Gi", storage_class="wait", annotations=None, **more):
    """Put a claim that is bound when a pod that uses it is placed."""
    spec = {"storageClassName": storage_class, "resources": {"requests": {"storage": size}}}
    spec |= {"accessModes": ["ReadWriteOnce"], **more}
    cluster.put("PersistentVolumeClaim", name, annotations=annotations, spec=spec)


def put_class(cluster, name="wait", *, provisioner="kubernetes.io/no-provisioner", **more):
    cluster.put("StorageClass", name, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer", **more)


def put_free(cluster, name, *nodes, size="1Gi", **more):
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "wait"}
    spec |= {"nodeAffinity": on_nodes(*nodes)}
    cluster.put("PersistentVolume", name, spec=spec | more, status={"phase": "Available"})


@pytest.fixture
def cluster(make_cluster, make_node):
    return make_cluster(*(make_node(name, labels={ZONE: name, "disk": "ssd"}) for name in "abc"))


def test_what_is_wrong_with_a_claim_counts_for_all_nodes(cluster, make_kube_pod):
    pod = make_kube_pod(volumes=mounts("data"), nodeSelector={"kubernetes.io/hostname": "a"})
    assert cluster.reasons(pod) == {'persistentvolumeclaim "data" not found': 3}
    put_waiting(cluster, "data", storage_class="unknown")
    assert cluster.reasons(pod) == {"pod has unbound immediate PersistentVolumeClaims": 3}
    put_class(cluster)
    put_waiting(cluster, "data", volumeName="pv")
    assert cluster.reasons(pod) == {"pod has unbound immediate PersistentVolumeClaims": 3}


def test_a_claim_whose_volume_is_gone_counts_for_all_nodes(cluster, make_kube_pod):
    put_bound(cluster, "data")
    pod = make_kube_pod(volumes=mounts("data"))
    assert cluster.feasible(pod) == ["a", "b", "c"]
    del cluster.table.objects.volumes["pv-data"]
    cluster.table.objects_changed()
    assert cluster.reasons(pod) == {'persistentvolume "pv-data" not found': 3}


def test_a_lost_claim_and_one_that_goes_are_told(cluster, make_kube_pod):
    cluster.put("PersistentVolumeClaim", "data", spec={"volumeName": "pv"}, status={"phase": "Lost"})
    lost = 'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"'
    assert cluster.reasons(make_kube_pod(volumes=mounts("data"))) == {lost: 3}
    scratch = [{"name": "scratch", "ephemeral": {}}]
    waits = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert cluster.reasons(make_kube_pod(volumes=scratch)) == {waits: 3}


def test_a_claim_for_one_pod_closes_every_node_once_it_is_used(cluster, make_kube_pod):
    put_bound(cluster, "data", modes=["ReadWriteOncePod"])
    pod = make_kube_pod(volumes=mounts("data"))
    assert cluster.feasible(pod) == ["a", "b", "c"]
    cluster.place(pod, "b")
    assert cluster.reasons(pod) == {IN_USE: 3}
    put_bound(cluster, "data", modes=["ReadWriteMany"])
    assert cluster.feasible(pod) == ["a", "b", "c"]


AWS = {"awsElasticBlockStore": {"volumeID": "v"}}
GCE, GCE_READ = {"gcePersistentDisk": {"pdName": "d"}}, {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}
ISCSI, ISCSI_READ = {"iscsi": {"iqn": "i"}}, {"iscsi": {"iqn": "i", "readOnly": True}}


def rbd(*monitors, **more):
    return {"rbd": {"monitors": list(monitors), "image": "i", **more}}


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (AWS, AWS, False),
        (GCE, GCE_READ, False),
        (GCE_READ, GCE_READ, True),
        (ISCSI, ISCSI_READ, False),
        (ISCSI_READ, ISCSI_READ, True),
        (rbd("m1", "m2"), rbd("m2", "m3"), False),
        (rbd("m1"), rbd("m2"), True),
        (rbd("m1"), rbd("m1", pool="other"), True),
        (rbd("m1", readOnly=True), rbd("m1", readOnly=True), True),
    ],
)
def test_disks_that_one_node_mounts_once(cluster, make_kube_pod, one, other, shared):
    cluster.place(make_kube_pod(volumes=[{"name": "v"} | one]), "a")
    reasons = cluster.reasons(make_kube_pod(volumes=[{"name": "v"} | other]))
    assert reasons == ({} if shared else {"node(s) had no available disk": 1})


def put_limit(cluster, node, count):
    drivers = [{"name": "csi", "nodeID": node, "allocatable": {"count": count}}]
    cluster.put("CSINode", node, spec={"drivers": drivers})


def test_a_driver_attaches_only_so_many_volumes_each_handle_once(cluster, make_kube_pod):
    for name in ("one", "two"):
        put_bound(cluster, name, csi={"driver": "csi", "volumeHandle": f"h-{name}"})
    put_bound(cluster, "again", csi={"driver": "csi", "volumeHandle": "h-one"})
    put_limit(cluster, "a", 1)
    cluster.place(make_kube_pod(volumes=mounts("one")), "a")
    assert cluster.reasons(make_kube_pod(volumes=mounts("two"))) == {MAX_COUNT: 1}
    assert cluster.reasons(make_kube_pod(volumes=mounts("again"))) == {}


def test_attachments_count_and_do_not_make_a_volume_free(cluster, make_kube_pod):
    put_bound(cluster, "one", csi={"driver": "csi", "volumeHandle": "h-one"})
    put_limit(cluster, "a", 1)
    source = {"source": {"persistentVolumeName": "pv-one"}}
    cluster.put("VolumeAttachment", "va", spec={"attacher": "csi", "nodeName": "a", **source})
    assert cluster.reasons(make_kube_pod(volumes=mounts("one"))) == {MAX_COUNT: 1}
    put_limit(cluster, "a", 2)
    assert cluster.reasons(make_kube_pod(volumes=mounts("one"))) == {}


def test_claims_without_a_volume_count_for_the_driver_of_their_class(cluster, make_kube_pod):
    put_class(cluster, provisioner="csi")
    for name in ("one", "two"):
        put_waiting(cluster, name)
    put_limit(cluster, "a", 1)
    assert cluster.reasons(make_kube_pod(volumes=mounts("one"))) == {}
    assert cluster.reasons(make_kube_pod(volumes=mounts("one", "two"))) == {MAX_COUNT: 1}
    cluster.place(make_kube_pod(volumes=mounts("one")), "a")
    assert cluster.reasons(make_kube_pod(volumes=mounts("two"))) == {MAX_COUNT: 1}


def test_a_bound_volume_is_used_where_it_is_reached(cluster, make_kube_pod):
    put_bound(cluster, "data", affinity=on_nodes("a", "b"))
    assert cluster.reasons(make_kube_pod(volumes=mounts("data"))) == {OUT_OF_REACH: 1}


def test_an_unbound_claim_takes_a_free_volume_that_will_do(cluster, make_kube_pod):
    put_class(cluster)
    put_waiting(cluster, "data", size="2Gi")
    put_free(cluster, "small", "a", size="1Gi")
    put_free(cluster, "block", "a", size="5Gi", volumeMode="Block")
    put_free(cluster, "taken", "a", size="5Gi", claimRef={"namespace": "default", "name": "other"})
    put_free(cluster, "good", "b", size="5Gi")
    pod = make_kube_pod(volumes=mounts("data"))
    assert (cluster.feasible(pod), cluster.reasons(pod)) == (["b"], {NOT_FOUND: 2})


def test_two_claims_do_not_take_one_volume(cluster, make_kube_pod):
    put_class(cluster)
    put_waiting(cluster, "large", size="3Gi")
    put_waiting(cluster, "small", size="1Gi")
    put_free(cluster, "a-3", "a", size="3Gi")
    put_free(cluster, "b-3", "b", size="3Gi")
    put_free(cluster, "b-1", "b", size="1Gi")
    # The small claim is served first and leaves the large volume to the large one only where there are two.
    assert cluster.feasible(make_kube_pod(volumes=mounts("large", "small"))) == ["b"]


def test_a_volume_kept_for_a_claim_is_the_only_one_it_gets(cluster, make_kube_pod):
    put_class(cluster)
    put_waiting(cluster, "data")
    put_free(cluster, "free", "a")
    put_free(cluster, "kept", "b", claimRef={"namespace": "default", "name": "data"})
    assert cluster.feasible(make_kube_pod(volumes=mounts("data"))) == ["b"]


def test_volumes_are_made_in_the_topologies_of_their_class(cluster, make_kube_pod):
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}]
    put_class(cluster, provisioner="csi", allowedTopologies=allowed)
    put_waiting(cluster, "data")
    pod = make_kube_pod(volumes=mounts("data"))
    assert cluster.reasons(pod) == {NOT_FOUND: 1}
    put_waiting(cluster, "data", annotations={"volume.kubernetes.io/selected-node": "b"})
    assert (cluster.feasible(pod), cluster.reasons(pod)) == (["b"], {NOT_FOUND: 2})


def test_volumes_are_made_where_there_is_room(cluster, make_kube_pod):
    put_class(cluster, provisioner="csi")
    put_waiting(cluster, "data", size="2Gi")
    pod = make_kube_pod(volumes=mounts("data"))
    assert cluster.reasons(pod) == {}
    cluster.put("CSIDriver", "csi", spec={"storageCapacity": True})
    assert cluster.reasons(pod) == {NO_SPACE: 3}
    for name, capacity in (("a", {"capacity": "3Gi"}), ("b", {"capacity": "9Gi", "maximumVolumeSize": "1Gi"})):
        topology = {"matchLabels": {ZONE: name}}
        cluster.put("CSIStorageCapacity", name, storageClassName="wait", nodeTopology=topology, **capacity)
    assert (cluster.feasible(pod), cluster.reasons(pod)) == (["a"], {NO_SPACE: 2})


def test_two_things_may_be_wrong_with_a_pods_volumes(cluster, make_kube_pod):
    put_class(cluster)
    put_waiting(cluster, "new")
    put_bound(cluster, "old", affinity=on_nodes("a"))
    reasons = cluster.reasons(make_kube_pod(volumes=mounts("new", "old")))
    assert reasons == {OUT_OF_REACH: 2, NOT_FOUND: 3}


@pytest.mark.parametrize(
    ("labels", "feasible"),
    [
        ({ZONE: "a"}, ["a", "bare"]),
        ({ZONE: "a__b"}, ["a", "b", "bare"]),
        ({"failure-domain.beta.kubernetes.io/zone": "b"}, ["b", "bare"]),
        ({REGION: "r1"}, ["bare", "region"]),
    ],
)
def test_a_node_that_has_some_zone_must_have_the_volumes(make_cluster, make_node, make_kube_pod, labels, feasible):
    cluster = make_cluster(
        make_node("a", labels={ZONE: "a"}),
        make_node("b", labels={ZONE: "b"}),
        make_node("region", labels={REGION: "r1"}),
        make_node("bare"),
    )
    put_bound(cluster, "data", labels=labels)
    pod = make_kube_pod(volumes=mounts("data"))
    assert (cluster.feasible(pod), cluster.reasons(pod)) == (feasible, {NO_ZONE: 4 - len(feasible)})


# --- what a pod takes when it is placed ------------------------------------------------------------------------------


def plan(cluster, pod, node):
    """Claim to the volume it gets on a node, or None for one that must be made."""
    table = cluster.table
    found = plan_volumes(table.pod("asks", pod_spec_of(pod)), table, table.row_of[node])
    return {claim.name: volume.name for claim, volume in found.static} | {claim.name: None for claim in found.dynamic}


def test_claims_get_the_smallest_volumes_that_do_and_the_rest_is_made(cluster, make_kube_pod):
    put_class(cluster, provisioner="example.com/csi")
    put_waiting(cluster, "big", size="5Gi")
    put_waiting(cluster, "small", size="1Gi")
    put_free(cluster, "v1", "a", size="2Gi")
    put_free(cluster, "v2", "a", size="1Gi")
    put_free(cluster, "v3", "a", "b", size="8Gi")
    pod = make_kube_pod(volumes=mounts("big", "small", "big"))
    assert plan(cluster, pod, "a") == {"small": "v2", "big": "v3"}
    # Elsewhere the small claim comes first and takes the large volume.
    assert plan(cluster, pod, "b") == {"small": "v3", "big": None}
    assert plan(cluster, pod, "c") == {"small": None, "big": None}


def test_bound_claims_and_those_that_are_bound_at_once_need_nothing(cluster, make_kube_pod):
    put_bound(cluster, "data")
    cluster.put("StorageClass", "now", provisioner="example.com/csi", volumeBindingMode="Immediate")
    put_waiting(cluster, "soon", storage_class="now")
    assert plan(cluster, make_kube_pod(volumes=mounts("data", "soon")), "a") == {}


def taking(cluster):
    taken = TakenVolumes(cluster.table, plan_volumes)
    cluster.table.volume_taking = taken
    return taken


def test_the_next_decision_sees_the_volume_as_taken_until_the_pod_gives_it_back(cluster, make_kube_pod):
    taking(cluster)
    put_class(cluster)
    put_free(cluster, "only", "a", "b")
    put_waiting(cluster, "first")
    put_waiting(cluster, "second")
    objects = cluster.table.objects
    before = (dict(objects.volumes), dict(objects.claims))
    cluster.place(make_kube_pod(volumes=mounts("first")), "a")
    second = make_kube_pod(volumes=mounts("second"))
    assert cluster.reasons(second) == {NOT_FOUND: 3}
    # The same claim may be used by another, where the volume is to be had.
    assert cluster.feasible(make_kube_pod(volumes=mounts("first"))) == ["a", "b"]
    cluster.table.forget("on-0")
    assert (objects.volumes, objects.claims) == before
    assert cluster.feasible(second) == ["a", "b"]


def test_a_claim_whose_volume_is_to_be_made_stays_with_its_node_as_long_as_anybody_takes_it(cluster, make_kube_pod):
    taking(cluster)
    put_class(cluster, provisioner="example.com/csi")
    put_waiting(cluster, "data")
    pod = make_kube_pod(volumes=mounts("data"))
    cluster.place(pod, "b")
    assert cluster.feasible(pod) == ["b"]
    cluster.place(pod, "b")
    cluster.table.forget("on-0")
    assert cluster.feasible(pod) == ["b"]
    cluster.table.forget("on-1")
    assert cluster.feasible(pod) == ["a", "b", "c"]


def test_old_news_do_not_undo_what_was_taken_but_the_truth_does(cluster, make_kube_pod):
    taken = taking(cluster)
    put_class(cluster)
    put_free(cluster, "only", "a")
    put_waiting(cluster, "first")
    put_waiting(cluster, "second")
    cluster.place(make_kube_pod(volumes=mounts("first")), "a")
    put_free(cluster, "only", "a", size="2Gi")
    taken.volume_told("only")
    assert cluster.table.objects.volumes["only"].claim == ("default", "first", "")
    put_free(cluster, "only", "a", claimRef={"namespace": "default", "name": "second", "uid": "s"})
    taken.volume_told("only")
    assert cluster.table.objects.volumes["only"].claim == ("default", "second", "s")
    cluster.table.forget("on-0")
    assert cluster.table.objects.volumes["only"].claim == ("default", "second", "s")


def test_a_settled_claim_keeps_its_volume_after_its_pod(cluster, make_kube_pod):
    taken = taking(cluster)
    put_class(cluster)
    put_free(cluster, "only", "b")
    put_waiting(cluster, "data")
    pod = make_kube_pod(volumes=mounts("data"))
    cluster.place(pod, "b")
    taken.settle("on-0")
    cluster.table.forget("on-0")
    claim = cluster.table.objects.claims["default", "data"]
    assert (claim.volume, claim.bound) == ("only", True)
    assert cluster.reasons(pod) == {OUT_OF_REACH: 2}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)  # the fixtures hold no state
@given(
    steps=st.lists(st.tuples(st.sampled_from(["place", "leave", "told"]), st.integers(0, 5)), max_size=30),
    dynamic=st.booleans(),
)
def test_when_all_have_left_everything_is_as_the_cluster_told(make_cluster, make_node, make_kube_pod, steps, dynamic):
    cluster = make_cluster(*(make_node(name) for name in "abc"))
    taken = taking(cluster)
    put_class(cluster, provisioner="example.com/csi" if dynamic else "kubernetes.io/no-provisioner")
    for index in range(3):
        put_free(cluster, f"v{index}", *"abc"[index:])
    for index in range(6):
        put_waiting(cluster, f"c{index}")
    objects = cluster.table.objects
    told = (dict(objects.volumes), dict(objects.claims))
    standing = set()
    for step, index in steps:
        if step == "place" and index not in standing:
            pod = cluster.table.pod(f"p{index}", pod_spec_of(make_kube_pod(volumes=mounts(f"c{index // 2}"))))
            outcome = decide(pod, cluster.table, cluster.profile)
            if isinstance(outcome, Placement):
                cluster.table.assume(pod, outcome)
                standing.add(index)
        elif step == "leave" and index in standing:
            cluster.table.forget(f"p{index}")
            standing.discard(index)
        elif step == "told":
            name, key = f"v{index % 3}", ("default", f"c{index}")
            objects.volumes[name], objects.claims[key] = told[0][name], told[1][key]
            taken.volume_told(name)
            taken.claim_told(key)
        # No volume is taken for two claims, and none is lost: every claim in use without one is to be made.
        kept = [volume.claim for volume in objects.volumes.values() if volume.claim is not None]
        assert len(kept) == len(set(kept))
        selected = {claim.name for claim in objects.claims.values() if claim.selected_node}
        assert {name for _, name, _ in kept} | selected == {f"c{index // 2}" for index in standing}
    for index in standing:
        cluster.table.forget(f"p{index}")
    assert (objects.volumes, objects.claims) == told
