"""Measure Foresail and hold it to bench/thresholds.toml: `make bench`, or `python bench/run.py NAME...` for a part.

Writes docs/benchmarks.md, docs/benchmarks.svg and bench/results.json; ends with 1 if a limit is broken.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results.json"
BIN = Path(sys.executable).parent
GO_RUN_S = 600.0
"""About ten minutes for one run, says the README of the published Go simulator."""
POLICIES = ("fgd", "best-fit", "dot-product", "gpu-packing", "gpu-clustering")
TRACES = (
    *("default", "cpu050", "cpu200", "gpushare40", "gpushare100"),
    *("gpuspec10", "gpuspec33", "multigpu20", "multigpu50"),
)

SIZES = (1_000, 10_000, 100_000)

Figures = dict[str, float | str]


def openb_files(name: str) -> tuple[Path, Path] | None:
    """The public trace where it can be found, else nothing."""
    from foresail.traces.openb.get import openb_folder

    beside = ROOT.parent / "shared" / "data" / "openb" / "csv"
    folder = beside if beside.is_dir() else openb_folder()
    if folder is None:
        return None
    return folder / "openb_node_list_gpu_node.csv", folder / f"openb_pod_list_{name}.csv"


def default_files(scratch: Path) -> tuple[Path, Path]:
    """The openb default trace, or a generated one of the same size."""
    found = openb_files("default")
    return generated_files(scratch, 1213, 8152) if found is None else found


def generated_files(scratch: Path, nodes: int, pods: int) -> tuple[Path, Path]:
    folder = scratch / f"generated-{nodes}-{pods}"
    if not folder.exists():
        size = ["--nodes", str(nodes), "--pods", str(pods), "--seed", "1"]
        run_command(str(BIN / "foresail"), "trace", "generate", *size, "--format", "parquet", "--out", str(folder))
    return folder / "nodes.parquet", folder / "pods.parquet"


def run_command(*words: str, **environment: str) -> float:
    start_s = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, cwd=ROOT, env=os.environ | environment)
    return time.perf_counter() - start_s


def warm_run(scratch: Path) -> Figures:
    from foresail.policies.profiles.load import load_profile
    from foresail.sim.protocols.openb import run_openb
    from foresail.traces.trace import load

    nodes, pods = default_files(scratch)
    trace = load(nodes, pods)
    times_s = []
    for _ in range(25):
        start_s = time.perf_counter()
        run_openb(trace, load_profile("fgd"), load=1.3, seed=42)
        times_s.append(time.perf_counter() - start_s)
    # The best of many: what else the machine does can only add to a time. The median tells how much it did.
    best_s = min(times_s)
    return {
        "warm_run_s": best_s,
        "warm_run_median_s": statistics.median(times_s),
        "speed_up_over_go": GO_RUN_S / best_s,
        "warm_run_trace": trace.name,
    }


def simulate_words(nodes: Path, pods: Path, out: Path) -> list[str]:
    return [
        *(str(BIN / "foresail"), "simulate", "--protocol", "openb", "--nodes", str(nodes), "--pods", str(pods)),
        *("--policy", "fgd", "--load", "1.3", "--seed", "42", "--out", str(out)),
    ]


def cold_command(scratch: Path) -> Figures:
    nodes, pods = default_files(scratch)
    with tempfile.TemporaryDirectory(dir=scratch) as empty:
        first_s = run_command(*simulate_words(nodes, pods, scratch / "first"), NUMBA_CACHE_DIR=empty)
    run_command(*simulate_words(nodes, pods, scratch / "second"))
    times_s = [run_command(*simulate_words(nodes, pods, scratch / f"cold-{at}")) for at in range(3)]
    return {"first_command_s": first_s, "cold_command_s": statistics.median(times_s)}


def expected_runs(_scratch: Path) -> Figures:
    from foresail.policies.profiles.load import load_profile
    from foresail.sim.protocols.openb import run_openb
    from foresail.traces.trace import load

    if openb_files("default") is None:
        print("expected runs: skipped; get the traces with `foresail trace get openb`")
        return {}
    start_s = time.perf_counter()
    for name in TRACES:
        nodes, pods = openb_files(name)  # type: ignore[misc] - looked for above
        trace = load(nodes, pods)
        for policy in POLICIES:
            for seed in range(42, 47):
                run_openb(trace, load_profile(policy), load=1.3, seed=seed)
    return {"expected_runs_s": time.perf_counter() - start_s}


_MILLION = """
import sys, time
start_s = time.perf_counter()
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.openb import run_openb
from foresail.traces.trace import load
from foresail.traces.openb.read import read_nodes
trace = load(sys.argv[1], sys.argv[2])
asked = sum(int(trace.workload.specs[i].gpu_count * trace.workload.specs[i].gpu_milli * n)
            for i, n in enumerate(__import__("numpy").bincount(trace.workload.spec_of)))
