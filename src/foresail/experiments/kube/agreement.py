"""How far a simulation is from what happened on the cluster, job by job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich import box
from rich.table import Table

from foresail.experiments.output import csv_bytes
from foresail.experiments.plan import Plan
from foresail.experiments.runner import RUNS, write_whole
from foresail.report.html import write_report
from foresail.results.folder import StoredRun, read_run


@dataclass(frozen=True, slots=True)
class JobAgreement:
    """One job in both worlds."""

    policy: str
    seed: int
    job: str
    simulated_s: float
    """From submission to end."""
    real_s: float

    @property
    def error_pct(self) -> float:
        """By how much the simulation is off, in % of what happened."""
        return 100 * (self.simulated_s / self.real_s - 1)


def agreement_of(plan: Plan, simulated: Path, real: Path) -> list[JobAgreement]:
    """Every job that has ended in both worlds."""
    rows = []
    for planned in plan.runs:
        folders = [root / RUNS / planned.folder for root in (simulated, real)]
        if not all(folder.is_dir() for folder in folders):
            continue
        took = [_completions(read_run(folder)) for folder in folders]
        rows += [
            JobAgreement(planned.policy, planned.seed, job, took[0][job], took[1][job])
            for job in took[0]
            if job in took[1]
        ]
    return rows


def _completions(run: StoredRun) -> dict[str, float]:
    pods = run.frame("pods")
    if pods is None:
        return {}
    took = pods["end_s"] - pods["submit_s"]
    return {job: one for job, one in zip(pods["pod"], took, strict=True) if one is not None and math.isfinite(one)}


def write_agreement(plan: Plan, simulated: Path, real: Path, rows: Sequence[JobAgreement]) -> None:
    """Write `agreement.csv`, one line a job, and `agreement.html`, the report with both worlds overlaid."""
    header = ["policy", "seed", "job", "simulated_s", "real_s", "error_pct"]
    lines = [[one.policy, one.seed, one.job, one.simulated_s, one.real_s, one.error_pct] for one in rows]
    write_whole(simulated / "agreement.csv", csv_bytes(header, lines))
    title = plan.experiment.title or plan.traces[0]
    write_report(
        simulated / "agreement.html",
        _overlaid(plan, simulated, real),
        title=f"{title}: simulated and real",
        agreement=[dict(zip(header, line, strict=True)) for line in lines],
    )


def agreement_table(rows: Sequence[JobAgreement]) -> Table:
    """For the terminal: the errors of each strategy over its jobs."""
    table = Table(
        title="Simulated against real completion",
        header_style="bold",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("")
    for name in ("jobs", "real mean", "simulated mean", "error", "absolute error"):
        table.add_column(name, justify="right")
    for policy in dict.fromkeys(one.policy for one in rows):
        own = [one for one in rows if one.policy == policy]
        table.add_row(
            policy,
            str(len(own)),
            f"{fmean(one.real_s for one in own):.1f} s",
            f"{fmean(one.simulated_s for one in own):.1f} s",
            f"{fmean(one.error_pct for one in own):+.1f} %",
            f"{fmean(abs(one.error_pct) for one in own):.1f} %",
        )
    return table


def _overlaid(plan: Plan, simulated: Path, real: Path) -> list[StoredRun]:
    """The first seed of each strategy in both worlds."""
    runs: list[StoredRun] = []
    for policy in plan.policies:
        planned = next((one for one in plan.runs if one.policy == policy), None)
        if planned is None:
            continue
        paths = [root / RUNS / planned.folder for root in (simulated, real)]
        runs += [read_run(path) for path in paths if path.is_dir()]
    return runs
