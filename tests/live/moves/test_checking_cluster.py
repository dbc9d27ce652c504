"""`foresail control check` on a real API server: what it tells is so, and its patches are taken and mend it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.live.console import Said, ended, until
from tests.live.running import PODS

from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.errors import ApiError
from foresail.lab import Lab

pytestmark = pytest.mark.cluster

Object = dict[str, Any]
JOBS = "/apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


@pytest.fixture(scope="module")
def lab():
    with Lab(fake_nodes=2, fake_cpu="8") as started:
        yield started


def template(app: str, claim: str = "shared", **spec: Any) -> Object:
    container = {
        "name": "main",
        "image": "none",
        "env": [{"name": "FORESAIL_CHECKPOINT_DIR", "value": "/shared/checkpoints"}],
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }
    volumes = [{"name": "shared", "persistentVolumeClaim": {"claimName": claim}}]
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [container], "volumes": volumes, "schedulerName": "foresail", **spec},
    }


def make_claim(name: str, mode: str) -> Object:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}
    return {"metadata": {"name": name}, "spec": spec}


def checked(lab: Lab, *words: str) -> tuple[int, list[Object]]:
    said = ended("control", "check", *words, "--json", "--kubeconfig", lab.kubeconfig)
    return said.code, json.loads(said.out)


def problems(found: list[Object]) -> list[str]:
    return [lack["problem"] for one in found for lack in one["lacks"]]


def mend(api: BlockingClient, found: list[Object]) -> None:
    """Do what the commands say, as somebody would who reads the patch and the object that it is for."""
    paths = {"job": JOBS, "deployment": DEPLOYMENTS, "pod": PODS, "poddisruptionbudget": BUDGETS}
    for lack in found[0]["lacks"]:
        if lack["command"]:
            kind, _, name = lack["patch_of"].partition("/")
            api.patch(f"{paths[kind]}/{name}", lack["patch"])


def until_pods(api: BlockingClient, app: str) -> None:
    until(lambda: api.get(f"{PODS}?labelSelector=app={app}")["items"])


def test_a_job_is_mended_by_the_patches_that_it_is_told_and_then_lacks_nothing(lab):
    with lab.api() as api:
        until(lambda: _made(api, CLAIMS, make_claim("shared", "ReadWriteMany")))
        spec = {"backoffLimit": 6, "podReplacementPolicy": "TerminatingOrFailed"}
        api.create(
            JOBS, {"metadata": {"name": "bad"}, "spec": spec | {"template": template("bad", restartPolicy="Never")}}
        )
        until_pods(api, "bad")
        code, found = checked(lab, "job/bad")
        assert code == 1
        assert found[0]["movable"] is False
        assert len(found[0]["pods"]) == 1
        assert [one.partition(" (")[0] for one in problems(found)] == [
            "its Job starts a successor while the old pod still ends, so that two train at once",
            "each move counts as a failure of its Job: 0 of 6 so far",
        ]
        mend(api, found)
        code, found = checked(lab, "job/bad")
        assert (code, found[0]["movable"], len(found[0]["lacks"])) == (1, True, 1)
        # What takes no patch is for the Job's manifest.
        manifest = found[0]["lacks"][0]["manifest"]
        good = {"backoffLimit": 6, "template": template("good", restartPolicy="Never"), **manifest["spec"]}
        api.create(JOBS, {"metadata": {"name": "good"}, "spec": good})
        until_pods(api, "good")
        assert checked(lab, "job/good")[1][0]["lacks"] == []
        said = ended("control", "check", "job/good", "--kubeconfig", lab.kubeconfig)
        assert (said.code, "lacks nothing" in said.out) == (0, True)
        code, found = checked(lab, "--all")
        assert (code, [one["object"] for one in found]) == (1, ["job/bad", "job/good"])
        code, found = checked(lab, "job/good", "--scheduler-name", "other")
        assert (code, found[0]["movable"]) == (1, False)
        assert problems(found)[0].startswith("it is placed by foresail (schedulerName), and the controllers of other")


def test_a_deployment_is_told_of_budgets_of_claims_and_of_what_its_template_says(lab):
    with lab.api() as api:
        until(lambda: _made(api, CLAIMS, make_claim("single", "ReadWriteOnce")))
        made = template("web", claim="single", terminationGracePeriodSeconds=2)
        # Nothing gets ready here, so that a rolling update would never be over.
        strategy = {"type": "Recreate"}
        selector = {"matchLabels": {"app": "web"}}
        spec = {"replicas": 2, "selector": selector, "template": made, "strategy": strategy}
        api.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
        keep = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
        api.create(BUDGETS, {"metadata": {"name": "keep"}, "spec": keep})
        until_pods(api, "web")
        code, found = checked(lab, "deploy/web")
        told = problems(found)
        assert code == 1
        for text in ("disruption budget keep (maxUnavailable: 0)", "2 s to end", "ReadWriteOnce", "has 2 pods"):
            assert [one for one in told if text in one], (text, told)
        mend(api, found)
        told = until(lambda: _without(problems(checked(lab, "deployment/web")[1]), "2 s to end"))
        budget = api.get(f"{BUDGETS}/keep")
        assert budget["spec"]["maxUnavailable"] == 1
        assert [one for one in told if "ReadWriteOnce" in one]


def test_a_pod_without_an_owner_is_given_the_label_that_it_lacks(lab):
    with lab.api() as api:
        made = template("solo")
        made["metadata"] |= {"name": "solo", "annotations": {"foresail.dev/no-move": "true"}}
        until(lambda: _made(api, CLAIMS, make_claim("shared", "ReadWriteMany")))
        until(lambda: _made(api, PODS, made))
        code, found = checked(lab, "pod/solo")
        assert (code, len(problems(found))) == (1, 2)
        mend(api, found)
        assert checked(lab, "pod/solo")[0] == 0


def test_what_is_not_there_is_an_error_that_names_it(lab):
    said = _error(lab, "job/none")
    assert said.err.strip() == "error: there is no job/none in namespace default; -n names another one"
    assert "there is no checking a rs" in _error(lab, "rs/web").err
    assert "--all" in _error(lab).err


def _error(lab: Lab, *words: str) -> Said:
    said = ended("control", "check", *words, "--kubeconfig", lab.kubeconfig)
    assert said.code == 2
    return said


def _without(told: list[str], text: str) -> list[str]:
    return [] if any(text in one for one in told) else told


def _made(api: BlockingClient, path: str, value: Object) -> bool:
    """Whether it is there by now: pods are refused until there is their service account."""
    try:
        api.create(path, value)
    except ApiError as error:
        return error.status == 409
    return True
