"""The example of a training job says what the guide says it needs, and runs what is there."""

from __future__ import annotations

from pathlib import Path

import yaml

from foresail.kube.objects.values import SHARED_VOLUMES
from foresail.lab.workload_image import WORKLOAD_IMAGE
from foresail.live.telemetry.tokens import AUDIENCE
from foresail.workloads.trainers.__main__ import NAMES

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/training-job"


def test_the_job_can_be_moved():
    claim, job = yaml.safe_load_all((EXAMPLE / "job.yaml").read_text())
    volume, foresails, its_claim = yaml.safe_load_all((EXAMPLE / "nfs.yaml").read_text())
    assert foresails["spec"] == {**volume["spec"], "claimRef": {"namespace": "foresail", "name": "training"}}
    assert its_claim["spec"]["volumeName"] == foresails["metadata"]["name"]
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


def test_the_job_that_reports_over_http_differs_in_that_alone():
    _, job = yaml.safe_load_all((EXAMPLE / "job.yaml").read_text())
    (other,) = yaml.safe_load_all((EXAMPLE / "http.yaml").read_text())
    pod, its = job["spec"]["template"]["spec"], other["spec"]["template"]["spec"]
    (container,), (its_container,) = pod["containers"], its["containers"]
    environment = {one["name"]: one.get("value") for one in its_container["env"]}
    files = {one["name"]: one["mountPath"] for one in its_container["volumeMounts"]}
    volumes = {one["name"]: one for one in its["volumes"]}
    (token,) = volumes["foresail"]["projected"]["sources"]
    assert token["serviceAccountToken"]["audience"] == AUDIENCE
    assert environment["FORESAIL_PROGRESS_TOKEN_FILE"] == f"{files['foresail']}/{token['serviceAccountToken']['path']}"
    assert environment["SSL_CERT_FILE"] == f"{files['foresail-ca']}/ca.crt"
    chart = yaml.safe_load((EXAMPLE.parents[1] / "deploy/chart/values.yaml").read_text())
    port = chart["telemetry"]["progress"]["http"]["port"]
    assert environment["FORESAIL_PROGRESS_URL"] == f"https://foresail-scheduler.foresail.svc:{port}"
    its["volumes"] = pod["volumes"]
    for name in ("env", "volumeMounts"):
        its_container[name] = container[name]
    other["metadata"]["name"] = job["metadata"]["name"]
    other["spec"]["template"]["metadata"] = job["spec"]["template"]["metadata"]
    assert other == job


def test_the_jobs_for_a_lab_are_the_same_on_a_folder_of_the_machine():
    _, job = yaml.safe_load_all((EXAMPLE / "job.yaml").read_text())
    template = job["spec"]["template"]
    (container,) = template["spec"]["containers"]
    for other in yaml.safe_load_all((EXAMPLE / "lab.yaml").read_text()):
        name = other["metadata"]["name"]
        its = other["spec"]["template"]
        assert its["metadata"] == {
            "labels": {"foresail.dev/job": name},
            "annotations": {SHARED_VOLUMES: its["spec"]["volumes"][0]["name"]},
        }
        (its_container,) = its["spec"]["containers"]
        assert its_container["command"][3] in NAMES
        for key in ("command", "imagePullPolicy", "resources"):
            its_container[key] = container[key]
        its["spec"] |= {key: template["spec"][key] for key in ("volumes", "securityContext")}
        assert other["spec"] == {**job["spec"], "template": {**its, "spec": template["spec"]}}
