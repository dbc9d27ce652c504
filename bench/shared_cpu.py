"""Jobs that share their nodes' CPU: how long runs take, and what an event costs on clusters of two sizes."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from foresail.core.control import Action, Controller, Move, Resize, View
from foresail.core.spec import NodeSpec, PodSpec, Workload
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.traces.trace import Trace

_NODE_CPU_MILLI = 8000
_JOBS_PER_NODE = 20
_SMALL, _LARGE = 50, 2_000
_SETTINGS = ClockSettings(work="shared-cpu", restart_time_s=2.0)


class Restless:
    """Moves one job and resizes another at each turn, so that rows change for every reason there is."""

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self._turn = 0

    def act(self, view: View) -> list[Action]:
        self._turn += 1
        running = list(view.running.values())
        if len(running) < 2:
            return []
        moved, resized = running[self._turn % len(running)], running[(self._turn + 1) % len(running)]
        cpu_milli = 500 + 100 * (self._turn % 5)
        return [Move(moved.pod, "to measure it"), Resize(resized.pod, cpu_milli, "to measure it")]


def trace_of(nodes: int, jobs: int) -> Trace:
    """As many jobs a node and a second whatever the number of nodes: a row's load does not depend on the cluster."""
    random = np.random.default_rng(1)
    specs = [PodSpec(cpu_milli=milli, memory_bytes=1 << 30) for milli in (500, 1000, 2000)]
    workload = Workload(
        names=[f"job-{number:06d}" for number in range(jobs)],
        specs=specs,
        spec_of=random.integers(0, len(specs), jobs),
        arrival_s=np.sort(random.uniform(0.0, 60.0 * jobs / nodes, jobs)),
        work_cpu_s=random.uniform(60.0, 600.0, jobs),
        cpu_limit_milli=np.where(random.random(jobs) < 0.5, 4000, 0),
    )
    return Trace("shared", [NodeSpec(f"node-{at:05d}", _NODE_CPU_MILLI, 1 << 37) for at in range(nodes)], workload)


def run_s(trace: Trace, controllers: Mapping[str, Controller] | None = None) -> tuple[float, float, int]:
    """How long a run takes, how many jobs it finished, and how often one was moved or resized."""
    start_s = time.perf_counter()
    result = run_clock(trace, load_profile("least-allocated"), settings=_SETTINGS, controllers=controllers)
    took_s = time.perf_counter() - start_s
    told = [str(what) for what in result.tables.get("journal", {}).get("what", ())]
    return took_s, float(result.summary["finished"]), told.count("move") + told.count("resize")


def _cpu_s(trace: Trace) -> float:
    start_s = time.process_time()
    run_s(trace)
    return time.process_time() - start_s


def shared_cpu() -> dict[str, float | str]:
    small, large = trace_of(4, 50), trace_of(500, 10_000)
    run_s(small)  # kernels are compiled, or read from disk
    # The best of many, as for the other runs: what else the machine does can only add to a time.
    small_runs = [run_s(small, {"restless": Restless(20.0)}) for _ in range(25)]
    large_runs = [run_s(large, {"restless": Restless(20.0)}) for _ in range(2)]
    each_us = {}
    for nodes in (_SMALL, _LARGE):
        jobs = nodes * _JOBS_PER_NODE
        # Arrivals and ends, without a controller: a controller looks at all running jobs. Counted in time of the
        # processor, so that what else the machine does hardly shows in a ratio.
        runs = [_cpu_s(trace_of(nodes, jobs)) for _ in range(3 if nodes == _LARGE else 20)]
        each_us[nodes] = min(runs) / (2 * jobs) * 1e6
    return {
        "shared_cpu_small_s": min(run[0] for run in small_runs),
        "shared_cpu_large_s": min(run[0] for run in large_runs),
        "shared_cpu_small_finished": small_runs[0][1],
        "shared_cpu_large_finished": large_runs[0][1],
        "shared_cpu_small_changes": float(small_runs[0][2]),
        "shared_cpu_large_changes": float(large_runs[0][2]),
        f"shared_cpu_event_us_{_SMALL}": each_us[_SMALL],
        f"shared_cpu_event_us_{_LARGE}": each_us[_LARGE],
        "shared_cpu_growth": each_us[_LARGE] / each_us[_SMALL],
    }
