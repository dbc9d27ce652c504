"""The controller of the guide, unchanged, on a real API server: `foresail run --controller … --dry-run`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.test_guide import EXAMPLE
from tests.live.console import serving, until
from tests.live.running import PODS, clear, pod
from tests.plugins.packages import distribution

from foresail.kube.api.blocking import BlockingClient
from foresail.lab import Lab

pytestmark = pytest.mark.cluster

CONTROLLER = "trim-long-runs:after_s=0.0,cpu_milli=250"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(fake_nodes=2, fake_cpu="8", fake_memory="32Gi") as lab:
        yield lab


@pytest.fixture
def api(lab: Lab) -> Iterator[BlockingClient]:
    with lab.api() as api:
        yield api
        clear(api)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example package, for programs that are started from here."""
    site = tmp_path / "site"
    site.mkdir()
    source = (EXAMPLE / "my_controller.py").read_text(encoding="utf-8")
    points = {"trim-long-runs": "my_controller:TrimLongRuns"}
    distribution(site, "my-controller", points, source, group="foresail.controllers")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))


def actions(path: Path) -> list[dict[str, Any]]:
    """What the controller did, by the journal."""
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [one for one in records if one.get("by") == CONTROLLER]


def cpu_of(api: BlockingClient, name: str) -> str:
    return str(api.get(f"{PODS}/{name}")["spec"]["containers"][0]["resources"]["requests"]["cpu"])


@pytest.mark.usefixtures("installed")
def test_the_controller_of_the_guide_says_what_it_would_do_on_a_real_api_server(
    lab: Lab, api: BlockingClient, tmp_path: Path
):
    node = api.items("/api/v1/nodes")[0]["metadata"]["name"]
    for name, cpu in (("big", "2"), ("small", "100m")):
        api.create(PODS, pod(name, requests={"cpu": cpu}, nodeName=node))
    until(lambda: all(one["status"].get("phase") == "Running" for one in api.items(PODS)))
    journal = tmp_path / "journal.jsonl"
    asked = ["run", "--kubeconfig", lab.kubeconfig, "--controller", CONTROLLER, "--dry-run", "--journal", journal]
    with serving(tmp_path, *asked) as found:
        until(lambda: actions(journal), what=lambda: found.err)
    first = actions(journal)[0]
    assert (first["what"], first["pod"].rpartition("/")[2], first["node"]) == ("resize", "big", node)
    assert first["detail"].startswith("dry run: 2000 → 250 milli-CPU: has run for ")
    assert {one["pod"].rpartition("/")[2] for one in actions(journal)} == {"big"}
    assert (cpu_of(api, "big"), cpu_of(api, "small")) == ("2", "100m")
