"""Plans of bulk-synchronous jobs: how long they take, on a job that is made up."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
LENGTH, WINDOW = 400, 10
PLAIN_STEPS = (100, 300)


def supersteps() -> dict[str, float | str]:
    mpc_s, plain_s = dynamic_mpc()
    return {
        "supersteps_mpc_s": mpc_s,
        "supersteps_mpc_over_plain": plain_s / mpc_s,
        "supersteps_plan_8_ms": scenario_plan_ms(8),
        "supersteps_plan_64_ms": scenario_plan_ms(64),
    }


def dynamic_mpc() -> tuple[float, float]:
    """Seconds of a whole job under our dynamic-mpc and, reckoned up from a few supersteps, under the plain rule."""
    from foresail.controllers.supersteps.planner import ShareGrid, SplitOutlook
    from foresail.controllers.supersteps.published import DynamicMpc
    from foresail.forecast.runtime.generated import generate_profile
    from foresail.forecast.runtime.spline import SplineRuntime
    from foresail.traces.supersteps.generate import generate_job
    from foresail.traces.supersteps.matrices import scaled

    sys.path.insert(0, str(ROOT))  # the plain rule stands with the tests, which judge by it
    from tests.plain_supersteps import Plain

    data, _ = generate_job()
    forecasts = scaled(data.actual).transpose(1, 0, 2)
    profile, grid = generate_profile(data.tasks), ShareGrid(len(data.tasks))
    planner = DynamicMpc(SplineRuntime(profile).curves(grid.shares_milli), grid, window=WINDOW)
    times_s = []
    splits: list[list[int]] = []
    for _ in range(7):
        current, splits = None, []
        start_s = time.process_time()
        for step in range(LENGTH):
            answer = planner.plan(SplitOutlook(step, LENGTH - step, current, forecasts[step]))
            current = current if answer is None else answer
            splits.append(grid.milli(current))
        times_s.append(time.process_time() - start_s)
    plain = Plain(len(data.tasks), profile.workloads, profile.shares_milli, profile.seconds)
    start_s = time.process_time()
    for step in PLAIN_STEPS:
        keeps, split, _ = plain.windows(forecasts[step], splits[step - 1], LENGTH - step, WINDOW)
        if (splits[step - 1] if keeps else split) != splits[step]:
            raise SystemExit(f"superstep {step}: ours gives {splits[step]}, the plain rule {split}, keeps: {keeps}")
    return min(times_s), (time.process_time() - start_s) / len(PLAIN_STEPS) * LENGTH


def scenario_plan_ms(tasks: int) -> float:
    """One whole plan over scenarios, the best of several means."""
    from foresail.controllers.supersteps.planner import ShareGrid, SplitOutlook
    from foresail.controllers.supersteps.scenario import Scenario
    from foresail.forecast.runtime.generated import generate_profile
    from foresail.forecast.runtime.spline import SplineRuntime

    names = tuple(f"task-{at}" for at in range(tasks))
    grid = ShareGrid(tasks, total_milli=3000 * tasks)
    planner = Scenario(SplineRuntime(generate_profile(names)).curves(grid.shares_milli), grid)
    rng = np.random.default_rng(1)
    outlooks = []
    for _ in range(20):
        expected = rng.uniform(15, 45, (tasks, planner.horizon))
        drawn = expected + rng.normal(0, 3, (planner.scenarios, *expected.shape)).cumsum(axis=2) / 2
        outlooks.append(SplitOutlook(9, 100, grid.even(), expected, drawn))
    means_s = []
    for _ in range(5):
        start_s = time.process_time()
        for outlook in outlooks:
            planner.plan(outlook)
        means_s.append((time.process_time() - start_s) / len(outlooks))
    return 1000 * min(means_s)
