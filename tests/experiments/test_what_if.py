"""From files to an answer, and to a results folder."""

import json

import polars as pl
import pytest
from tests.live.cluster import make_node, make_pod

from foresail.errors import InputError, OptionError
from foresail.experiments.request import WhatIfRequest
from foresail.experiments.what_if import store_what_if, what_if, what_if_table
from foresail.kube.objects.values import GANG, GANG_MIN
from foresail.live.snapshot import PodChoice, snapshot_of
from foresail.results.folder import read_run
from foresail.traces.snapshot import write_snapshot

CLAIM = {
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"storageClassName": "later", "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.fixture
def cluster(tmp_path):
    """Two nodes; a GPU of the first is taken; one pod waits, one is gated."""
    lists = {
        "Node": [make_node("a", gpus=2), make_node("b")],
        "Namespace": [{"metadata": {"name": "default"}}],
        "PriorityClass": [{"metadata": {"name": "urgent"}, "value": 1000}],
        "StorageClass": [
            {"metadata": {"name": "later"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}
        ],
        "Pod": [
            make_pod("holds", "1", "a", gpus=1),
            make_pod("mirror", "1", "b"),
            make_pod("waits", "2", schedulerName="default-scheduler"),
            make_pod("gated", schedulingGates=[{"name": "x"}]),
            make_pod("leaves", deleted=True),
        ],
    }
    lists["Pod"][1]["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "b", "controller": True}]
    path = tmp_path / "cluster.yaml"
    write_snapshot(path, snapshot_of(lists, PodChoice()))
    return path


def new(tmp_path, *objects):
    path = tmp_path / "new.json"
    path.write_text(json.dumps([{"kind": "Pod", **one} for one in objects]))
    return str(path)


def told(answer):
    return [
        (one.pod.name, f"{one.placement.node} {one.devices}".strip() if one.placement else one.why)
        for one in answer.answers
    ]


def test_those_that_wait_are_placed_around_those_that_stand(cluster):
    answer = what_if(WhatIfRequest(str(cluster)))
    assert told(answer) == [("default/waits", "a")]
    assert answer.left_out == {"default/gated": "it is held back by scheduling gates"}
    assert answer.summary == "1 of 1 pods fit, 1 left out"


def test_how_many_more_of_these_fit(cluster, tmp_path):
    pods = new(tmp_path, make_pod("train", "1", gpus=1))
    answer = what_if(WhatIfRequest(str(cluster), pods=pods, replicas=3, waiting=False))
    assert told(answer) == [
        ("default/train-1", "a 1"),
        ("default/train-2", "2 Insufficient nvidia.com/gpu"),
        ("default/train-3", "2 Insufficient nvidia.com/gpu"),
    ]
    assert answer.summary == "1 of 3 pods fit"


def test_new_pods_come_last_unless_a_class_of_the_cluster_says_otherwise(cluster, tmp_path):
    plain, urgent = make_pod("plain", "4"), make_pod("urgent", "2", priorityClassName="urgent")
    answer = what_if(WhatIfRequest(str(cluster), pods=new(tmp_path, plain, urgent)))
    assert [name for name, _ in told(answer)] == ["default/urgent", "default/waits", "default/plain"]


def test_copies_of_a_gang_are_gangs_of_their_own(cluster, tmp_path):
    gang = {"labels": {GANG: "g"}, "annotations": {GANG_MIN: "2"}}
    pods = new(tmp_path, make_pod("g-0", "2", **gang), make_pod("g-1", "2", **gang))
    answer = what_if(WhatIfRequest(str(cluster), pods=pods, replicas=2, waiting=False))
    fits = {one.pod.name: one.placement is not None for one in answer.answers}
    assert fits == {"default/g-0-1": True, "default/g-1-1": True, "default/g-0-2": False, "default/g-1-2": False}


def test_objects_that_new_pods_bring_count(cluster, tmp_path):
    pod = make_pod("uses", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    request = WhatIfRequest(str(cluster), pods=new(tmp_path, pod), waiting=False)
    assert told(what_if(request)) == [("default/uses", '2 persistentvolumeclaim "data" not found')]
    request = WhatIfRequest(str(cluster), pods=new(tmp_path, CLAIM, pod), waiting=False)
    assert [name for name, node in told(what_if(request)) if node in {"a", "b"}] == ["default/uses"]


def test_all_pods_are_placed_anew_but_those_that_a_node_runs_itself(cluster):
    answer = what_if(WhatIfRequest(str(cluster), evict_all=True))
    assert sorted(one.pod.name for one in answer.answers) == ["default/holds", "default/waits"]
    assert dict(told(answer))["default/holds"] == "a 0"


def test_pods_with_resource_claims_are_not_placed_and_not_moved(tmp_path):
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "any-gpu"}]}
    lists = {
        "Node": [make_node("a")],
        "Pod": [make_pod("runs", "3", "a", **claims), make_pod("waits", **claims), make_pod("large", "2")],
    }
    path = tmp_path / "cluster.yaml"
    write_snapshot(path, snapshot_of(lists, PodChoice()))
    for evict_all in (False, True):
        answer = what_if(WhatIfRequest(str(path), evict_all=evict_all))
        assert dict(told(answer)) == {
            "default/large": "1 Insufficient cpu",
            "default/waits": '1 waiting for resourceclaim "gpu", and Foresail allocates none',
        }


def test_the_answer_as_a_results_folder(cluster, tmp_path):
    pods = new(tmp_path, make_pod("train", "1", gpus=1))
    request = WhatIfRequest(str(cluster), policy="fgd", pods=pods, replicas=2)
    for name in ("first", "second"):
        store_what_if(tmp_path / name, what_if(request, measure=True))
    files = {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "second").iterdir()}
    stored = read_run(tmp_path / "first")
    assert (stored.protocol, stored.policy, stored.trace) == ("snapshot", "fgd", "cluster")
    assert stored.manifest["command"] == request.command
    assert list(stored.manifest["inputs"]) == sorted([str(cluster), pods])
    assert stored.manifest["left_out"] == {"default/gated": "it is held back by scheduling gates"}
    why = "2 Insufficient nvidia.com/gpu, 1 Insufficient cpu"
    assert stored.summary == {"pods": 3, "fit": 2, "reasons": {why: 1}}
    assert stored.placements.select("pod", "node", "devices").rows() == [
        ("default/waits", "a", ""),
        ("default/train-1", "a", "1"),
        ("default/train-2", "", ""),
    ]
    assert stored.pods.select("outcome", "reason").rows()[-1] == ("waiting", why)
    assert stored.timeline.select("used_cpu_milli", "used_gpu_milli", "running", "waiting").rows() == [
        (2000, 1000, 2, 3),
        (5000, 2000, 4, 1),
    ]
    assert stored.nodes.filter(pl.col("node") == "a")["gpu_free_milli_by_device"].to_list() == ["0-0"]


