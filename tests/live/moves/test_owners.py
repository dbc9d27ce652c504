"""What has to be so for a pod to be moved safely, and the patch that mends it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tests.live.cluster import make_pod
from tests.live.moves.stage import make_job, owned_by

from foresail.live.moves.owners import lacks, obstacle
from foresail.live.moves.subjects import Subject

Object = dict[str, Any]


def job_subject(**spec: Any) -> Subject:
    job = make_job("train")
    for name, value in spec.items():
        if value is None:
            job["spec"].pop(name, None)
        elif name == "status":
            job["status"] = value
        else:
            job["spec"][name] = value
    pod = owned_by(job, "Job", make_pod("train-x", node="a", restartPolicy="Never"))
    return Subject(pod, job)


def rule(action: str, **on: Any) -> Object:
    return {"rules": [{"action": action, **on}]}


DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def exits(operator: str, *codes: int) -> Object:
    return {"onExitCodes": {"operator": operator, "values": list(codes)}}


def test_a_job_that_starts_no_second_pod_and_ignores_disruptions_lacks_nothing():
    assert [one for one in lacks(job_subject()) if one.stops] == []


def test_a_job_that_starts_a_second_pod_beside_the_first_is_mended_by_a_patch():
    found = lacks(job_subject(podReplacementPolicy=None))[0]
    assert "two train at once" in found.problem
    assert found.command("team") == (
        'kubectl -n team patch job train --type merge -p \'{"spec":{"podReplacementPolicy":"Failed"}}\''
    )


@pytest.mark.parametrize(("failed", "limit", "stops"), [(0, 6, False), (4, 6, False), (5, 6, True), (0, 1, True)])
def test_a_job_whose_every_move_counts_as_a_failure_keeps_two_failures_of_its_own(failed, limit, stops):
    subject = job_subject(podFailurePolicy=None, backoffLimit=limit, status={"failed": failed})
    (found,) = [one for one in lacks(subject) if "counts as a failure" in one.problem]
    assert found.stops is stops
    assert f"{failed} of {limit}" in found.problem
    assert found.remedy == "make job/train anew with this; podFailurePolicy is immutable"
    assert found.manifest == {"spec": {"podFailurePolicy": make_job("x")["spec"]["podFailurePolicy"]}}
    assert found.patch == ({"spec": {"backoffLimit": limit + 10}} if stops else None)


def test_failures_by_index_are_counted_by_the_pods_own_index():
    subject = job_subject(podFailurePolicy=None, backoffLimitPerIndex=2, backoffLimit=99, status={"failed": 50})
    subject.pod["metadata"]["annotations"] = {"batch.kubernetes.io/job-index-failure-count": "1"}
    assert "1 of 2 (backoffLimitPerIndex)" in obstacle(subject)
    subject.pod["metadata"]["annotations"] = {"batch.kubernetes.io/job-index-failure-count": "0"}
    assert obstacle(subject) == ""


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (rule("FailJob", **DISRUPTED), "FailJob on DisruptionTarget"),
        (rule("FailJob", **exits("In", 1, 143)), "FailJob on exit code 143"),
        (rule("FailIndex", **exits("NotIn", 0, 1)), "FailIndex on exit codes other than 0, 1"),
        (rule("FailJob", **exits("In", 1)), ""),
        (rule("FailJob", **exits("NotIn", 143)), ""),
        ({"rules": [{"action": "Ignore", **DISRUPTED}, {"action": "FailJob", **exits("In", 143)}]}, ""),
        ({"rules": [{"action": "FailJob", **exits("In", 143)}, {"action": "Ignore", **DISRUPTED}]}, "FailJob on exit"),
        (rule("FailJob", onPodConditions=[{"type": "ConfigIssue", "status": "True"}]), ""),
        (rule("FailJob", onPodConditions=[{"type": "DisruptionTarget", "status": "False"}]), ""),
    ],
)
def test_a_job_that_a_move_would_end_is_not_moved_and_its_first_matching_rule_decides(policy, why):
    found = obstacle(job_subject(podFailurePolicy=policy, backoffLimit=50))
    assert (why in found) if why else found == ""


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"suspend": True}, "its Job is suspended"),
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, "its Job is managed by kueue.x-k8s.io/multikueue"),
        ({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, "its Job has ended"),
        ({"status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}}, "its Job has ended"),
        ({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}, ""),
    ],
)
def test_a_job_that_would_make_no_successor_is_not_moved(spec, why):
    found = obstacle(job_subject(**spec))
    assert found.startswith(why) if why else found == ""


def bare(**changes: Any) -> Subject:
    pod = make_pod("solo", node="a", labels={"foresail.dev/job": "solo"})
    for path, value in changes.items():
        part, _, name = path.partition("_")
        pod[part][name] = value
    return Subject(pod)


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (bare(), ""),
        (bare(metadata_labels={}), "it has no owner that would make a successor"),
        (bare(metadata_deletionTimestamp="now"), "it is being deleted"),
        (bare(status_phase="Succeeded"), "it has ended (Succeeded)"),
        (bare(metadata_annotations={"foresail.dev/no-move": ""}), "its annotation foresail.dev/no-move says so"),
        (bare(metadata_annotations={"foresail.dev/no-move": "true"}), "its annotation foresail.dev/no-move says so"),
        (bare(metadata_annotations={"foresail.dev/no-move": "False"}), ""),
        (bare(metadata_annotations={"kubernetes.io/config.mirror": "x"}), "it is a static pod of its node"),
        (bare(spec_volumes=[{"name": "data", "hostPath": {"path": "/data"}}]), "its volume data is a path on its node"),
        (bare(spec_volumes=[{"name": "data", "emptyDir": {}}]), ""),
        (
            bare(
                metadata_annotations={"foresail.dev/shared-volumes": "other, data"},
                spec_volumes=[{"name": "data", "hostPath": {"path": "/data"}}],
            ),
            "",
        ),
        (
            bare(
                metadata_annotations={"foresail.dev/shared-volumes": "other"},
                spec_volumes=[{"name": "data", "hostPath": {"path": "/data"}}],
            ),
            "its volume data is a path on its node",
        ),
    ],
)
def test_what_a_pod_itself_says(subject, why):
    found = obstacle(subject)
    assert found.startswith(why) if why else found == ""


@pytest.mark.parametrize("kind", ["local", "hostPath"])
def test_a_claim_on_a_volume_of_the_node_stops_a_move(kind):
    subject = Subject(bare().pod, volumes={"data": {"spec": {kind: {"path": "/mnt"}}}})
    assert obstacle(subject) == f"its claim data is bound to a volume on its node ({kind})"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("DaemonSet", "a DaemonSet makes its successor for the same node"),
        ("Node", "it is a static pod of its node"),
        ("RayCluster", "its owner is a RayCluster; what that makes in its place is not known"),
        ("ReplicaSet", "its owner ReplicaSet web is gone"),
    ],
)
def test_owners_that_make_no_successor_elsewhere(kind, why):
    owner = {"metadata": {"name": "web", "uid": "uid-web"}}
    assert obstacle(Subject(owned_by(owner, kind, make_pod("web-x", node="a")))).startswith(why)


def test_an_owner_that_is_being_deleted_makes_no_successor():
    owner = {"metadata": {"name": "web", "uid": "uid-web", "deletionTimestamp": "now"}, "spec": {}}
    subject = Subject(owned_by(owner, "ReplicaSet", make_pod("web-x", node="a")), owner)
    assert obstacle(subject) == "its owner ReplicaSet web is being deleted"


def test_what_stops_a_move_is_told_before_what_one_should_know():
    subject = bare(spec_volumes=[{"name": "scratch", "emptyDir": {}}], spec_terminationGracePeriodSeconds=2)
    subject.pod["metadata"]["annotations"] = {"foresail.dev/no-move": "true"}
    found = lacks(subject)
    assert [one.stops for one in found] == [True, False, False]
    assert found[1].manifest == {"spec": {"terminationGracePeriodSeconds": 60}}
    assert json.loads(found[0].command("default").split("-p ")[1].strip("'")) == {
        "metadata": {"annotations": {"foresail.dev/no-move": None}}
    }


@pytest.mark.parametrize(
    ("modes", "one_at_a_time"),
    [
        ([["ReadWriteOnce"]], True),
        ([["ReadWriteOncePod"]], True),
        ([["ReadWriteMany"]], False),
        ([["ReadOnlyMany"]], False),
        ([["ReadWriteOnce", "ReadWriteMany"]], False),
        ([["ReadWriteMany"], ["ReadWriteOnce"]], True),
        ([], False),
    ],
)
def test_a_claim_that_only_one_node_can_use_keeps_two_pods_apart(modes, one_at_a_time):
    claims = {str(at): {"spec": {"accessModes": copy.copy(one)}} for at, one in enumerate(modes)}
    assert Subject(bare().pod, claims=claims).is_on_one_node_at_a_time is one_at_a_time


def test_a_job_that_restarts_its_pods_itself_is_told_that_the_policy_needs_them_not_to():
    subject = job_subject(podFailurePolicy=None)
    subject.pod["spec"]["restartPolicy"] = "OnFailure"
    (found,) = [one for one in lacks(subject) if "counts as a failure" in one.problem]
    assert found.manifest["spec"]["template"] == {"spec": {"restartPolicy": "Never"}}


def deployment(replicas: int = 1, **template: Any) -> Subject:
    spec = {"replicas": replicas, "template": {"metadata": template, "spec": {}}}
    above = {"metadata": {"name": "web", "uid": "uid-web"}, "spec": spec}
    owner = {"metadata": {"name": "web-1", "uid": "uid-web-1"}, "spec": spec}
    return Subject(owned_by(owner, "ReplicaSet", make_pod("web-x", node="a")), owner, above)


def test_what_the_template_says_is_patched_in_the_deployment_above():
    subject = deployment()
    subject.pod["spec"]["terminationGracePeriodSeconds"] = 5
    (found,) = [one for one in lacks(subject) if "SIGTERM" in one.problem]
    assert found.command("team") == (
        "kubectl -n team patch deployment web --type merge -p "
        '\'{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":60}}}}\''
    )


def test_an_annotation_that_comes_again_with_each_successor_is_told_so():
    annotations = {"foresail.dev/no-move": "true"}
    subject = deployment(annotations=annotations)
    subject.pod["metadata"]["annotations"] = annotations
    assert lacks(subject)[0].remedy == "its successors carry it, too, until deployment/web makes them without it"


@pytest.mark.parametrize(
    ("subject", "count"),
    [
        (deployment(1), 0),
        (deployment(3), 3),
        (job_subject(parallelism=2), 2),
        (job_subject(parallelism=2, completionMode="Indexed"), 0),
    ],
)
def test_pods_that_nothing_tells_apart_are_one_job(subject, count):
    found = [one.problem for one in lacks(subject) if "nothing tells apart" in one.problem]
    assert found == [] if not count else f"has {count} pods" in found[0]


# --- what is around a pod --------------------------------------------------------------------------------------------


def trainer(*volumes: Object, at: str = "", mounts: dict[str, str] | None = None) -> Subject:
    subject = bare(spec_volumes=list(volumes))
    container = subject.pod["spec"]["containers"][0]
    container["env"] = [{"name": "FORESAIL_CHECKPOINT_DIR", "value": at}] if at else []
    container["volumeMounts"] = [{"mountPath": path, "name": name} for path, name in (mounts or {}).items()]
    return subject


CLAIM = {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}
SCRATCH = {"name": "scratch", "emptyDir": {}}


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        (trainer(), "nothing says where it keeps checkpoints"),
        (trainer(SCRATCH), "nothing says where it keeps checkpoints"),
        (trainer(CLAIM), ""),  # it may have its own way
        (trainer({"name": "files", "nfs": {"server": "x", "path": "/"}}), ""),
        (trainer(CLAIM, at="/data/run", mounts={"/data": "shared"}), ""),
        (trainer(CLAIM, SCRATCH, at="/data/run", mounts={"/data": "shared", "/scratch": "scratch"}), ""),
        (trainer(CLAIM, at="/elsewhere", mounts={"/data": "shared"}), "is /elsewhere, on no volume"),
        (trainer(CLAIM, at="/database", mounts={"/data": "shared"}), "is /database, on no volume"),
        (
            trainer(CLAIM, SCRATCH, at="/data/tmp/x", mounts={"/data": "shared", "/data/tmp": "scratch"}),
            "is /data/tmp/x, on its volume scratch (emptyDir)",
        ),
    ],
)
def test_checkpoints_that_are_not_there_for_the_successor_are_told(subject, told):
    found = [one for one in lacks(subject) if not one.stops]
    assert [one.problem for one in found if told and told in one.problem] or (not told and found == [])


def budget(allowed: int, labels: dict[str, str] | None, **spec: Any) -> Object:
    chosen = {} if labels is None else {"selector": {"matchLabels": labels}}
    status = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1}
    return {"metadata": {"name": "keep"}, "spec": {**spec, **chosen}, "status": status}


SOLO = {"foresail.dev/job": "solo"}


@pytest.mark.parametrize(
    ("budgets", "told"),
    [
        ([budget(1, SOLO, maxUnavailable=1)], ""),
        ([budget(0, {"app": "other"}, maxUnavailable=0)], ""),
        ([budget(0, None, maxUnavailable=0)], ""),  # without a selector it is about nobody
        ([budget(0, SOLO, maxUnavailable=0)], "disruption budget keep (maxUnavailable: 0) allows nobody to go now"),
        ([budget(0, {}, minAvailable="100%")], "disruption budget keep (minAvailable: 100%) allows nobody"),
        ([budget(1, SOLO), budget(1, {})], "2 disruption budgets are about it (keep, keep)"),
    ],
)
def test_budgets_that_let_nobody_go_stop_moves(budgets, told):
    subject = Subject(bare().pod, budgets=tuple(budgets))
    found = obstacle(subject)
    assert found.startswith(told) if told else found == ""


def test_a_claim_of_one_node_at_a_time_is_told():
    subject = Subject(trainer(CLAIM).pod, claims={"shared": {"spec": {"accessModes": ["ReadWriteOnce"]}}})
    (found,) = lacks(subject)
    assert not found.stops
    assert found.problem.startswith("its claim shared (ReadWriteOnce) is of use on one node at a time")
