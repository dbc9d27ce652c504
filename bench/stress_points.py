"""How many points a profile needs: adaptive sampling, chance and regular grids, with the published profile as machine.

`python bench/stress_points.py --data DIR` prints, for so many points of a task, how far seconds are off at the
published points that were not shown, on average over the eight tasks, as a part of them. The last line is what the
whole grid tells of itself, one workload or one amount of CPU left out at a time.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from foresail.forecast.runtime.profile import RuntimeProfile
    from foresail.measure.stress.grid import StressGrid, StressPoint

SHOWN = (5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35, 38, 44, 50, 56)
GRIDS = ((4, 4), (4, 5), (5, 5), (5, 6), (6, 6), (6, 8), (7, 8))
SEEDS = range(1, 11)


def off_elsewhere(profile: RuntimeProfile, grid: StressGrid, shown: set[StressPoint]) -> float:
    """The mean error of the model where it was shown nothing."""
    from foresail.measure.stress.adaptive import fit_points

    known = dict(zip(grid.points, profile.seconds.ravel().tolist(), strict=True))
    told = fit_points(grid, {point: [known[point]] for point in shown}).profile().seconds.ravel()
    others = np.array([point not in shown for point in grid.points])
    return float(np.abs(told / profile.seconds.ravel() - 1)[others].mean())


def adaptive(profile: RuntimeProfile, grid: StressGrid) -> dict[int, float]:
    """Error by points of a task."""
    from foresail.measure.stress.adaptive import AdaptiveSampling

    known = dict(zip(grid.points, profile.seconds.ravel().tolist(), strict=True))
    sampling, measured, found = AdaptiveSampling(grid, 0.0, max(SHOWN)), {}, {}
    while following := sampling.choose(measured).points:
        measured |= {point: [known[point]] for point in following}
        found[len(measured) // len(grid.tasks)] = off_elsewhere(profile, grid, set(measured))
    return found


def by_chance(profile: RuntimeProfile, grid: StressGrid, count: int) -> float:
    """The mean over seeds of the error with so many points of each task, drawn by chance."""
    errors = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        shown = {
            grid.of(task)[at]
            for task in grid.tasks
            for at in random.choice(len(grid.of(task)), count, replace=False).tolist()
        }
        errors.append(off_elsewhere(profile, grid, shown))
    return float(np.mean(errors))


def regular(profile: RuntimeProfile, workloads: int, shares: int) -> float:
    """The error of the monotone model of a smaller grid, at equal distances, at all points that are not in it."""
    from foresail.forecast.runtime.monotone import MonotoneRuntime
    from foresail.forecast.runtime.profile import RuntimeProfile

    at_workloads = np.linspace(0, len(profile.workloads) - 1, workloads).round().astype(int)
    at_shares = np.linspace(0, len(profile.shares_milli) - 1, shares).round().astype(int)
    seconds = profile.seconds[:, at_workloads][:, :, at_shares]
    part = RuntimeProfile(profile.tasks, profile.workloads[at_workloads], profile.shares_milli[at_shares], seconds)
    rows = np.repeat(profile.workloads[:, None], len(profile.tasks), axis=1)
    told = np.swapaxes(MonotoneRuntime(part).curves(profile.shares_milli).seconds(rows), 0, 1)
    others = np.ones(profile.seconds.shape[1:], dtype=bool)
    others[np.ix_(at_workloads, at_shares)] = False
    return float(np.abs(told / profile.seconds - 1)[:, others].mean())


def main() -> None:
    """Print the table."""
    from foresail.forecast.runtime.monotone import MonotoneRuntime, held_out_errors
    from foresail.forecast.runtime.profile import read_profile
    from foresail.measure.stress.grid import StressGrid

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, required=True, help="folder with workload_profiling.csv")
    profile = read_profile(options.parse_args().data / "workload_profiling.csv")
    grid = StressGrid(profile.tasks, tuple(profile.workloads), tuple(int(share) for share in profile.shares_milli))
    chosen = adaptive(profile, grid)
    print("| points of a task | adaptive | by chance |")
    print("|---|---|---|")
    for count in SHOWN:
        print(f"| {count} | {chosen[count]:.2%} | {by_chance(profile, grid, count):.2%} |")
    print()
    print("| regular grid | points of a task | off by |")
    print("|---|---|---|")
    for workloads, shares in GRIDS:
        off = regular(profile, workloads, shares)
        print(f"| {workloads} workloads × {shares} limits | {workloads * shares} | {off:.2%} |")
    whole = np.mean([one.mean for one in held_out_errors(profile, MonotoneRuntime)])
    print(f"| all, one value left out | {profile.seconds[0].size} | {whole:.2%} |")
    enough = min(count for count, off in chosen.items() if off <= whole)
    print(f"\n{enough} adaptive points of a task are as good, {profile.seconds[0].size / enough:.1f} times fewer.")


if __name__ == "__main__":
    main()
