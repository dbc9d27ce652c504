"""The tables of a run as typed data frames: which columns each has, in which order and of which type."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from foresail.results.result import FRAGMENT_CLASSES, Column

Schema = dict[str, type[pl.DataType]]

PLACEMENTS: Schema = {
    "order": pl.Int64,
    "pod": pl.String,
    "node": pl.String,
    "devices": pl.String,
    "time_s": pl.Float64,
}
BY_LOAD: Schema = {
    "load": pl.Float64,
    "allocation_pct": pl.Float64,
    "fragmentation_pct": pl.Float64,
    "fragmentation_ratio_pct": pl.Float64,
}
TIMELINE: Schema = {
    "time_s": pl.Float64,
    "arrived_gpu_milli": pl.Int64,
    "used_gpu_milli": pl.Int64,
    "used_cpu_milli": pl.Int64,
    "used_memory_bytes": pl.Int64,
    "idle_gpu_milli": pl.Int64,
    "fragment_milli": pl.Float64,
    **dict.fromkeys(FRAGMENT_CLASSES, pl.Float64),
    "running": pl.Int64,
    "waiting": pl.Int64,
    "failed": pl.Int64,
    "finished": pl.Int64,
}
NODES: Schema = {
    "node": pl.String,
    "model": pl.String,
    "cpu_milli": pl.Int64,
    "memory_bytes": pl.Int64,
    "gpu_count": pl.Int64,
    "cpu_free_milli": pl.Int64,
    "memory_free_bytes": pl.Int64,
    "gpu_free_milli": pl.Int64,
    "gpu_free_milli_by_device": pl.String,
    "pods": pl.Int64,
}
PODS: Schema = {
    "pod": pl.String,
    "submit_s": pl.Float64,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "wait_s": pl.Float64,
    "run_s": pl.Float64,
    "slowdown": pl.Float64,
    "outcome": pl.String,
    "restarts": pl.Int64,
    "reason": pl.String,
}
SCHEMAS: dict[str, Schema] = {
    "placements": PLACEMENTS,
    "timeline": TIMELINE,
    "by_load": BY_LOAD,
    "pods": PODS,
    "nodes": NODES,
}


def to_frame(table: str, columns: Mapping[str, Column]) -> pl.DataFrame:
    """Turn a run's columns into a data frame with the documented order and types.

    Columns beyond the documented ones are kept behind them, sorted by name. A float that is not a number becomes
    null: "does not apply" has one spelling in every file.
    """
    schema = SCHEMAS[table]
    missing = [name for name in schema if name not in columns]
    if missing:
        raise ValueError(f"table {table} lacks {', '.join(missing)}; it has {', '.join(columns) or 'no columns'}")
    typed = [_typed(table, pl.Series(name, columns[name]), dtype) for name, dtype in schema.items()]
    further = [pl.Series(name, columns[name]) for name in sorted(columns) if name not in schema]
    return pl.DataFrame(typed + further).with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None))


def _typed(table: str, values: pl.Series, dtype: type[pl.DataType]) -> pl.Series:
    if not len(values):
        return pl.Series(values.name, [], dtype=dtype)
    # A silent cut of 0.5 milli to 0 would make two tables of one run disagree.
    if dtype is pl.Int64 and values.dtype.is_float() and not bool((values == values.round()).all()):
        raise ValueError(f"table {table}, column {values.name}: holds fractions, but is a column of whole numbers")
    return values.cast(dtype)
