"""Run a bulk-synchronous job on a lab and in simulation: `python bench/supersteps_lab.py`, as root, with nothing else
going on. Takes about ten minutes.

Starts a lab of one kubelet and a ZooKeeper, measures the tasks there, and runs examples/supersteps/stress-3.toml under
every strategy on it and in simulation. Writes bench/supersteps_lab.json with every figure and docs/supersteps-lab.md;
`page` writes the page alone from the figures there are, and `--keep FOLDER` leaves profile, rows and reports there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from supersteps_lab_page import write_page
from training_lab import come_first, foresail

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FIGURES = HERE / "supersteps_lab.json"
EXPERIMENT = ROOT / "examples" / "supersteps" / "stress-3.toml"
NODE_CPU, LAB = "1500m", "supersteps"
OPS = {"bsearch": 5, "memcpy": 10, "vecmath": 50}
RUNS = (("even", "lease"), ("exppo", "lease"), ("scenario", "lease"), ("scenario", "zookeeper"))


def carried_out(out: Path) -> dict[str, Any]:
    """All that the page tells of: measured, run and simulated."""
    labs = ("--dir", str(out / "lab"), "--name", LAB)
    experiment = out / EXPERIMENT.name
    shutil.copy(EXPERIMENT, experiment)
    foresail(
        *("lab", "up", *labs, "--kubelets", "1", "--node-cpu", NODE_CPU, "--workload-image", "--zookeeper"),
    )
    try:
        come_first(out / "lab")
        kubeconfig = out / "kubeconfig"
        kubeconfig.write_text(foresail("lab", "kubeconfig", *labs), encoding="utf-8")
        profile = out / "profile.csv"
        ops = [word for task, count in OPS.items() for word in ("--ops", f"{task}={count}")]
        measure = ("measure", "stress", *OPS, "--on", "kube", "--full", "--workers", "1", *ops)
        grid = ("--workloads", "10,20,30,40,50", "--cpus", "150,250,350,500,700")
        foresail(*measure, *grid, "--out", str(profile), KUBECONFIG=str(kubeconfig))
        runs = [one_run(out, experiment, strategy, barrier) for strategy, barrier in RUNS]
    finally:
        foresail("lab", "down", *labs)
    return {
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        "load": os.getloadavg()[1],
        "node_cpu": NODE_CPU,
        "points": len([line for line in profile.read_text().splitlines() if line and line[0] not in "#t"]),
        "runs": runs,
        "note": "",
    }


def one_run(out: Path, experiment: Path, strategy: str, barrier: str) -> dict[str, Any]:
    """A job on the lab, with the figures of its overlay and its resizes."""
    name = f"{strategy}-{barrier}"
    folder = out / "results" / name
    words = ("bsp", "run", str(experiment), "--strategy", strategy, "--barrier", barrier, "--name", name)
    where = ("--lab", LAB, "--lab-dir", str(out / "lab"), "--out", str(folder), "--json")
    figures = json.loads(foresail(*words, *where))
    rows = [json.loads(line) for line in (folder / "supersteps.jsonl").read_text().splitlines()]
    return {
        "strategy": strategy,
        "barrier": barrier,
        **figures,
        "seconds": [max(row["seconds"].values()) for row in rows],
        "resizes_s": [one["allocated_s"] for row in rows for one in row["resizes"] if one["allocated_s"] is not None],
        "in_effect_s": [one["took_s"] for row in rows for one in row["resizes"] if one["outcome"] == "done"],
        "outcomes": sorted(one["outcome"] for row in rows for one in row["resizes"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="all", choices=("all", "page"))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave profile, rows and reports here")
    asked = parser.parse_args()
    if asked.what == "all":
        if os.geteuid() != 0:
            sys.exit("real kubelets need root")
        with tempfile.TemporaryDirectory(prefix="fs-") as made:
            out = asked.keep or Path(made)
            out.mkdir(parents=True, exist_ok=True)
            figures = carried_out(out)
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    write_page(json.loads(FIGURES.read_text(encoding="utf-8")), ROOT / "docs")


if __name__ == "__main__":
    main()