def test_the_table_says_it_all(cluster, tmp_path):
    pods = new(tmp_path, make_pod("train", "9", gpus=1))
    table = what_if_table(what_if(WhatIfRequest(str(cluster), pods=pods)))
    shown = [[str(cell) for cell in column.cells] for column in table.columns]
    assert shown[0] == ["default/waits", "default/train", "default/gated"]
    assert shown[3][1:] == [
        "2 Insufficient cpu, 1 Insufficient nvidia.com/gpu",
        "left out: it is held back by scheduling gates",
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"replicas": 0}, "--replicas is 0"),
        ({"replicas": 2}, "--replicas needs --pods"),
        ({"waiting": False}, "leaves nobody to place"),
        ({"seed": -1}, "--seed is -1"),
        ({"policy": "fdg"}, 'did you mean "fgd"'),
    ],
)
def test_requests_that_make_no_sense(cluster, more, said):
    with pytest.raises(OptionError, match=said):
        what_if(WhatIfRequest(str(cluster), **more))


def test_pods_that_cannot_be_read_are_told_with_their_file(cluster, tmp_path):
    pods = new(tmp_path, make_pod("x", priorityClassName="urgnt"))
    with pytest.raises(InputError, match=r'new.json.*priorityClassName is "urgnt"; did you mean "urgent"'):
        what_if(WhatIfRequest(str(cluster), pods=pods))
    with pytest.raises(InputError, match="the ending"):
        what_if(WhatIfRequest(str(cluster), pods="pods.txt"))
