"""A job as it was on a cluster beside what the simulator says of the same experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foresail.experiments.supersteps.experiment import SuperstepsExperiment, prepare
from foresail.live.supersteps.job import SuperstepRow
from foresail.report.superstep_overlay import DrawnOverlay, write_overlay_page
from foresail.sim.supersteps.job import JobRun, run_job

OVERLAY, PAGE = "overlay.csv", "overlay.html"


@dataclass(frozen=True, eq=False, slots=True)
class Overlay:
    """Supersteps that there are rows of. Arrays are one value a superstep, or supersteps × tasks."""

    experiment: SuperstepsExperiment
    drawn: DrawnOverlay

    @property
    def figures(self) -> dict[str, Any]:
        """How far simulation and cluster are apart, and what changes took."""
        drawn = self.drawn
        real_s, simulated_s, expected_s = drawn.real_s, drawn.simulated_s, drawn.expected_s
        changing_s = drawn.changing_s[drawn.changed]
        return {
            "supersteps": len(real_s),
            "real_s": float(real_s.sum()),
            "simulated_s": float(simulated_s.sum()),
            "difference": float(np.mean(np.abs(simulated_s - real_s) / real_s)),
            "difference_same_split": float(np.mean(np.abs(expected_s - real_s) / real_s)),
            "overhead_s": float(np.mean(drawn.superstep_s - real_s)),
            "changes": int(drawn.changed.sum()),
            "change_mean_s": float(changing_s.mean()) if len(changing_s) else None,
            "resizes": len(drawn.allocated_s),
            "resize_median_s": float(np.median(drawn.allocated_s)) if len(drawn.allocated_s) else None,
            "total_s": float(drawn.superstep_s.sum() + changing_s.sum()),
        }


def simulate_experiment(experiment: SuperstepsExperiment, *, penalty_s: float | None = None) -> JobRun:
    """The experiment in virtual time, with the penalty of the file or one that was measured."""
    prepared = prepare(experiment, penalty_s=penalty_s)
    reckoned_s = experiment.penalty_s if penalty_s is None else penalty_s
    return run_job(prepared.splitter, prepared.curves, prepared.works, penalty_s=reckoned_s)


def overlay_of(experiment: SuperstepsExperiment, rows: Sequence[SuperstepRow]) -> Overlay:
    """Both, superstep by superstep; the simulation reckons with what changes took on the cluster."""
    names = [task.name for task in experiment.tasks]
    took_s = [row.changing_s for row in rows if row.changed]
    measured_s = sum(took_s) / len(took_s) if took_s and experiment.measures_penalty else None
    run = simulate_experiment(experiment, penalty_s=measured_s)
    prepared = prepare(experiment)
    at = [row.step for row in rows]
    cpu_milli = np.array([[row.cpu_milli[name] for name in names] for row in rows], dtype=np.float64)
    works = np.array([[row.workload[name] for name in names] for row in rows])
    units = np.array([prepared.splitter.units([int(milli) for milli in line]) for line in cpu_milli])
    table = prepared.curves.seconds(works)
    expected = np.take_along_axis(table, units[:, :, None], axis=2)[:, :, 0]
    grid = prepared.splitter.grid
    drawn = DrawnOverlay(
        tasks=names,
        steps=np.array(at),
        real_s=np.array([max(row.seconds.values()) for row in rows]),
        superstep_s=np.array([row.superstep_s for row in rows]),
        simulated_s=run.seconds.max(axis=1)[at],
        expected_s=expected.max(axis=1),
        cpu_milli=cpu_milli,
        simulated_cpu_milli=np.array([grid.milli(split) for split in run.splits])[at].astype(np.float64),
        changed=np.array([row.changed for row in rows]),
        changing_s=np.array([row.changing_s for row in rows]),
        allocated_s=np.array(
            [one.allocated_s for row in rows for one in row.resizes if one.allocated_s is not None], dtype=np.float64
        ),
    )
    return Overlay(experiment, drawn)


def write_overlay(overlay: Overlay, out: Path) -> list[Path]:
    """The table and the page; returns what was written."""
    out.mkdir(parents=True, exist_ok=True)
    drawn = overlay.drawn
    lines = ["superstep,real_s,simulated_s,expected_s,superstep_s,changed,changing_s"]
    lines += [
        f"{step},{real:.6f},{simulated:.6f},{expected:.6f},{whole:.6f},{int(changed)},{changing:.6f}"
        for step, real, simulated, expected, whole, changed, changing in zip(
            drawn.steps,
            drawn.real_s,
            drawn.simulated_s,
            drawn.expected_s,
            drawn.superstep_s,
            drawn.changed,
            drawn.changing_s,
            strict=True,
        )
    ]
    (out / OVERLAY).write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_overlay_page(out / PAGE, overlay.experiment.name, overlay.figures, drawn)
    return [out / OVERLAY, out / PAGE]
