"""Simulated jobs as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

_ASKED = ("strategy", "window", "forecast", "start", "length", "penalty_s", "grid_milli", "tasks", "seed")
"""What is shown of a request: the first three always, the others where rows differ."""
_ALWAYS = 3


def jobs_table(figures: Sequence[Mapping[str, Any]]) -> Table:
    """A row a job: what was asked for where rows differ, then where time went."""
    shown = [key for at, key in enumerate(_ASKED) if at < _ALWAYS or len({one[key] for one in figures}) > 1]
    table = Table(
        title=f"bulk-synchronous jobs on {figures[0]['data']}", caption="seconds; work and waiting: mean task"
    )
    for key in shown:
        table.add_column(key.removesuffix("_s").removesuffix("_milli"), no_wrap=True)
    for name in ("total", "work", "waiting", "changing", "changes"):
        table.add_column(name, justify="right", no_wrap=True, min_width=max(6, len(name)))
    for one in figures:
        times = (f"{one[key]:.0f}" for key in ("total_s", "work_s", "waiting_s", "reconfiguration_s"))
        asked = (
            "–" if one[key] is None else f"{one[key]:g}" if isinstance(one[key], float) else str(one[key])
            for key in shown
        )
        table.add_row(*asked, *times, str(one["reconfigurations"]))
    return table
