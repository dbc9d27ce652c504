"""Trainers as pods have them, on a real kubelet: told to go they checkpoint, and a new pod resumes from there."""

from __future__ import annotations

import csv
import os
import re

import pytest

from foresail.lab import Lab
from foresail.lab.workload_image import WORKLOAD_IMAGE

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="real kubelets need root"),
]
PODS = "/api/v1/namespaces/default/pods"
STEPS = 600


def trainer(name, job, folder):
    environment = {"FORESAIL_JOB": job, "FORESAIL_PROGRESS_DIR": "/shared", "FORESAIL_CHECKPOINT_DIR": "/shared/saved"}
    uid = {"name": "FORESAIL_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    command = ["python3", "-m", "foresail.workloads.trainers", "drnn", "--steps", str(STEPS), "--report-every", "1"]
    container = {
        "name": "train",
        "image": WORKLOAD_IMAGE,
        "imagePullPolicy": "Never",
        "command": [*command, "--scale", "0.5", "--save-every", "1000"],
        "env": [*({"name": key, "value": value} for key, value in environment.items()), uid],
        "resources": {"requests": {"cpu": "300m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        # Held by its finalizer, so that its exit code can be read after it was deleted.
        "metadata": {"name": name, "finalizers": ["foresail.dev/read-first"]},
        "spec": {
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": [{"name": "shared", "hostPath": {"path": str(folder)}}],
        },
    }


def ended(api, name):
    """The exit code of a pod that ends, and what it said; its object may go then."""
    path = f"{PODS}/{name}"
    done = api.wait(path, lambda pod: pod["status"]["phase"] in {"Succeeded", "Failed"}, within_s=240)
    said = api.text(f"{path}/log")
    api.patch(path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    return done["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], said


def rows_of(folder, job):
    with (folder / job / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_pod_that_is_deleted_checkpoints_and_the_next_one_goes_on_bit_by_bit(labs, nothing_left):
    folder = labs / "shared"
    folder.mkdir()
    with Lab("trainers", kubelets=1, node_cpu="1", workload_image=True, base=labs) as lab, lab.api() as api:
        api.wait("/api/v1/namespaces/default/serviceaccounts/default", lambda _found: True)
        api.create(PODS, trainer("first", "moved", folder))
        api.wait(f"{PODS}/first", lambda _pod: (folder / "moved/progress.csv").is_file(), within_s=120)
        api.delete(f"{PODS}/first")
        code, said = ended(api, "first")
        assert code == 143, said
        at = int(re.search(r"step=(\d+) total=\d+ note=checkpoint:sigterm", said)[1])
        assert at < STEPS
        for name, job in (("second", "moved"), ("whole", "whole")):
            api.create(PODS, trainer(name, job, folder))
            code, said = ended(api, name)
            assert code == 0, said
            assert said.splitlines()[-1] == f"foresail progress step={STEPS} total={STEPS} note=done"
            api.delete(f"{PODS}/{name}")
        moved, whole = rows_of(folder, "moved"), rows_of(folder, "whole")
    assert [row["note"] for row in moved if row["note"]] == ["checkpoint:sigterm", "resume", "checkpoint:", "done"]
    assert [int(row["step"]) for row in moved if row["note"] == "resume"] == [at]
    losses = [[(row["step"], row["loss"]) for row in rows if row["loss"]] for rows in (moved, whole)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == STEPS
