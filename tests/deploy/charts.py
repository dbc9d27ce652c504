"""The chart as Helm renders it, and what its roles allow."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from foresail.lab import components

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "chart"
needs_helm = pytest.mark.skipif(
    components.find("helm") is None, reason="there is no helm; get it with: foresail lab build --helm"
)


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([components.need("helm"), *arguments], capture_output=True, text=True, check=False)


def render(*values: str) -> list[dict]:
    sets = [word for value in values for word in ("--set", value)]
    ran = helm("template", "foresail", str(CHART), "--namespace", "foresail", *sets)
    assert ran.returncode == 0, ran.stderr
    return [one for one in yaml.safe_load_all(ran.stdout) if one]


def of_kind(objects: list[dict], kind: str) -> list[dict]:
    return [one for one in objects if one["kind"] == kind]


def one_of(objects: list[dict], kind: str) -> dict:
    (found,) = of_kind(objects, kind)
    return found


def allowed(role: dict) -> set[tuple[str, ...]]:
    """What a role allows, with the names it is limited to."""
    return {
        (group, resource, verb, *rule.get("resourceNames", []))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def granted(objects: list[dict], account: str) -> set[tuple[str, ...]]:
    """What the bindings give a service account in the whole cluster."""
    roles = {role["metadata"]["name"]: role for role in of_kind(objects, "ClusterRole")}
    found: set[tuple[str, ...]] = set()
    for binding in of_kind(objects, "ClusterRoleBinding"):
        if {"kind": "ServiceAccount", "name": account, "namespace": "foresail"} in binding["subjects"]:
            found |= allowed(roles[binding["roleRef"]["name"]])
    return found
