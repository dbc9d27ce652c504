"""How good forecasts and plans are on rows before the test: `python bench/held_out.py DATA`, in which choices are made.

The test rows of the published series are cut off first. Of what is left, blocks of rows near its end are run through by
jobs, and forecasters learn from the rows before each block. The series are passed on from task to task, so that a block
makes several jobs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from foresail.controllers.supersteps.splitter import JobSplitter
from foresail.experiments.supersteps.forecasting import make_feed
from foresail.experiments.supersteps.request import JobRequest
from foresail.experiments.supersteps.run import RUNTIMES, grid_of, make_planner, numbered
from foresail.experiments.supersteps.source import JobSource, find_source
from foresail.experiments.workload.data import ForecastData
from foresail.experiments.workload.evaluation import evaluate
from foresail.sim.supersteps.job import run_job
from foresail.traces.series import training_rows
from foresail.traces.supersteps.matrices import JobData, scaled

HORIZON = 20
SHOWN = (1, 5, 10, 20)


def held_out(folder: Path, rows: int, blocks: int) -> Iterator[JobSource]:
    """Jobs whose rows end where the test begins, or a block before that, …; nothing of the test is in them."""
    source = find_source(folder)
    test_rows, horizon = source.data.actual.shape[1:]
    for block in range(blocks):
        series = {}
        for name in source.data.series:
            known = source.series[name].head(training_rows(source.series[name], test_rows, horizon))
            series[name] = known.head(len(known) - block * rows)
        at = np.arange(rows)[:, None] + np.arange(HORIZON)
        actual = np.stack([one.values[training_rows(one, rows, HORIZON) :][at] for one in series.values()])
        yield JobSource(
            f"block {block + 1}", JobData(source.data.tasks, tuple(series), actual, None), source.profile, series
        )


def total_s(source: JobSource, request: JobRequest, shift: int) -> float:
    """A job in which every task has the series of the one `shift` places further on."""
    data = source.data
    order = [(at + shift) % len(data.tasks) for at in range(len(data.tasks))]
    rotated = JobData(data.tasks, tuple(data.series[at] for at in order), data.actual[order], None)
    grid = grid_of(request, source, len(data.tasks))
    curves = RUNTIMES[request.runtime](source.profile.of(data.tasks)).curves(grid.shares_milli)
    feed = make_feed(request, source, rotated)
    splitter = JobSplitter(numbered(data.tasks), make_planner(request, curves, grid), feed, curves, grid)
    workloads = np.ascontiguousarray(scaled(rotated.actual)[:, :, 0].T)
    run = run_job(splitter, curves, workloads, penalty_s=request.penalty_s)
    return run.total_s


def measure(folder: Path, forecasters: list[str], rows: int, blocks: int, shifts: int, seeds: int) -> dict[str, Any]:
    """Means over blocks of errors, and over blocks, rotations and seeds of seconds a superstep."""
    errors: dict[str, list[list[float]]] = {name: [] for name in forecasters}
    inside: dict[str, list[float]] = {name: [] for name in forecasters}
    seconds: dict[str, list[float]] = {name: [] for name in forecasters}
    for source in held_out(folder, rows, blocks):
        data = ForecastData(source.name, tuple(source.series.values()), rows, HORIZON)
        for judged in evaluate(data, forecasters):
            errors[judged.forecaster].append([judged.mean(ahead) for ahead in SHOWN])
            inside[judged.forecaster].append(judged.mean_coverage() or 0.0)
        for name in forecasters:
            for shift in range(0, len(source.data.tasks), len(source.data.tasks) // shifts if shifts else 99):
                for seed in range(1, seeds + 1):
                    request = JobRequest(forecast=name, length=rows, seed=seed)
                    seconds[name].append(total_s(source, request, shift) / rows)
    return {
        name: {
            **{f"rmse_{ahead}": round(float(np.mean(errors[name], axis=0)[at]), 4) for at, ahead in enumerate(SHOWN)},
            "inside_80": round(float(np.mean(inside[name])), 4),
            "superstep_s": round(float(np.mean(seconds[name])), 3) if seconds[name] else None,
            "jobs": len(seconds[name]),
        }
        for name in forecasters
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--forecaster", action="append", help="again for more; ensemble if left out")
    parser.add_argument("--rows", type=int, default=250, help="supersteps of a job")
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--shifts", type=int, default=4, help="rotations of the series over the tasks; 0: errors alone")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    found = measure(
        *(given.data, given.forecaster or ["ensemble"], given.rows, given.blocks),
        shifts=given.shifts,
        seeds=given.seeds,
    )
    print(json.dumps(found, indent=2))
