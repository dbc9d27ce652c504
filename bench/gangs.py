"""Gangs on one real API server: pods bound a second in gangs of 3 and of 100, and many gangs that want the same room.

`throughput`: foresail run and kube-scheduler with its own gangs (alpha in 1.36) get the same PodGroups and the same
pods, one after the other, in turns, and foresail run the same pods without gangs. All pods are there before a scheduler
starts; its rate is counted from the first bind to the last, as a watch of our own sees them. No client limits requests.

`competing`: the long form of the story "competing" of tests/live/faults, with many seeds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import cluster  # noqa: E402 - bench is no package
from tests.live.faults.competing import compete  # noqa: E402 - the tests are no package
from tests.live.faults.test_faults_cluster import FLAGS  # noqa: E402

from foresail.kube.api.client import Client  # noqa: E402
from foresail.kube.api.connect import find_connection  # noqa: E402
from foresail.kube.api.watch import Watch  # noqa: E402
from foresail.lab import Lab  # noqa: E402

Object = dict[str, Any]
SIZES = (3, 100)
GATES = "GenericWorkload=true,GangScheduling=true"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/bench/podgroups"
PODS = "/api/v1/namespaces/bench/pods"


class Gangs:
    """One lab, and the schedulers that are measured on it."""

    def __init__(self, lab: Lab, api: Client, scratch: Path, pods: int) -> None:
        self._lab = lab
        self._api = api
        self._scratch = scratch
        self._pods = pods
        self._measurement = 0

    async def rate(self, scheduler: str, size: int) -> float:
        """Pods a second that a scheduler binds, in gangs of a size; of size 1 they are no gangs."""
        self._measurement += 1
        count = self._pods - self._pods % size
        binds = cluster.Binds()
        watch = Watch(self._api, PODS, binds)
        watching = asyncio.create_task(watch.run())
        try:
            await watch.ready()
            await self._create(scheduler, size, count)
            await cluster.rest()
            with SCHEDULERS[scheduler](self._lab, self._scratch):
                await cluster.until(
                    lambda: len(binds.at_s) >= count,
                    lambda: f"{scheduler} has bound {len(binds.at_s)} of {len(binds.present)} pods in gangs of {size}",
                )
            times_s = sorted(binds.at_s.values())
            await cluster.delete_all(self._api, "bench")
            await cluster.until(lambda: not binds.present, lambda: f"{len(binds.present)} pods are not deleted yet")
            if size > 1:
                await self._api.delete(GROUPS)
        finally:
            watching.cancel()
        return (count - 1) / (times_s[-1] - times_s[0])

    async def _create(self, scheduler: str, size: int, count: int) -> None:
        gangs = iter(range(count // size) if size > 1 else ())
        pods = iter(range(count))

        async def create() -> None:
            for gang in gangs:
                policy = {"schedulingPolicy": {"gang": {"minCount": size}}}
                about = {"name": self._gang(gang), "namespace": "bench"}
                version = "scheduling.k8s.io/v1alpha2"
                group = {"apiVersion": version, "kind": "PodGroup", "metadata": about, "spec": policy}
                await self._api.post(GROUPS, group)
            for index in pods:
                made = cluster.pod(index, "plain", cluster.NAMES[scheduler], self._measurement)
                if size > 1:
                    made["spec"]["schedulingGroup"] = {"podGroupName": self._gang(index // size)}
                await self._api.post(PODS, made)

        await asyncio.gather(*(create() for _ in range(cluster.CREATORS)))

    def _gang(self, number: int) -> str:
        return f"gang-{self._measurement}-{number:05}"


@contextmanager
def kube_scheduler(lab: Lab, scratch: Path) -> Iterator[None]:
    """As it comes, with its own gangs on."""
    with cluster.kube_scheduler(lab, scratch, None, f"--feature-gates={GATES}"):
        yield


SCHEDULERS = {"foresail": cluster.foresail_run, "kube-scheduler": kube_scheduler}


def throughput(nodes: int, pods: int, rounds: int, scratch: Path) -> Object:
    flags = (
        f"--feature-gates={GATES}",
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
        "--delete-collection-workers=16",
    )
    with Lab(fake_nodes=nodes, scheduler=False, apiserver_flags=flags) as lab:
        return asyncio.run(_throughput(lab, nodes, pods, rounds, scratch))


async def _throughput(lab: Lab, nodes: int, pods: int, rounds: int, scratch: Path) -> Object:
    wanted = [("foresail", 1), *((scheduler, size) for size in SIZES for scheduler in SCHEDULERS)]
    rates: dict[tuple[str, int], list[float]] = {one: [] for one in wanted}
    async with Client(find_connection(lab.kubeconfig), timeout_s=300) as api:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "bench"}})
        gangs = Gangs(lab, api, scratch, pods)
        for turn in range(rounds):
            for scheduler, size in cluster.turned(turn, wanted):
                rates[scheduler, size].append(await gangs.rate(scheduler, size))
                print(f"  {scheduler}, gangs of {size}: {rates[scheduler, size][-1]:.0f} pods/s", flush=True)
    found: Object = {"nodes": nodes, "pods": pods, "rounds": rounds, "load": os.getloadavg()[2]}
    for (scheduler, size), measured in rates.items():
        found[f"{scheduler}_gangs_of_{size}_pods_per_s"] = round(statistics.median(measured), 1)
    return found


def competing(seeds: range, count: int) -> Object:
    found: list[Object] = []
    with tempfile.TemporaryDirectory(prefix="fs-") as folder, Lab(base=Path(folder), apiserver_flags=FLAGS) as lab:
        for seed in seeds:
            begun_s = time.perf_counter()
            came = dict(asyncio.run(compete(lab, Path(folder), seed, count, within_s=900)))
            found.append({"seed": seed, **came, "took_s": round(time.perf_counter() - begun_s, 1)})
            print(f"  {found[-1]}", flush=True)
    keys = ("gangs", "members", "single_pods", "turned_away", "torn_gangs")
    return {"runs": len(found), **{key: sum(one.get(key, 0) for one in found) for key in keys}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["throughput", "competing"])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=20, help="runs of competing gangs")
    parser.add_argument("--gangs", type=int, default=50, help="gangs a run")
    parser.add_argument("--out", type=Path, help="write the figures to this file, as JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = (
            throughput(asked.nodes, asked.pods, asked.rounds, Path(scratch))
            if asked.what == "throughput"
            else competing(range(asked.seeds), asked.gangs)
        )
    print(json.dumps(found, indent=2))
    if asked.out is not None:
        asked.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
