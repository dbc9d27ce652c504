"""What a finished run knows: the tables that the results folder, the report and the comparison are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from foresail.results.tables import Column, Columns, to_frame


@dataclass(slots=True)
class RunResult:
    """One policy over one trace with one seed."""

    protocol: str
    policy: str
    trace: str
    seed: int
    load: float | None
    total_gpus: int
    tables: dict[str, Columns]
    """By name, as `foresail.results.tables` describes them; a table that means nothing to the run is not there."""
    summary: dict[str, Any]
    """The figures of the run, ready for JSON."""
    profile: dict[str, Any] = field(default_factory=dict)
    controllers: tuple[str, ...] = ()
    """What changed pods while they ran, by the names that the journal has."""

    @property
    def placements(self) -> Columns:
        return self.tables["placements"]

    @property
    def timeline(self) -> Columns:
        return self.tables["timeline"]

    @property
    def nodes(self) -> Columns:
        return self.tables["nodes"]

    @property
    def by_load(self) -> Columns | None:
        return self.tables.get("by_load")

    @property
    def pods(self) -> Columns | None:
        return self.tables.get("pods")

    def columns(self, table: str) -> Mapping[str, Column] | None:
        """The columns of one table as arrays; None where the run has no such table."""
        return self.tables.get(table)

    def frame(self, table: str) -> pl.DataFrame | None:
        """One table with its documented types; None where the run has no such table."""
        columns = self.tables.get(table)
        return None if columns is None else to_frame(table, columns)
