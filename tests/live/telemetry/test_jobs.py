"""A job is who it was before it was moved, and never somebody of another namespace."""

from __future__ import annotations

from typing import Any

import pytest
from tests.live.cluster import make_pod

from foresail.live.cache.pods import CachedPod, PodReader
from foresail.live.telemetry.jobs import job_of

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
