"""Small made-up runs: every table a run can have, with numbers that can be checked by hand."""

import numpy as np
import pytest

from foresail.results.result import RunResult
from foresail.results.tables import FRAGMENT_CLASSES
from foresail.results.tables import tables as registered


def make_timeline(rows, *, gpus=4):
    used = np.linspace(0, 1000 * gpus, rows).round().astype(np.int64)
    idle = 1000 * gpus - used
    shares = dict(zip(FRAGMENT_CLASSES, (0.1, 0.2, 0.4, 0.1, 0.1, 0.05, 0.05), strict=True))
    return {
        "time_s": np.arange(rows, dtype=np.float64) * 10,
        "arrived_gpu_milli": used,
        "used_gpu_milli": used,
        "used_cpu_milli": used * 8,
        "used_memory_bytes": used * 2**20,
        "idle_gpu_milli": idle,
        "fragment_milli": idle * 0.6,
        **{name: idle * share for name, share in shares.items()},
        "running": np.arange(rows),
        "waiting": np.zeros(rows, dtype=np.int64),
        "failed": np.zeros(rows, dtype=np.int64),
        "finished": np.zeros(rows, dtype=np.int64),
    }


def make_nodes_table(names=("n0", "n1", "n2"), models=("T4", "A100", "")):
    count = len(names)
    gpu_count = np.array([2 if model else 0 for model in models])
    return {
        "node": list(names),
        "model": list(models),
        "cpu_milli": np.full(count, 8000),
        "memory_bytes": np.full(count, 2**33),
        "gpu_count": gpu_count,
        "cpu_free_milli": np.full(count, 2000),
        "memory_free_bytes": np.full(count, 2**32),
        "gpu_free_milli": gpu_count * 500,
        "gpu_free_milli_by_device": ["1000-0" if model else "" for model in models],
        "pods": np.full(count, 3),
    }


def make_placements(pods, *, node="n0"):
    count = len(pods)
    return {
        "order": np.arange(count),
        "pod": list(pods),
        "node": [node] * (count - 1) + [""],
        "devices": ["0-1"] * (count - 1) + [""],
        "time_s": np.arange(count) * 0.5,
    }


def _make_openb(policy="fgd", *, seed=42, rows=50, pod_names=("a", "b", "c"), **fields):
    loads = np.arange(131, dtype=np.float64)
    by_load = {
        "load": loads,
        "allocation_pct": np.minimum(loads, 95.25),
        "fragmentation_pct": np.linspace(14, 4.5, 131),
        "fragmentation_ratio_pct": np.full(131, 99.5),
    }
    parts = {
        "protocol": "openb",
        "policy": policy,
        "trace": "default",
        "seed": seed,
        "load": 1.3,
        "total_gpus": 4,
        "summary": {"used_gpu_milli": np.int64(4000), "ratio": float("nan")},
        "profile": {"score": [("fgd", 1.0)]},
    }
    tables = {
        "placements": make_placements(pod_names),
        "timeline": make_timeline(rows),
        "nodes": make_nodes_table(),
        "by_load": by_load,
    }
    names = {table.name for table in registered()}
    tables |= {name: columns for name, columns in fields.items() if name in names}
    fields = {name: value for name, value in fields.items() if name not in names}
    return RunResult(tables={name: made for name, made in tables.items() if made is not None}, **(parts | fields))


def _make_clock(policy="look-ahead", **fields):
    waits = np.array([0.0, 10.0, 30.0, np.nan])
    submit = np.array([0.0, 5.0, 10.0, 20.0])
    run = np.array([100.0, 10.0, 10.0, np.nan])
    pods = {
        "pod": ["a", "b", "c", "d"],
        "submit_s": submit,
        "start_s": submit + waits,
        "end_s": submit + waits + run,
        "wait_s": waits,
        "run_s": run,
        "slowdown": np.array([1.0, 2.0, 4.0, np.nan]),
        "outcome": ["finished", "finished", "finished", "failed"],
        "restarts": np.zeros(4, dtype=np.int64),
        "reason": ["", "", "", "have too little gpu"],
    }
    parts = {
        "protocol": "clock",
        "load": None,
        "by_load": None,
        "pods": pods,
        "placements": make_placements(("a", "b", "c", "d")),
        "summary": {"allocation": {"gpu_pct": 25.0}},
    }
    return _make_openb(policy, **(parts | fields))


@pytest.fixture
def make_openb():
    return _make_openb


@pytest.fixture
def make_clock():
    return _make_clock


@pytest.fixture
def long_timeline():
    return make_timeline


@pytest.fixture
def make_nodes():
    return make_nodes_table
