"""Telemetry on real servers: tokens of a real API server, logs and CPU of a real kubelet, a real Prometheus."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.live.running import PODS, cluster_of, node, pod
from tests.live.telemetry.training import TrainingProcess

from foresail.core.control import CPU_USED_MILLI, CPU_USED_S, LOSS, STEPS_DONE, STEPS_TOTAL, Action, View
from foresail.kube.api.client import Client, Object
from foresail.kube.api.connect import find_connection
from foresail.kube.api.errors import ClusterError
from foresail.lab import Lab, cgroups
from foresail.lab.images import BASE_IMAGE
from foresail.live.control.program import ControlProgram, ControlSettings
from foresail.live.serving.server import ServerSettings
from foresail.live.telemetry.settings import TelemetrySettings

pytestmark = [pytest.mark.cluster, pytest.mark.alone]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="real kubelets need root")
READ = (STEPS_DONE, STEPS_TOTAL, LOSS, CPU_USED_MILLI, CPU_USED_S)
LIMIT_MILLI = 300
TRAINS = """
step=0
while true; do
  step=$((step + 1)); spin=0
  while [ $spin -lt 3000 ]; do spin=$((spin + 1)); done
  echo "foresail progress step=$step total=100000 loss=0.5"
done
"""
PRINTS = """
for epoch in 1 2 3; do echo "Epoch $epoch/9 done, loss: 0.$epoch"; sleep 1; done
sleep 3600
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fs-") as made:
        yield Path(made)


class Watches:
    """A controller that notes all readings of all pods."""

    every_s = 0.2

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, float | None]] = {}

    def act(self, view: View) -> Sequence[Action]:
        self.seen = {
            one.pod.name.rpartition("/")[2]: {name: view.telemetry.reading(uid, name) for name in READ}
            for uid, one in view.running.items()
        }
        return []

    async def until(self, reached: Callable[[dict[str, Any]], bool], within_s: float = 90.0) -> dict[str, Any]:
        end_s = time.monotonic() + within_s
        while not reached(self.seen):
            assert time.monotonic() < end_s, f"not within {within_s} s: {self.seen}"
            await asyncio.sleep(0.1)
        return self.seen


@asynccontextmanager
async def controlling(lab: Lab, settings: TelemetrySettings) -> AsyncIterator[tuple[ControlProgram, Watches]]:
    """`foresail control` with a controller that looks and does nothing."""
    watches = Watches()
    asked = ControlSettings(
        controllers=(),
        kubeconfig=lab.kubeconfig,
        leader_elect=False,
        server=ServerSettings(port=0),
        telemetry=settings,
    )
    async with Client(find_connection(lab.kubeconfig)) as own:
        program = ControlProgram(asked, own, announce=lambda _: None, controllers={"watches": watches})
        task = asyncio.create_task(program.run())
        try:
            yield program, watches
        finally:
            program.stop()
            await asyncio.wait_for(task, 60)


async def until(look: Callable[[], Any], reached: Callable[[Any], object], within_s: float = 90.0) -> Any:
    end_s = time.monotonic() + within_s
    while True:
        found = await look()
        if reached(found):
            return found
        assert time.monotonic() < end_s, f"not within {within_s} s: {str(found)[:2000]}"
        await asyncio.sleep(0.2)


# --- tokens ----------------------------------------------------------------------------------------------------------


