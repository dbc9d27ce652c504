"""Supersteps a second of the environment that planners are trained in, on a job that is made up."""

from __future__ import annotations

import time

import numpy as np

STEPS = 20_000


def superstep_environment() -> dict[str, float | str]:
    from foresail.controllers.supersteps.planner import ShareGrid
    from foresail.forecast.runtime.generated import generate_profile
    from foresail.forecast.runtime.spline import SplineRuntime
    from foresail.traces.supersteps.generate import generate_job
    from foresail.traces.supersteps.matrices import scaled
    from foresail.train.supersteps.environment import RowsOfJob, SuperstepEnvironment

    data, _ = generate_job()
    grid = ShareGrid(len(data.tasks))
    curves = SplineRuntime(generate_profile(data.tasks)).curves(grid.shares_milli)
    workloads = scaled(data.actual).transpose(1, 0, 2)
    env = SuperstepEnvironment([RowsOfJob(curves, grid, workloads[:, :, 0], workloads)], actions=4, window=6)
    actions = np.random.default_rng(1).integers(4, size=STEPS)
    rates = []
    for seed in range(5):
        env.reset(seed=seed)
        start_s = time.process_time()
        for action in actions:
            if env.step(action)[2]:
                env.reset()
        rates.append(STEPS / (time.process_time() - start_s))
    return {"superstep_environment_per_s": max(rates)}
