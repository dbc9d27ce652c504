"""The example of a training job says what the guide says it needs, and runs what is there."""

from __future__ import annotations

from pathlib import Path

import yaml

from foresail.lab.workload_image import WORKLOAD_IMAGE
from foresail.workloads.trainers.__main__ import NAMES

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/training-job"


def test_the_job_can_be_moved():
    claim, job = yaml.safe_load_all((EXAMPLE / "job.yaml").read_text())
    (volume,) = yaml.safe_load_all((EXAMPLE / "nfs.yaml").read_text())
    assert claim["spec"]["accessModes"] == volume["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["spec"]["claimRef"]["name"] == claim["metadata"]["name"]
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (spec["podReplacementPolicy"], pod["restartPolicy"]) == ("Failed", "Never")
    assert {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]} in spec["podFailurePolicy"]["rules"]
    (container,) = pod["containers"]
    assert container["image"] == WORKLOAD_IMAGE
    assert container["command"][:3] == ["python3", "-m", "foresail.workloads.trainers"]
    assert container["command"][3] in NAMES
    assert {one["name"] for one in container["env"]} == {
        *("FORESAIL_JOB", "FORESAIL_POD_UID", "FORESAIL_PROGRESS_DIR", "FORESAIL_CHECKPOINT_DIR"),
    }
    assert "foresail.dev/job" in spec["template"]["metadata"]["labels"]
    (mounted,) = container["volumeMounts"]
    assert [(one["name"], one["persistentVolumeClaim"]["claimName"]) for one in pod["volumes"]] == [
        (mounted["name"], claim["metadata"]["name"])
    ]
