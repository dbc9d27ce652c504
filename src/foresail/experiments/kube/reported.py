"""What the trainers of a run wrote of their progress, as a table, and what their moves cost them in steps."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from foresail.results.tables import Columns

RESUME, DONE = "resume", "done"


class TrainerRow(NamedTuple):
    """One row of a job's file."""

    time_s: float
    """Since 1970."""
    job: str
    step: int
    total: int
    loss: float
    accuracy: float
    note: str


def rows_below(folder: Path | None) -> list[TrainerRow]:
    """All rows of all jobs, by job and then in the order in which they were written; a damaged row is left out."""
    rows = []
    for path in sorted(folder.glob("*/progress.csv")) if folder is not None else ():
        with path.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                try:
                    total = int(row["total"] or 0)
                    loss, accuracy = (float(row[name] or math.nan) for name in ("loss", "accuracy"))
                    rows.append(
                        TrainerRow(
                            float(row["time"]), path.parent.name, int(row["step"]), total, loss, accuracy, row["note"]
                        )
                    )
                except (KeyError, TypeError, ValueError):
                    continue
    return rows


def steps_lost(rows: Iterable[TrainerRow]) -> dict[str, list[int]]:
    """By job, of each time that it went on: how many steps it had reported and had to do again."""
    lost: dict[str, list[int]] = {}
    last: dict[str, TrainerRow] = {}
    for row in rows:
        before = last.get(row.job)
        # A Deployment may start a trainer once more that is done.
        if row.note == RESUME and before is not None and before.note != DONE:
            lost.setdefault(row.job, []).append(max(0, before.step - row.step))
        last[row.job] = row
    return lost


def report_columns(rows: list[TrainerRow], begun_s: float) -> Columns:
    """As the table `reports`; `begun_s` is when the run began, since 1970."""
    return {
        "time_s": np.array([row.time_s - begun_s for row in rows], dtype=np.float64),
        "job": [row.job for row in rows],
        "step": np.array([row.step for row in rows], dtype=np.int64),
        "total_steps": np.array([row.total for row in rows], dtype=np.int64),
        "loss": np.array([row.loss for row in rows], dtype=np.float64),
        "accuracy": np.array([row.accuracy for row in rows], dtype=np.float64),
        "note": [row.note for row in rows],
    }
