"""The recipe of the image, read and not built: there is no Docker where the tests run."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def arguments(*words: str) -> list[str]:
    """What follows these words in the recipe, a line a step."""
    lines = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text(encoding="utf-8")).splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    return [rest for word, rest in steps if word in words]


def test_every_copied_file_is_there_and_not_ignored():
    root = DEPLOY.parent
    sources = {source for rest in arguments("COPY") if not rest.startswith("--from=") for source in rest.split()[:-1]}
    let_in = {line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sources == let_in
    assert [source for source in sources if not (root / source).exists()] == []
    about = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert {about["readme"], *about["license-files"]} <= sources


def test_stages_that_are_copied_from_are_named_before():
    stages = [rest.partition(" AS ")[2] for rest in arguments("FROM")]
    copied = [re.match(r"--from=(\S+)", rest)[1] for rest in arguments("COPY") if rest.startswith("--from=")]
    assert (stages, copied) == (["build", ""], ["build"])


def test_it_runs_as_a_numeric_user_that_is_not_root_and_the_chart_uses_the_same(manifests):
    (user,) = arguments("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    (deployment,) = [one for one in manifests["scheduler.yaml"] if one["kind"] == "Deployment"]
    context = deployment["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_no_step_needs_a_shell_and_versions_are_constrained():
    steps = [json.loads(rest) for rest in arguments("RUN", "ENTRYPOINT", "CMD")]
    (install,) = [step for step in steps if "install" in step]
    assert install[install.index("--constraint") + 1] == "constraints.txt"
    assert arguments("ADD") == []


def test_the_base_has_a_version_that_the_package_supports():
    (base,) = [rest.partition("=")[2] for rest in arguments("ARG")]
    version = re.fullmatch(r"python:(3\.\d+)-slim-\w+", base)[1]
    about = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert f"Programming Language :: Python :: {version}" in about["classifiers"]
    assert {rest.split()[0] for rest in arguments("FROM")} == {"${BASE}"}
