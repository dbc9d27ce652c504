"""How long resizes take on a lab's real kubelet: asked for, set aside, in the container's control group, told.

    .venv/bin/python bench/resizes.py

Needs root. Pods of one node swap CPU in pairs, request and limit, through `foresail control` with a controller of ours:
one of each pair gives back before the other grows. A watch of our own sees when the kubelet has set an amount aside and
when it says that the container runs with it; the quota of the container's control group is read a hundred times a
second. Times count from the controller's word on. The result is written into docs/concepts/resizes.md.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foresail.core.control import Action, Resize, View
from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.lab import Lab, cgroups
from foresail.lab.images import BASE_IMAGE
from foresail.live.control.program import ControlProgram, ControlSettings
from foresail.live.serving.server import ServerSettings

PAIRS, ROUNDS = 3, 20
EVERY_S = 2.0
LOW_MILLI, HIGH_MILLI = 100, 400
NODE_CPU = "2"
PODS = "/api/v1/namespaces/default/pods"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "concepts" / "resizes.md"
BEGIN, END = "<!-- bench/resizes.py writes what follows -->", "<!-- until here -->"
BUCKETS_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
Object = dict[str, Any]


@dataclass
class Taken:
    """What became of one resize, in seconds from the controller's word on."""

    milli: int
    asked_s: float
    grows: bool
    allocated_s: float | None = None
    quota_s: float | None = None
    effect_s: float | None = None

    @property
    def is_done(self) -> bool:
        return None not in (self.allocated_s, self.quota_s, self.effect_s)


@dataclass
class Swap:
    """A controller that swaps the amounts of each pair, when the last swap is seen to be over."""

    every_s: float = EVERY_S
    rounds: int = 0
    open: dict[str, Taken] = field(default_factory=dict)
    done: list[Taken] = field(default_factory=list)

    def act(self, view: View) -> Sequence[Action]:
        self.done += [one for one in self.open.values() if one.is_done]
        self.open = {name: one for name, one in self.open.items() if not one.is_done}
        if self.open or self.rounds == ROUNDS:
            return []
        self.rounds += 1
        actions: list[Action] = []
        for one in view.running.values():
            milli = LOW_MILLI if one.cpu_milli == HIGH_MILLI else HIGH_MILLI
            name = one.pod.name.removeprefix("default/")
            self.open[name] = Taken(milli, time.monotonic(), grows=milli == HIGH_MILLI)
            actions.append(Resize(one.pod, milli, "its turn", milli))
        return actions


