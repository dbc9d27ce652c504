"""How long a superstep takes in which nobody works: opening, hearing of it, reporting and hearing of all reports.

python bench/barriers.py --tasks 8 --steps 100

Starts a lab with ZooKeeper; each task is a process of its own, as in a pod. Prints milliseconds a superstep, and the
machine's load before and after, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WITHIN_S = 120.0
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def lease_options(lab, folder: Path) -> list[str]:
    """A token for the tasks: they have no client certificate."""
    with lab.api() as api:
        api.create(ACCOUNTS, {"metadata": {"name": "task"}})
        binding = {
            "metadata": {"name": "task"},
            "subjects": [{"kind": "ServiceAccount", "name": "task", "namespace": "default"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        }
        api.create(BINDINGS, binding)
        token = api.create(f"{ACCOUNTS}/task/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    path = folder / "token"
    path.write_text(token, encoding="ascii")
    return ["--api-server", lab.url, "--api-ca", str(lab.ca), "--api-token-file", str(path)]


def measure(address: str, store, tasks: int, steps: int, options: list[str]) -> dict[str, float]:
    """Milliseconds of each superstep: median, the 95th of a hundred, and the longest."""
    from foresail.workloads.supersteps.board import CoordinatorBoard

    names = [f"task-{number}" for number in range(tasks)]
    command = [sys.executable, "-m", "foresail.workloads.supersteps.task", "--board", address, *options, "--task"]
    started = [subprocess.Popen([*command, name], stdout=subprocess.DEVNULL) for name in names]
    took_ms = []
    try:
        with CoordinatorBoard(store) as board:
            for step in range(steps + 1):
                begun_s = time.monotonic()
                # To a workload of 0 there is nothing to do.
                board.open(step, dict.fromkeys(names, 0.0))
                board.wait_for_all(step, names, WITHIN_S)
                took_ms.append(1000 * (time.monotonic() - begun_s))
            board.finish("measured")
        for process in started:
            process.wait(WITHIN_S)
    finally:
        for process in started:
            process.kill()
            process.wait()
    # In the first one tasks are still starting.
    took_ms = sorted(took_ms[1:])
    return {
        "median_ms": statistics.median(took_ms),
        "p95_ms": took_ms[round(0.95 * (len(took_ms) - 1))],
        "longest_ms": took_ms[-1],
    }


def main() -> None:
    from foresail.lab import Lab
    from foresail.live.boards import api_access
    from foresail.workloads.supersteps.leases import LeaseStore
    from foresail.workloads.supersteps.zookeeper import ZooKeeperStore

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100)
    asked = parser.parse_args()
    found: dict[str, object] = {"tasks": asked.tasks, "steps": asked.steps}
    with (
        tempfile.TemporaryDirectory() as scratch,
        Lab("barriers", base=Path(scratch), scheduler=False, controllers=False, zookeeper=True) as lab,
    ):
        with lab.api() as api:
            access = api_access(api.connection)
        options = lease_options(lab, Path(scratch))
        found["load_before"] = os.getloadavg()[0]
        address = "lease://default/job"
        found["lease"] = measure(address, LeaseStore(access, "default", "job"), asked.tasks, asked.steps, options)
        address = f"zookeeper://{lab.zookeeper}/bench/job"
        store = ZooKeeperStore(lab.zookeeper, "/bench/job")
        found["zookeeper"] = measure(address, store, asked.tasks, asked.steps, [])
        found["load_after"] = os.getloadavg()[0]
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
