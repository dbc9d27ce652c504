"""Pods bound a second on one real API server: kube-scheduler, foresail run, and kube-scheduler asking our extender.

Each scheduler gets the same cluster and the same pods, one after the other, in turns. All pods are there before it
starts; its rate is counted from the first bind to the last, as a watch of our own sees them. No client limits requests.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml
from prometheus_client.parser import text_string_to_metric_families

from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.kube.api.errors import ApiError
from foresail.kube.api.watch import Watch
from foresail.lab import Lab, components

NODES, PODS = 1000, 3000
ROUNDS = int(os.environ.get("ROUNDS", "3"))
ZONES = 10
CREATORS = 32
REST_MOST_S = 60
REST_IDLE = 0.8
"""Part of the CPU time that has nothing to do before a measurement begins."""
Object = dict[str, Any]
Figures = dict[str, float | str]
T = TypeVar("T")


def plain(_index: int) -> Object:
    return {"labels": {"app": "plain"}, "spec": {}}


def spread(index: int) -> Object:
    app = f"spread-{index % 10}"
    constraint = {
        "maxSkew": 5,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"labels": {"app": app}, "spec": {"topologySpreadConstraints": [constraint]}}


def anti_affinity(index: int) -> Object:
    app = f"apart-{index % 10}"
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"labels": {"app": app}, "spec": {"affinity": rule}}


KINDS: dict[str, Callable[[int], Object]] = {"plain": plain, "spread": spread, "anti_affinity": anti_affinity}


def pod(index: int, kind: str, scheduler: str, measurement: int) -> Object:
    """One of the pods of a measurement. No name is used twice: whoever is late to delete an old pod, by its name, would
    delete a new one.
    """
    made = KINDS[kind](index)
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{measurement}-{index:05}", "namespace": "bench", "labels": made["labels"]},
        "spec": {"schedulerName": scheduler, "containers": [container], **made["spec"]},
    }


class Binds:
    """When each pod was first seen on a node."""

    def __init__(self) -> None:
        self.at_s: dict[str, float] = {}
        self.present: set[str] = set()

    def replace(self, items: list[Object]) -> None:
        self.present.clear()
        for value in items:
            self.apply("ADDED", value)

    def apply(self, kind: str, value: Object) -> None:
        name = value["metadata"]["name"]
        if kind == "DELETED":
            self.present.discard(name)
            return
        self.present.add(name)
        if value["spec"].get("nodeName"):
            self.at_s.setdefault(name, time.perf_counter())


class Bench:
    """One lab, and the schedulers that are measured on it."""

    def __init__(self, lab: Lab, api: Client, scratch: Path) -> None:
        self._lab = lab
        self._api = api
        self._scratch = scratch
        self._measurement = 0

    async def prepare(self) -> None:
        await self._api.post("/api/v1/namespaces", {"metadata": {"name": "bench"}})
        for index in range(NODES):
            labels = {"topology.kubernetes.io/zone": f"zone-{index % ZONES}"}
            await self._api.patch(f"/api/v1/nodes/fake-{index:05}", {"metadata": {"labels": labels}})

    async def rate(self, scheduler: str, kind: str) -> float:
        """Pods a second that a scheduler binds."""
        self._measurement += 1
        binds = Binds()
        watch = Watch(self._api, "/api/v1/namespaces/bench/pods", binds)
        watching = asyncio.create_task(watch.run())
        try:
            await watch.ready()
            await self._create(scheduler, kind)
            await rest()
            with SCHEDULERS[scheduler](self._lab, self._scratch):
                await until(
                    lambda: len(binds.at_s) >= PODS,
                    lambda: f"{scheduler} has bound {len(binds.at_s)} of {len(binds.present)} {kind} pods",
                )
            times_s = sorted(binds.at_s.values())
            await delete_all(self._api, "bench")
            await until(lambda: not binds.present, lambda: f"{len(binds.present)} pods are not deleted yet")
        finally:
            watching.cancel()
        return (PODS - 1) / (times_s[-1] - times_s[0])

    async def _create(self, scheduler: str, kind: str) -> None:
        todo = iter(range(PODS))

        async def create() -> None:
            for index in todo:
                await self._api.post(
                    "/api/v1/namespaces/bench/pods", pod(index, kind, NAMES[scheduler], self._measurement)
                )

        await asyncio.gather(*(create() for _ in range(CREATORS)))


async def delete_all(api: Client, namespace: str) -> None:
    """Every pod of a namespace."""
    while True:
        try:
            await api.delete(f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
        except ApiError as error:
            if error.status != 504:  # a minute may not be enough for so many; what is gone is gone
                raise
        else:
            return


async def until(reached: Callable[[], bool], state: Callable[[], str]) -> None:
    until_s = time.perf_counter() + 300
    while not reached():
        if time.perf_counter() > until_s:
            raise TimeoutError(f"after 300 s {state()}")
        await asyncio.sleep(0.05)


async def rest() -> None:
    """Wait until the servers are done with what went before, so that every scheduler finds the same machine."""
    quiet = 0
    for _ in range(REST_MOST_S):
        idle, all_ticks = _ticks()
        await asyncio.sleep(1.0)
        idle_now, all_now = _ticks()
        quiet = quiet + 1 if idle_now - idle > REST_IDLE * (all_now - all_ticks) else 0
        if quiet >= 2:
            return
    print(f"  not quiet after {REST_MOST_S} s; measured nevertheless", flush=True)


def _ticks() -> tuple[int, int]:
    """Of all CPUs since the start of the machine: ticks without work, and all ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


