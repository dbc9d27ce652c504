"""Run training jobs on a lab and in simulation: `python bench/training_lab.py`, as root, with nothing else going on.

Starts a lab of three kubelets, measures the trainers there, and runs examples/experiments/training-7-lab.toml on it and
in simulation. Writes bench/training_lab.json with every figure, docs/training-lab.md and its plots; `figures` takes
them from the results of an earlier run (`--keep FOLDER`), and `page` writes the page alone from the figures there are.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from training_lab_page import write_page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FIGURES = HERE / "training_lab.json"
EXPERIMENT = ROOT / "examples" / "experiments" / "training-7-lab.toml"
AFTERWARDS = ("migrate:every_s=3,round_s=3,threshold=0.7,moves_a_round=2",)
"""Strategies that were added once the others had been seen: they are shown, and not counted."""
NODES, NODE_CPU, PART, SEED = 3, "250m", 0.08, 100


def foresail(*words: str, **environment: str) -> str:
    """Give a command, and what it printed."""
    print("foresail", *words, flush=True)
    command = [sys.executable, "-c", "from foresail.cli.main import main; main()", *words]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, **environment})
    if ran.returncode:
        sys.exit(f"{ran.stdout}\nended with {ran.returncode}")
    return ran.stdout


def carried_out(out: Path) -> None:
    """All that the page tells of: measured, simulated and run."""
    labs = ("--dir", str(out / "lab"))
    shared = out / "shared"
    shared.mkdir(parents=True, exist_ok=True)
    foresail("lab", "up", *labs, "--kubelets", str(NODES), "--node-cpu", NODE_CPU, "--workload-image", "--no-scheduler")
    try:
        come_first(out / "lab")
        kubeconfig = out / "kubeconfig"
        kubeconfig.write_text(foresail("lab", "kubeconfig", *labs), encoding="utf-8")
        there = {"KUBECONFIG": str(kubeconfig)}
        models = str(out / "models.json")
        foresail("measure", "training", "--on", "kube", "--part", str(PART), "--out", models, **there)
        compare = ("compare", str(EXPERIMENT), "--seeds", str(SEED), "--models", models, "--out", str(out / "results"))
        print(foresail(*compare, "--on", "kube", "--shared-folder", str(shared), "--verbose", **there))
    finally:
        foresail("lab", "down", *labs)


def come_first(labs: Path) -> None:
    """Let the pods of our lab have what its nodes promise, whatever else the machine does; caps hold all the same."""
    from foresail.lab.cgroups import hierarchies
    from foresail.lab.state import all_labs

    for group in (group for state in all_labs(labs).values() for group in state.cgroups):
        for tree in hierarchies():
            if tree.v2 or "cpu" in tree.controllers:
                name, value = ("cpu.weight", "800") if tree.v2 else ("cpu.shares", "8192")
                (tree.at(group) / name).write_text(value, encoding="ascii")


def figures_of(out: Path) -> dict[str, Any]:
    """Everything that the page says, from the results folders."""
    from foresail.experiments.experiment_file import load_experiment
    from foresail.experiments.kube.agreement import agreement_of
    from foresail.experiments.kube.executor import plan_on_kube
    from foresail.experiments.plan import plan_of
    from foresail.experiments.run import trace_of
    from foresail.results.folder import read_run

    simulated, real = out / "results", out / "results" / "kube"
    options = {"seeds": (SEED,), "training": {"models": str(out / "models.json")}}
    plan = plan_of(load_experiment(EXPERIMENT, options))
    workload = trace_of(plan.runs[0].request).workload
    kinds = {
        name: {"": "Pod", "ReplicaSet": "Deployment"}.get(owner, owner)
        for name, owner in ((name, workload.spec(at).owner.partition("/")[0]) for at, name in enumerate(workload.names))
    }
    trained = {name: workload.trainings[workload.training_of[at]].name for at, name in enumerate(workload.names)}
    agreed = agreement_of(plan, simulated, real)
    runs = []
    losses: dict[str, dict[int, float]] = {}
    for planned in plan_on_kube(plan).runs:
        folder = Path("runs") / planned.folder
        if not (real / folder).is_dir():
            continue  # it failed, and was told
        happened, expected = read_run(real / folder), read_run(simulated / folder)
        same, compared = same_losses(happened.frame("reports"), losses)
        runs.append(
            {
                "strategy": planned.request.controllers[0] if planned.request.controllers else "default",
                "jobs": [
                    {"job": one.job, "owner": kinds[one.job], "model": trained[one.job]}
                    | {"simulated_s": one.simulated_s, "real_s": one.real_s}
                    for one in agreed
                    if one.policy == planned.policy
                ],
                "submitted": len(workload),
                "planned": not set(planned.request.controllers) & set(AFTERWARDS),
                "moves": moves_of(happened, kinds),
                "moves_simulated": moved(expected, kinds),
                "resizes": happened.frame("resizes").select("time_s", "job", "cpu_milli", "took_s").to_dicts(),
                "steps_lost": json.loads((real / folder / "summary.json").read_text())["steps_lost"],
                "losses_compared": compared,
                "losses_same": same,
            }
        )
    measured = json.loads((out / "models.json").read_text())["models"]
    return {
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        "nodes": NODES,
        "node_cpu": NODE_CPU,
        "part": PART,
        "seed": SEED,
        "models": {
            name: {"steps": one["steps"], "step_cpu_s": one["cpu_s"] / one["steps"], "start_cpu_s": one["start_cpu_s"]}
            for name, one in measured.items()
        },
        "runs": runs,
    }


def moved(run: Any, kinds: dict[str, str]) -> list[dict[str, Any]]:
    """Moves that controllers asked for, in simulation."""
    journal = run.frame("journal")
    if journal is None:
        return []
    rows = journal.filter(journal["what"] == "move").select("time_s", "pod").iter_rows()
    return [{"time_s": time_s, "job": job, "owner": kinds[job]} for time_s, job in rows]


def moves_of(run: Any, kinds: dict[str, str]) -> list[dict[str, Any]]:
    """Moves that were seen to go on, with how long each took and the steps that it lost."""
    found = []
    journal = run.frame("journal")
    for time_s, job, detail in journal.filter(journal["what"] == "moved").select("time_s", "pod", "detail").iter_rows():
        took = re.search(r" in ([0-9.]+) s", detail)
        lost = re.search(r"(\d+) steps? lost", detail)
        found.append(
            {"time_s": time_s, "job": job, "owner": kinds[job]}
            | {"took_s": float(took[1]) if took else None, "steps_lost": int(lost[1]) if lost else None}
        )
    return found


def same_losses(reports: Any, first: dict[str, dict[int, float]]) -> tuple[int, int]:
    """How many losses are the same, to the last bit, as those of the same step in the first run, and of how many."""
    same = compared = 0
    own: dict[str, dict[int, float]] = {}
    for job, step, loss in reports.select("job", "step", "loss").drop_nulls().iter_rows():
        own.setdefault(job, {})[step] = loss
        if step in first.get(job, {}):
            compared += 1
            same += first[job][step] == loss
    if not first:
        first |= own
    return same, compared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["all", "figures", "page"], default="all")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--note", default="", help="what else a reader should know of how it was run")
    given = parser.parse_args()
    out = given.keep or Path(tempfile.mkdtemp(prefix="training-lab-"))
    if given.what == "all":
        carried_out(out)
    if given.what in ("all", "figures"):
        FIGURES.write_text(json.dumps({"note": given.note, **figures_of(out)}, indent=1) + "\n", encoding="utf-8")
    write_page(json.loads(FIGURES.read_text(encoding="utf-8")), ROOT / "docs")
    if given.keep is None:
        shutil.rmtree(out, ignore_errors=True)
    print(f"wrote {FIGURES.relative_to(ROOT)} and docs/training-lab.md")


if __name__ == "__main__":
    main()