async def token(api: Client, name: str, audience: str = "foresail-progress") -> str:
    """One that the API server makes for a pod, as kubelets ask for it."""
    found = await api.get(f"{PODS}/{name}")
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": found["metadata"]["uid"]}
    spec = {"audiences": [audience], "expirationSeconds": 600, "boundObjectRef": bound}
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    made = await api.post(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    return str(made["status"]["token"])


def test_a_pod_reports_with_its_own_token_for_itself_alone(folder: Path) -> None:
    """The token is one that the API server has made for the pod, as kubelets ask for it."""

    async def live(lab: Lab) -> None:
        async with cluster_of(lab, node("a")) as api, aiohttp.ClientSession() as session:
            for name in ("one", "two"):
                await api.post(PODS, pod(name, nodeName="a", labels={"foresail.dev/job": f"train-{name}"}))
            async with controlling(lab, TelemetrySettings(progress_address="localhost:0")) as (program, watches):
                await watches.until(lambda seen: len(seen) == 2 and program.telemetry.receiver_url)
                url = f"{program.telemetry.receiver_url}/v1/progress"

                async def report(shown: str, job: str) -> int:
                    row = {"time": time.time(), "step": 7, "total": 9, "loss": 0.5}
                    headers = {"Authorization": f"Bearer {shown}"}
                    body = {"job": job, "rows": [row]}
                    async with session.post(url, json=body, headers=headers) as answer:
                        return answer.status

                shown = await token(api, "one")
                assert await report(shown, "train-one") == 200
                assert await report(shown, "train-two") == 403
                assert await report(await token(api, "one", "https://kubernetes.default.svc"), "train-one") == 401
                head, body, signature = shown.split(".")
                assert await report(f"{head}.{body}.{signature[:-8]}AAAAAAAA", "train-one") == 401
                seen = await watches.until(lambda seen: seen["one"][STEPS_DONE] == 7.0)
                assert seen["two"][STEPS_DONE] is None
                await api.delete(f"{PODS}/one", {"gracePeriodSeconds": 0})
                await watches.until(lambda seen: "one" not in seen)
                assert await report(shown, "train-one") == 403

    with Lab("tokens", scheduler=False, base=folder) as lab:
        asyncio.run(live(lab))


def test_the_reporter_with_a_token_of_its_pod_and_rows_that_do_not_count(folder: Path, tmp_path: Path) -> None:
    """From a training loop in a process of its own to what a controller reads, and the answer back."""

    async def live(lab: Lab) -> None:
        async with cluster_of(lab, node("a")) as api, aiohttp.ClientSession() as session:
            await api.post(PODS, pod("one", nodeName="a", labels={"foresail.dev/job": "train"}))
            async with controlling(lab, TelemetrySettings(progress_address="localhost:0")) as (program, watches):
                await watches.until(lambda seen: "one" in seen and bool(program.telemetry.receiver_url))
                url = program.telemetry.receiver_url
                shown = await token(api, "one")
                (tmp_path / "token").write_text(shown)
                environment = {
                    "FORESAIL_JOB": "train",
                    "FORESAIL_PROGRESS_URL": url,
                    "FORESAIL_PROGRESS_TOKEN_FILE": str(tmp_path / "token"),
                }
                with TrainingProcess(tmp_path / "image", **environment) as training:
                    await asyncio.to_thread(training.report, step=10, total=100, loss=0.5)
                    await watches.until(lambda seen: _said(seen) == (10.0, 100.0, 0.5))
                    at_s = program.telemetry.progress.of("default/train").row.time_s
                    good = {"time": at_s, "step": 10, "total": 100, "loss": 0.5}
                    others = [{"time": at_s - 60, "step": 9}, {"time": at_s + 0.001, "step": 5}]
                    rows = [good, {"time": at_s, "step": "ten"}, *others]
                    headers = {"Authorization": f"Bearer {shown}"}
                    body = {"job": "train", "rows": rows}
                    async with session.post(f"{url}/v1/progress", json=body, headers=headers) as answer:
                        assert answer.status == 200
                    await asyncio.to_thread(training.report, step=20, total=100, loss=0.25)
                    await watches.until(lambda seen: _said(seen) == (20.0, 100.0, 0.25))
                text = program.metrics.text().decode()
                for verdict, count in (("taken", 2), ("damaged", 1), ("doubled", 1), ("late", 1), ("out_of_order", 1)):
                    said = f'foresail_progress_rows_total{{source="http",verdict="{verdict}"}} {count}.0'
                    assert said in text, (verdict, text)

    with Lab("reporter", scheduler=False, base=folder) as lab:
        asyncio.run(live(lab))


def _said(seen: dict[str, Any]) -> tuple[float | None, ...]:
    return tuple(seen["one"][name] for name in (STEPS_DONE, STEPS_TOTAL, LOSS))


# --- a kubelet's logs and CPU ----------------------------------------------------------------------------------------


def trainer(name: str, on: str, script: str, **annotations: str) -> Object:
    amounts = {"cpu": f"{LIMIT_MILLI}m", "memory": "32Mi"}
    made = pod(name, nodeName=on, labels={"foresail.dev/job": name}, annotations=annotations)
    made["spec"]["containers"][0] |= {
        "image": BASE_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "resources": {"requests": amounts, "limits": amounts},
    }
    return made


@asynccontextmanager
async def prometheus(lab: Lab, on: str, folder: Path) -> AsyncIterator[str]:
    """A Prometheus that scrapes one kubelet through the API server, as most scrape it through the network."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    scrape = {
        "job_name": "kubelet",
        "scheme": "https",
        "metrics_path": f"/api/v1/nodes/{on}/proxy/metrics/resource",
        "static_configs": [{"targets": [lab.url.removeprefix("https://")]}],
        "tls_config": {
            "ca_file": str(lab.ca),
            "cert_file": str(lab.client_certificate),
            "key_file": str(lab.client_key),
        },
    }
    (folder / "prometheus.yml").write_text(
        yaml.safe_dump({"global": {"scrape_interval": "2s"}, "scrape_configs": [scrape]})
    )
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [
            str(shutil.which("prometheus")),
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield url
        finally:
            process.terminate()
            process.wait(30)


async def serve_metrics(api: Client, *names: str) -> None:
    """The metrics API, with figures that nobody measures: objects of a custom kind in its place."""
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, stands in for metrics-server in a test"},
        },
        "spec": {
            "group": "metrics.k8s.io",
            "scope": "Namespaced",
            "names": {"plural": "pods", "singular": "podmetrics", "kind": "PodMetrics", "listKind": "PodMetricsList"},
            "versions": [
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    made = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"

    async def served() -> bool:
        try:
            await api.list(made)
        except ClusterError:
            return False
        return True

    await until(served, bool)
    for name in names:
        await api.post(
            made,
            {
                "apiVersion": "metrics.k8s.io/v1beta1",
                "kind": "PodMetrics",
                "metadata": {"name": name},
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "window": "1s",
                "containers": [{"name": "main", "usage": {"cpu": "123456789n", "memory": "1Ki"}}],
            },
        )


@needs_root
def test_logs_and_cpu_of_a_real_kubelet_and_of_a_real_prometheus_agree_with_the_kernel(folder: Path) -> None:
    async def live(lab: Lab) -> None:
        on = lab.kubelet_nodes[0].name
        async with Client(find_connection(lab.kubeconfig)) as api:
            await until(lambda: api.list("/api/v1/namespaces/default/serviceaccounts"), lambda found: found[0])
            await api.post(PODS, trainer("works", on, TRAINS))
            pattern = {"foresail.dev/progress-pattern": "Epoch {step}/{total} * loss: {loss}"}
            await api.post(PODS, trainer("prints", on, PRINTS, **pattern))
            found = await until(lambda: api.list(PODS), lambda found: _all_run(found[0]), 180.0)
            (works,) = (one for one in found[0] if one["metadata"]["name"] == "works")
            group = cgroups.pod_path(lab.kubelet_nodes[0].cgroup, works)

            settings = TelemetrySettings(measure_cpu=True, cpu_every_s=2.0, progress_logs=True)
            async with controlling(lab, settings) as (program, watches):
                seen = await watches.until(
                    lambda seen: (
                        (seen.get("works", {}).get(STEPS_DONE) or 0) > 50
                        and seen["prints"][STEPS_DONE] == 3.0
                        and seen["works"][CPU_USED_MILLI] is not None
                    )
                )
                assert (seen["prints"][STEPS_TOTAL], seen["prints"][LOSS]) == (9.0, 0.3)
                steps = seen["works"][STEPS_DONE]
                await watches.until(lambda seen: seen["works"][STEPS_DONE] > steps)
                assert program.telemetry._cpu.source == "kubelet"
                await agrees(watches, group)
                text = program.metrics.text().decode()
                assert 'foresail_cpu_source{source="kubelet"} 1.0' in text
                assert 'verdict="damaged"' not in text
                assert 'verdict="out_of_order"' not in text

            if shutil.which("prometheus") is None:
                pytest.skip("no Prometheus here, the rest was tried; get it with: apt-get install prometheus")
            async with prometheus(lab, on, folder) as url:
                settings = TelemetrySettings(prometheus=url, cpu_every_s=2.0)
                async with controlling(lab, settings) as (program, watches):
                    await watches.until(lambda seen: seen.get("works", {}).get(CPU_USED_MILLI) is not None, 120.0)
                    assert program.telemetry._cpu.source == "prometheus"
                    await agrees(watches, group)

            await serve_metrics(api, "works", "prints")
            async with controlling(lab, TelemetrySettings(measure_cpu=True)) as (program, watches):
                seen = await watches.until(
                    lambda seen: len(seen) == 2 and all(one[CPU_USED_S] for one in seen.values())
                )
                assert program.telemetry._cpu.source == "metrics-api"
                assert seen["works"][CPU_USED_MILLI] == pytest.approx(123.456789)

    async def agrees(watches: Watches, group: str) -> None:
        """Between two looks of the kernel lies what we read; what pods use is within their limits."""
        before_s = cgroups.cpu_used_s(group)
        seen = await watches.until(lambda seen: (seen["works"][CPU_USED_S] or 0.0) >= before_s, 60.0)
        assert seen["works"][CPU_USED_S] <= cgroups.cpu_used_s(group) + 0.1
        assert 0.5 * LIMIT_MILLI < seen["works"][CPU_USED_MILLI] < 1.2 * LIMIT_MILLI
        assert seen["prints"][CPU_USED_MILLI] < 0.2 * LIMIT_MILLI

    with Lab("telemetry", kubelets=1, node_cpu="1", scheduler=False, base=folder) as lab:
        asyncio.run(live(lab))


def _all_run(pods: list[Object]) -> bool:
    return len(pods) == 2 and all(one["status"].get("phase") == "Running" for one in pods)