# The load that the trace itself asks for: every generated pod arrives, none is added or left out.
load_asked = asked / (1000 * sum(node.gpu_count for node in trace.nodes))
result = run_openb(trace, load_profile("fgd"), load=load_asked, seed=42)
print(time.perf_counter() - start_s, result.summary["pods"], result.summary["failed_pods"])
"""


def million_pods(scratch: Path) -> Figures:
    nodes, pods = generated_files(scratch, 100_000, 1_000_000)
    done = subprocess.run(
        [sys.executable, "-c", _MILLION, str(nodes), str(pods)], check=True, capture_output=True, text=True
    )
    took_s, arrived, failed = done.stdout.split()
    peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {
        "million_pods_s": float(took_s),
        "million_pods_gb": peak_kib * 1024 / 1e9,
        "million_pods_arrived": float(arrived),
        "million_pods_failed": float(failed),
    }


def decisions(_scratch: Path) -> Figures:
    """Time to decide, book and measure one pod, once each request has been seen, on clusters of three sizes."""
    from foresail.core.decide import decide
    from foresail.core.model import Placement, Pod
    from foresail.core.table import NodeTable
    from foresail.policies.profiles.load import load_profile
    from foresail.sim.meter import Meter
    from foresail.traces.generate.generate import GenerateSettings, generate

    unmeasured, measured = 2_000, 3_000
    figures: Figures = {}
    for count in SIZES:
        nodes, workload = generate(GenerateSettings(nodes=count, pods=unmeasured + measured, seed=1))
        table, profile = NodeTable(nodes), load_profile("fgd")
        profile.learn(workload, table.all)
        meter = Meter(table, workload, len(workload))
        shapes = [table.shape(spec) for spec in workload.specs]
        for shape in shapes:
            decide(Pod("first look", shape), table, profile)
        start_s = 0.0
        for at in range(len(workload)):
            if at == unmeasured:
                start_s = time.perf_counter()
            pod = Pod(workload.names[at], shapes[workload.spec_of[at]])
            outcome = decide(pod, table, profile)
            if isinstance(outcome, Placement):
                table.assume(pod, outcome)
                meter.change(outcome.row)
                meter.record()
        figures[f"decision_us_{count}"] = (time.perf_counter() - start_s) / measured * 1e6
    figures["decision_growth"] = float(figures["decision_us_100000"]) / float(figures["decision_us_1000"])
    return figures


def episode(scratch: Path) -> Figures:
    """Decisions a second of one core, where a run is decided from outside: which nodes would do, and one of them."""
    import numpy as np

    from foresail.policies.profiles.load import load_profile
    from foresail.sim.protocols.openb import openb_episode
    from foresail.traces.trace import load

    nodes, pods = default_files(scratch)
    trace = load(nodes, pods)
    rates = []
    for _ in range(5):
        stepped, decided = openb_episode(trace, load_profile("best-fit"), seed=42), 0
        start_s = time.process_time()
        while stepped.next() is not None:
            feasible = stepped.feasible()
            row = int(np.argmax(feasible))
            stepped.answer(stepped.on(row) if feasible[row] else None)
            decided += 1
        rates.append(decided / (time.process_time() - start_s))
    return {"episode_decisions_per_s": max(rates)}


def shared_cpu(_scratch: Path) -> Figures:
    import shared_cpu

    return shared_cpu.shared_cpu()


def supersteps(_scratch: Path) -> Figures:
    import supersteps

    return supersteps.supersteps()


def superstep_environment(_scratch: Path) -> Figures:
    import superstep_environment

    return superstep_environment.superstep_environment()


def start_up(_scratch: Path) -> Figures:
    def best_s(*words: str) -> float:
        return min(run_command(*words) for _ in range(15))

    bare_s = best_s(sys.executable, "-c", "pass")
    return {
        "import_s": max(0.0, best_s(sys.executable, "-c", "import foresail") - bare_s),
        "help_s": best_s(str(BIN / "foresail"), "--help"),
    }


def throughput(scratch: Path) -> Figures:
    import cluster

    return cluster.throughput(scratch)


def parity(scratch: Path) -> Figures:
    """Random decisions of a real kube-scheduler, computed again."""
    from foresail.parity.compare import compare_file
    from foresail.parity.lab import record
    from foresail.policies.profiles.load import load_profile

    recorded = scratch / "decisions.jsonl"
    record(recorded, pods=10_000, clusters=200, seed=2026)
    found = compare_file(recorded, load_profile("kubernetes"))
    return {
        "parity_pods": float(found.cases),
        "parity_scores": float(found.scores),
        "parity_differences": float(len(found.differences)),
    }


PARTS: dict[str, Callable[[Path], Figures]] = {
    "start-up": start_up,
    "warm-run": warm_run,
    "cold-command": cold_command,
    "decisions": decisions,
    "episode": episode,
    "shared-cpu": shared_cpu,
    "supersteps": supersteps,
    "superstep-environment": superstep_environment,
    "expected-runs": expected_runs,
    "million-pods": million_pods,
    "throughput": throughput,
    "parity": parity,
}


def main(names: list[str]) -> int:
    figures: Figures = json.loads(RESULTS.read_text()) if names and RESULTS.exists() else {}
    figures |= {"machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"}
    with tempfile.TemporaryDirectory() as scratch:
        for name in names or PARTS:
            print(f"{name} …", flush=True)
            figures |= PARTS[name](Path(scratch))
    RESULTS.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")
    from report import write_pages

    thresholds = tomllib.loads((HERE / "thresholds.toml").read_text())
    broken = write_pages(figures, thresholds, ROOT / "docs")
    for line in broken:
        print(f"LIMIT BROKEN: {line}")
    print(f"wrote {ROOT / 'docs' / 'benchmarks.md'}")
    return 1 if broken else 0


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in PARTS]
    if unknown:
        sys.exit(f"no benchmark {unknown[0]}; there are {', '.join(PARTS)}")
    sys.exit(main(sys.argv[1:]))
