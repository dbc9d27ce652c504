"""The manifests of bulk-synchronous jobs, read: versions, rights and words that the programs know."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.deploy.charts import allowed, granted, of_kind, one_of
from typer.testing import CliRunner

from foresail import __version__
from foresail.cli.main import app
from foresail.live.supersteps.objects import ACCOUNT, lease_rights

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FILES = ("namespace", "zookeeper", "profiler", "runner")


def manifest(name: str) -> list[dict]:
    return list(yaml.safe_load_all((DEPLOY / "supersteps" / f"{name}.yaml").read_text(encoding="utf-8")))


def pod_specs(objects: list[dict]) -> list[dict]:
    return [one["spec"]["template"]["spec"] for one in objects if one["kind"] in {"Job", "StatefulSet"}]


@pytest.mark.parametrize("name", FILES)
def test_everything_stands_in_the_namespace_that_is_made_for_it(name):
    (namespace,) = manifest("namespace")
    for one in manifest(name):
        if one["kind"] not in {"Namespace", "ClusterRole", "ClusterRoleBinding"}:
            assert one["metadata"]["namespace"] == namespace["metadata"]["name"]


@pytest.mark.parametrize("name", ["zookeeper", "profiler", "runner"])
def test_pods_ask_for_no_right_that_the_strictest_namespace_refuses(name):
    (spec,) = pod_specs(manifest(name))
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(("name", "words"), [("profiler", ["measure", "stress"]), ("runner", ["bsp", "run"])])
def test_the_programs_know_every_word_of_their_jobs(name, words):
    (spec,) = pod_specs(manifest(name))
    (container,) = spec["containers"]
    assert container["image"] == f"foresail:{__version__}"
    assert container["args"][: len(words)] == words
    known = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    for word in container["args"][len(words) :]:
        if word.startswith("--"):
            assert re.search(rf"{word.partition('=')[0]}\b", known), word


def test_what_zookeeper_was_told_outlives_its_pod():
    """Its log of transactions, too: without it all that was said since the last snapshot is gone."""
    (spec,) = pod_specs(manifest("zookeeper"))
    (container,) = spec["containers"]
    claims = {
        one["metadata"]["name"] for one in one_of(manifest("zookeeper"), "StatefulSet")["spec"]["volumeClaimTemplates"]
    }
    kept = {mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in claims}
    environment = {one["name"]: one["value"] for one in container["env"]}
    # The image's own place for snapshots is /data, for transactions /datalog.
    assert {environment.get("ZOO_DATA_DIR", "/data"), environment.get("ZOO_DATA_LOG_DIR", "/datalog")} <= kept


def test_a_runner_that_has_said_why_it_failed_is_not_started_again():
    job = one_of(manifest("runner"), "Job")
    first = job["spec"]["podFailurePolicy"]["rules"][0]
    assert (first["action"], first["onExitCodes"]["values"]) == ("FailJob", [2])
    assert job["spec"]["backoffLimit"] > 0


def test_the_runner_may_do_what_it_needs_and_no_more():
    objects = manifest("runner")
    role = next(one for one in of_kind(objects, "Role") if one["metadata"]["name"] == "foresail-runner")
    lease = ("get", "list", "watch", "create", "update", "patch", "delete")
    assert allowed(role) == {
        *(("", "pods", verb) for verb in ("get", "create", "delete")),
        ("", "pods/resize", "patch"),
        *(("coordination.k8s.io", "leases", verb) for verb in lease),
        *(("", "configmaps", verb) for verb in ("get", "list", "create", "update", "delete")),
        *(("events.k8s.io", "events", verb) for verb in ("create", "patch")),
    }
    roles = allowed(one_of(objects, "ClusterRole"))
    assert roles == {("", kind, verb) for kind in ("nodes", "pods") for verb in ("list", "watch")}
    assert granted(objects, "foresail-runner") == set()  # that account is of another namespace


def test_tasks_have_the_rights_that_the_coordinator_would_give_them():
    objects = [one for one in manifest("runner") if one["metadata"]["name"] == ACCOUNT]
    made = [body for _, body in lease_rights("foresail-jobs")]
    assert [one["kind"] for one in objects] == ["ServiceAccount", "Role", "RoleBinding"]
    assert allowed(objects[1]) == allowed(made[1])
    assert (objects[2]["roleRef"], objects[2]["subjects"]) == (made[2]["roleRef"], made[2]["subjects"])


def test_the_image_of_tasks_has_the_versions_that_tests_run_with():
    recipe = (DEPLOY / "Containerfile.tasks").read_text(encoding="utf-8")
    (kazoo,) = re.findall(r"kazoo==[\d.]+", recipe)
    assert kazoo in (DEPLOY.parent / "constraints.txt").read_text(encoding="utf-8").split()
    (spec,) = pod_specs(manifest("profiler"))
    (image,) = [word for word in spec["containers"][0]["args"] if "--image" in word]
    assert image == f"--image=foresail-tasks:{__version__}"
