"""A job is who it was before it was moved, and never somebody of another namespace."""

from __future__ import annotations

from typing import Any

import pytest
from tests.live.cluster import make_pod
from tests.live.telemetry.reporting import NOW_S, Reporting

from foresail.live.cache.pods import CachedPod, PodReader
from foresail.live.telemetry.jobs import job_of, names_of

INDEX = "batch.kubernetes.io/job-completion-index"


def read(name: str, *, namespace: str = "team", owner: dict[str, Any] | None = None, **more: Any) -> CachedPod:
    made = make_pod(name, **more)
    made["metadata"]["namespace"] = namespace
    if owner is not None:
        made["metadata"]["ownerReferences"] = [{"controller": True, "name": "o", **owner}]
    return PodReader().read(made)


@pytest.mark.parametrize(
    ("pod", "job"),
    [
        (read("p-x1", owner={"kind": "Job", "uid": "u1"}), "team/u1"),
        (read("p-x2", owner={"kind": "Job", "uid": "u1"}), "team/u1"),
        (read("p-3-x", owner={"kind": "Job", "uid": "u1"}, labels={INDEX: "3"}), "team/u1/3"),
        (read("web-7", owner={"kind": "ReplicaSet", "uid": "u2"}, labels={INDEX: "3"}), "team/u2"),
        (read("set-a-12", owner={"kind": "StatefulSet", "uid": "u3"}), "team/u3/12"),
        (read("bare"), "team/uid-bare"),
        (read("noted", owner={"kind": "Job", "uid": "u1", "controller": False}), "team/uid-noted"),
        (read("p-x1", owner={"kind": "Job", "uid": "u1"}, labels={"foresail.dev/job": "train"}), "team/train"),
        (read("bare", labels={"foresail.dev/job": "train"}), "team/train"),
        (read("bare", labels={"foresail.dev/job": ""}), "team/uid-bare"),
        (read("p", namespace="other", labels={"foresail.dev/job": "train"}), "other/train"),
    ],
)
def test_a_job_is_named_by_its_label_its_owner_or_itself(pod, job):
    assert job_of(pod) == job


def test_a_job_that_was_made_anew_under_its_old_name_is_another():
    first, second = (read("p", owner={"kind": "Job", "name": "train", "uid": uid}) for uid in ("u1", "u2"))
    assert job_of(first) != job_of(second)
    assert first.owner != second.owner


def test_a_label_that_is_no_text_names_nobody():
    pod = read("p")
    pod.labels = {"foresail.dev/job": 3}
    assert job_of(pod) == "team/uid-p"


@pytest.mark.parametrize(
    ("pod", "names"),
    [
        (read("p-x1", owner={"kind": "Job", "uid": "u1"}), ("p-x1", "o")),
        (read("o-3-x", owner={"kind": "Job", "uid": "u1"}, labels={INDEX: "3"}), ("o-3-x", "o-3")),
        (read("web-7", owner={"kind": "ReplicaSet", "uid": "u2"}), ("web-7",)),
        (read("train", labels={"foresail.dev/job": "train"}), ("train",)),
        (read("p", labels={"foresail.dev/job": "train"}), ("train", "p")),
    ],
)
def test_a_pod_may_report_by_its_label_its_name_or_its_jobs_name(pod, names):
    assert names_of(pod) == names


def test_a_report_is_of_the_job_in_its_namespace_and_a_label_goes_before_a_name():
    one = Reporting()
    plain, labelled = one.run("train"), one.run("pod-1", job="train")
    one.run("train", namespace="other")
    one.run("train-2", schedulerName="default-scheduler")
    assert one.jobs.reported_as("team", "train") == "team/train"
    assert one.jobs.reported_as("team", "pod-1") == "team/train"
    assert one.jobs.reported_as("other", "train") == "other/uid-other-train"
    assert one.jobs.reported_as("team", "train-2") is None, "it is another scheduler's"
    one.end(labelled)
    assert one.jobs.reported_as("team", "train") == f"team/{plain}"
    assert one.jobs.reported_as("team", "pod-1") is None
    assert "team/train" not in one.jobs


def test_a_job_with_two_pods_began_with_the_younger_and_is_there_until_the_last_is_gone():
    one = Reporting()
    first = one.run("a", job="train", began_s=NOW_S - 100)
    second = one.run("b", job="train", began_s=NOW_S - 50)
    assert one.jobs.began_s("team/train") == NOW_S - 50
    one.end(second)
    assert one.jobs.began_s("team/train") == NOW_S - 100
    assert "team/train" in one.jobs
    one.end(first)
    assert "team/train" not in one.jobs
    assert one.jobs.began_s("team/train") == 0.0
    assert (one.jobs._pods, one.jobs._uids, one.jobs._named) == ({}, {}, {})


def test_a_pod_whose_label_is_edited_is_known_by_the_new_one_alone():
    one = Reporting()
    one.run("p", job="a")
    one.run("p", job="b")
    assert (one.jobs.reported_as("team", "a"), one.jobs.reported_as("team", "b")) == (None, "team/b")