@contextmanager
def _process(scratch: Path, name: str, *words: str) -> Iterator[None]:
    with (scratch / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


@contextmanager
def kube_scheduler(lab: Lab, scratch: Path, more: Object | None = None, *flags: str) -> Iterator[None]:
    """As it comes, but without limits on its requests; `more` is what else stands in its configuration."""
    config = scratch / "kube-scheduler.yaml"
    stated = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **(more or {}),
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(lab.kubeconfig), "qps": 10000, "burst": 20000},
        "profiles": [{"schedulerName": KUBE_NAME}],
    }
    config.write_text(yaml.safe_dump(stated))
    words = (str(components.need("kube-scheduler")), f"--config={config}", "--secure-port=0", *flags)
    with _process(scratch, "kube-scheduler", *words):
        yield


@contextmanager
def kube_scheduler_all_nodes(lab: Lab, scratch: Path) -> Iterator[None]:
    """kube-scheduler that looks at all nodes for each pod, as it must where an extender is to see them; of 1000 it
    otherwise looks at 420.
    """
    with kube_scheduler(lab, scratch, {"percentageOfNodesToScore": 100}):
        yield


@contextmanager
def foresail_run(lab: Lab, scratch: Path) -> Iterator[None]:
    words = ("run", "--kubeconfig", str(lab.kubeconfig), "--no-leader-elect", "--address", "127.0.0.1:0")
    with _process(scratch, "foresail", str(FORESAIL), *words, "--scheduler-name", FORESAIL_NAME):
        yield


