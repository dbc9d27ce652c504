"""`scenario` beside every published strategy, by penalty and by length: `python bench/superstep_sweep.py DATA`.

Published strategies have published forecasts; `scenario` has ours, and the published ones in a column of its own. The
program ends with 1 if `scenario` with our forecasts is not below all of them everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from foresail.experiments.supersteps.request import PUBLISHED, JobRequest
from foresail.experiments.supersteps.run import simulate_job
from foresail.experiments.supersteps.source import JobSource, find_source

PENALTIES_S = tuple(range(5, 100, 10))
LENGTHS = (100, 200, 400, 600, 800, 980)
STRATEGIES = (
    ("exppo", None),
    *(("static", window) for window in (1, 2, 3, 4)),
    *(("dynamic-mpc", window) for window in (3, 5, 10)),
    *(("dynamic-window", window) for window in (2, 3, 5)),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One length and one penalty: the best published strategy, and ours."""

    length: int
    penalty_s: float
    best: str
    best_s: float
    scenario_published_s: float
    scenario_s: float


def compare(source: JobSource, request: JobRequest) -> Compared:
    """`request` says length, penalty, seed and the forecast of `scenario`."""

    def total_s(strategy: str, window: int | None, forecast: str) -> float:
        return simulate_job(source, replace(request, strategy=strategy, window=window, forecast=forecast)).run.total_s

    totals = {f"{name} {window or ''}".strip(): total_s(name, window, PUBLISHED) for name, window in STRATEGIES}
    best = min(totals, key=lambda name: totals[name])
    ours = [total_s("scenario", None, forecast) for forecast in (PUBLISHED, request.forecast)]
    return Compared(request.length, request.penalty_s, best, totals[best], *ours)


def sweep(source: JobSource, request: JobRequest, cases: Sequence[tuple[int, float]]) -> Iterator[Compared]:
    """Cases are lengths with penalties."""
    for length, penalty_s in cases:
        yield compare(source, replace(request, length=length, penalty_s=penalty_s))


def main(folder: Path) -> int:
    cases = [(400, float(penalty_s)) for penalty_s in PENALTIES_S] + [(n, 15.0) for n in LENGTHS if n != 400]
    print("| length | penalty s | best published | its seconds | scenario on them | scenario, ensemble | less |")
    print("|--:|--:|---|--:|--:|--:|--:|")
    worse = 0
    for one in sweep(find_source(folder), JobRequest(), cases):
        less = f"{100 * (1 - one.scenario_s / one.best_s):.1f} %"
        seconds = f"{one.best_s:.0f} | {one.scenario_published_s:.0f} | {one.scenario_s:.0f}"
        print(f"| {one.length} | {one.penalty_s:.0f} | `{one.best}` | {seconds} | {less} |", flush=True)
        worse += one.scenario_s >= one.best_s
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
