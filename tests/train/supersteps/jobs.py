"""A small made-up job to train on."""

import numpy as np

from foresail.controllers.supersteps.planner import ShareGrid
from foresail.forecast.runtime.generated import generate_profile
from foresail.forecast.runtime.spline import SplineRuntime
from foresail.train.supersteps.environment import RowsOfJob


def made_up_job(seed=1, rows=60, tasks=3, horizon=8):
    rng = np.random.default_rng(seed)
    walk = 30 + np.cumsum(rng.normal(0, 3, (rows + horizon, tasks)), axis=0)
    workloads = 10 + np.abs((walk - 10) % 80 - 40)
    at = np.arange(rows)[:, None] + np.arange(horizon)
    forecasts = workloads[at].transpose(0, 2, 1) + rng.normal(0, 1, (rows, tasks, horizon))
    grid = ShareGrid(tasks, total_milli=3000 * tasks)
    curves = SplineRuntime(generate_profile(tuple(f"task-{at}" for at in range(tasks)))).curves(grid.shares_milli)
    return RowsOfJob(curves, grid, workloads[:rows], forecasts)