def pod(node: str, name: str, milli: int) -> Object:
    amounts = {"cpu": f"{milli}m", "memory": "16Mi"}
    container = {
        "name": "main",
        "image": BASE_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sleep", "3600"],
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "foresail",
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


def quota_file(root: str, found: Object) -> Path:
    """Where the container's share of 100 ms stands."""
    container = found["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    path = f"{cgroups.pod_path(root, found)}/{container}"
    trees = cgroups.hierarchies()
    tree = next(one for one in trees if one.v2 or "cpu" in one.controllers)
    return tree.at(path) / ("cpu.max" if tree.v2 else "cpu.cfs_quota_us")


async def read_quotas(swap: Swap, files: dict[str, Path]) -> None:
    while True:
        for name, taken in list(swap.open.items()):
            if taken.quota_s is None:
                quota_us = files[name].read_text(encoding="ascii").split()[0]
                if quota_us == str(100 * taken.milli):
                    taken.quota_s = time.monotonic() - taken.asked_s
        await asyncio.sleep(0.01)


async def watch(api: Client, swap: Swap, version: str) -> None:
    async for kind, value in api.watch(PODS, version, timeout_s=3000.0):
        taken = swap.open.get(value["metadata"]["name"]) if kind == "MODIFIED" else None
        if taken is None:
            continue
        now_s, wanted = time.monotonic() - taken.asked_s, f"{taken.milli}m"
        state = value["status"]["containerStatuses"][0]
        if taken.allocated_s is None and state["allocatedResources"]["cpu"] == wanted:
            taken.allocated_s = now_s
        if taken.effect_s is None and state["resources"]["requests"]["cpu"] == wanted:
            taken.effect_s = now_s


async def measure(lab: Lab) -> tuple[list[Taken], str]:
    swap = Swap()
    node = lab.kubelet_nodes[0]
    async with Client(find_connection(lab.kubeconfig)) as api, Client(find_connection(lab.kubeconfig)) as own:
        while not (await api.list("/api/v1/namespaces/default/serviceaccounts"))[0]:
            await asyncio.sleep(0.2)
        names = [f"{side}-{pair}" for pair in range(PAIRS) for side in ("left", "right")]
        for name in names:
            await api.post(PODS, pod(node.name, name, LOW_MILLI if name.startswith("left") else HIGH_MILLI))
        found: dict[str, Object] = {}
        while len(found) < len(names):
            items, version = await api.list(PODS)
            found = {one["metadata"]["name"]: one for one in items if one["status"].get("phase") == "Running"}
            await asyncio.sleep(0.2)
        files = {name: quota_file(node.cgroup, one) for name, one in found.items()}
        settings = ControlSettings((), server=ServerSettings(port=0), leader_elect=False)
        program = ControlProgram(settings, own, announce=lambda _: None, controllers={"swap": swap})
        tasks = [asyncio.create_task(work) for work in (read_quotas(swap, files), watch(api, swap, version))]
        running = asyncio.create_task(program.run())
        while swap.rounds < ROUNDS or swap.open:
            for task in (*tasks, running):
                if task.done():
                    task.result()
            await asyncio.sleep(0.2)
        program.stop()
        await running
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return swap.done, program.metrics.text().decode()


def row(label: str, values: Sequence[float]) -> str:
    ordered = sorted(values)
    spread = (statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))], ordered[-1])
    within = [f"{100 * sum(one <= most for one in ordered) / len(ordered):.0f} %" for most in BUCKETS_S]
    return f"| {label} | {' | '.join(f'{one:.2f} s' for one in spread)} | {' | '.join(within)} |"


def page(done: Sequence[Taken], figures: str) -> str:
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    busy = f"load average {os.getloadavg()[0]:.0f}"
    counted = next(line for line in figures.splitlines() if line.startswith('foresail_resizes_total{outcome="done"}'))
    intro = (
        f"{len(done)} resizes of {2 * PAIRS} pods of the class Guaranteed on one kubelet of the "
        f"[lab](../guides/lab.md) ({NODE_CPU} CPUs), which swap {LOW_MILLI} and {HIGH_MILLI} milli-CPU in pairs. "
        f"Measured on: {machine}; {busy}. `foresail control` itself has counted "
        f"{float(counted.split()[-1]):.0f} of them as `done`."
    )
    lines = [
        intro,
        "",
        "| from the controller's word until | median | 95 % | longest | "
        + " | ".join(f"≤ {most:g} s" for most in BUCKETS_S)
        + " |",
        "|---|--:|--:|--:|" + "--:|" * len(BUCKETS_S),
    ]
    for way, grows in (("shrinks", False), ("grows", True)):
        those = [one for one in done if one.grows is grows]
        lines += [
            row(f"{way}: set aside by the kubelet", [one.allocated_s or 0.0 for one in those]),
            row(f"{way}: quota in the control group", [one.quota_s or 0.0 for one in those]),
            row(f"{way}: told in the pod's status", [one.effect_s or 0.0 for one in those]),
        ]
    return "\n".join(lines)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fs-") as base:
        lab = Lab("bench-resizes", kubelets=1, node_cpu=NODE_CPU, scheduler=False, base=Path(base))
        with lab:
            done, figures = asyncio.run(measure(lab))
    table = page(done, figures)
    print(table)
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
