"""Where pods are to start at first: as in an earlier run, or as a table says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from foresail.core.journal import What
from foresail.errors import InputError, ResultsError
from foresail.experiments.request import BASELINE
from foresail.results.folder import MANIFEST, Run, read_run


def pins_file(pin_to: str | None) -> str | None:
    """The file that the pins depend on, if they depend on one: the manifest of a results folder hashes the rest."""
    if pin_to is None or pin_to == BASELINE:
        return None
    return pin_to if pin_to.endswith(".csv") else str(Path(pin_to) / MANIFEST)


def read_pins(pin_to: str) -> dict[str, str]:
    """Nodes by pod, from a results folder or a CSV file."""
    if not pin_to.endswith(".csv"):
        return first_nodes(read_run(Path(pin_to)))
    try:
        table = pl.read_csv(pin_to, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        why = str(error).splitlines()[0]
        raise InputError(
            f"cannot be read as CSV ({why}); write a table with the columns pod,node", path=pin_to
        ) from None
    for column in ("pod", "node"):
        if column not in table.columns:
            raise InputError(f'no column "{column}"; the columns are pod,node', path=pin_to, line=1)
    pinned = table.filter(pl.col("node").is_not_null() & pl.col("pod").is_not_null())
    return dict(zip(pinned["pod"].to_list(), pinned["node"].to_list(), strict=True))


def first_nodes(run: Run) -> dict[str, str]:
    """Where each pod of a run started at first."""
    journal = run.columns("journal")
    if journal is not None:
        first: dict[str, str] = {}
        for what, pod, node in zip(journal["what"], journal["pod"], journal["node"], strict=True):
            if what == What.START:
                first.setdefault(str(pod), str(node))
        return first
    pods = run.columns("pods")
    if pods is None:
        raise ResultsError("a run of protocol openb has no times; pin to a run of protocol clock")
    again = [pod for pod, restarts in zip(pods["pod"], pods["restarts"], strict=True) if restarts]
    if again:
        raise ResultsError(
            f"{again[0]} started more than once, and a run without controllers keeps its last node alone; "
            "pin to a run with a controller, which keeps all, or to one without faults and preemption"
        )
    placements: Any = run.columns("placements")
    return {pod: node for pod, node in zip(placements["pod"], placements["node"], strict=True) if node}