@contextmanager
def extender(lab: Lab, scratch: Path, *more: str) -> Iterator[None]:
    """kube-scheduler that asks `foresail extender` about every pod; leaves the extender's figures in a file."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = [str(FORESAIL), "extender", "--policy", "best-fit", "--address", address, *more]
    stated = yaml.safe_load(subprocess.run([*words, "--print-config"], check=True, capture_output=True).stdout)
    with _process(scratch, "extender", *words, "--kubeconfig", str(lab.kubeconfig)):
        _wait_for(f"http://{address}/readyz")
        with kube_scheduler(lab, scratch, stated):
            yield
        (scratch / "extender.metrics").write_text(_get(f"http://{address}/metrics"))


@contextmanager
def extender_sample(lab: Lab, scratch: Path) -> Iterator[None]:
    """The same with kube-scheduler looking at as many nodes as it does of itself."""
    with extender(lab, scratch, "--sample"):
        yield


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback
        return str(answer.read().decode())


def _wait_for(url: str) -> None:
    until_s = time.perf_counter() + 60
    while True:
        try:
            _get(url)
        except OSError:
            if time.perf_counter() > until_s:
                raise
            time.sleep(0.1)
        else:
            return


def p99_ms(metrics: str) -> float:
    """Of all requests that an extender has answered, from the buckets of its histograms."""
    buckets: dict[float, float] = {}
    for family in text_string_to_metric_families(metrics):
        if family.name == "foresail_extender_request_seconds":
            for sample in family.samples:
                if sample.name.endswith("_bucket") and sample.labels["verb"] in {"filter", "choose", "prioritize"}:
                    edge = float(sample.labels["le"])
                    buckets[edge] = buckets.get(edge, 0.0) + sample.value
    wanted, lower, below = 0.99 * buckets[float("inf")], 0.0, 0.0
    for edge, count in sorted(buckets.items()):
        if count >= wanted:
            part = (wanted - below) / (count - below) if count > below else 1.0
            return 1000 * (lower + part * (edge - lower))
        lower, below = edge, count
    raise AssertionError("the last bucket holds all requests")


KUBE_NAME, FORESAIL_NAME = "kube", "foresail"
FORESAIL = Path(sys.executable).parent / "foresail"
SCHEDULERS = {
    "kube-scheduler": kube_scheduler,
    "foresail": foresail_run,
    "kube-scheduler-all-nodes": kube_scheduler_all_nodes,
    "extender": extender,
    "extender-sample": extender_sample,
}
NAMES = {name: FORESAIL_NAME if name == "foresail" else KUBE_NAME for name in SCHEDULERS}


def throughput(scratch: Path) -> Figures:
    """Rates of each scheduler and kind of pod, medians of the rounds, and their ratios."""
    folder = scratch / "throughput"
    folder.mkdir(exist_ok=True)
    with Lab(fake_nodes=NODES, scheduler=False, apiserver_flags=("--delete-collection-workers=16",)) as lab:
        return asyncio.run(_throughput(lab, folder))


async def _throughput(lab: Lab, scratch: Path) -> Figures:
    figures: Figures = {"throughput_rounds": float(ROUNDS)}
    async with Client(find_connection(lab.kubeconfig), timeout_s=300) as api:
        bench = Bench(lab, api, scratch)
        await bench.prepare()
        for kind in KINDS:
            rates: dict[str, list[float]] = {scheduler: [] for scheduler in SCHEDULERS}
            p99s_ms: dict[str, list[float]] = {"extender": [], "extender-sample": []}
            for turn in range(ROUNDS):
                for scheduler in turned(turn, list(SCHEDULERS)):
                    rates[scheduler].append(await bench.rate(scheduler, kind))
                    print(f"  {kind} {scheduler}: {rates[scheduler][-1]:.0f} pods/s", flush=True)
                    if scheduler in p99s_ms:
                        p99s_ms[scheduler].append(p99_ms((scratch / "extender.metrics").read_text()))
            figures |= _ratios(kind, {scheduler: statistics.median(measured) for scheduler, measured in rates.items()})
            for scheduler, taken_ms in p99s_ms.items():
                figures[f"{_key(scheduler)}_p99_{kind}_ms"] = statistics.median(taken_ms)
    return figures


def turned(turn: int, schedulers: list[T]) -> list[T]:
    """In the order of this turn: each begins with another, as whoever comes first finds younger servers."""
    at = turn % len(schedulers)
    return schedulers[at:] + schedulers[:at]


def _ratios(kind: str, middle: dict[str, float]) -> Figures:
    figures: Figures = {f"{_key(name)}_{kind}_pods_per_s": rate for name, rate in middle.items()}
    figures[f"run_over_kube_scheduler_{kind}"] = middle["foresail"] / middle["kube-scheduler"]
    for name, rival in (
        ("extender-sample", "kube-scheduler"),
        ("extender", "kube-scheduler-all-nodes"),
        ("extender", "kube-scheduler"),
    ):
        figures[f"{_key(name)}_over_{_key(rival)}_{kind}"] = middle[name] / middle[rival]
    return figures


def _key(scheduler: str) -> str:
    return scheduler.replace("-", "_")
