"""The tables that runs leave behind: which there are, and each column's type, unit and meaning.

An open registry: protocols and plug-ins add tables with `register`. Folders are written and read, and the reference
page is printed, from what stands here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from foresail.core.journal import Record

Column = npt.NDArray[Any] | list[str]
"""The values of one column, as a run makes them."""
Columns = dict[str, Column]
"""A table as a run makes it, by column."""

FRAGMENT_CLASSES = (
    "q1_lack_both",
    "q2_lack_gpu",
    "q3_satisfied",
    "q4_lack_cpu",
    "xl_satisfied",
    "xr_lack_cpu",
    "no_access",
)
"""The seven classes that idle GPU milli fall into; all but `q3_satisfied` count as fragments."""

ENDINGS = (".csv", ".parquet")
RESOURCE = "<resource>"
"""Stands in a column's name for an extended resource: one column each."""


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One column of a table."""

    name: str
    dtype: type[pl.DataType]
    unit: str
    """Empty where there is none, as for names."""
    meaning: str
    optional: bool = False
    """Whether only runs have it to which it means something."""

    def describes(self, name: str) -> bool:
        """Whether a column of this name is meant; one for each resource begins alike."""
        stem, is_family, _ = self.name.partition(RESOURCE)
        return name.startswith(stem) and len(name) > len(stem) if is_family else name == self.name


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table of a run."""

    name: str
    file: str
    """Its file in a results folder; the ending says how it is written."""
    rows: str
    """What one row is."""
    columns: tuple[ColumnSpec, ...]
    present: str = "always"
    """Which runs have it, in words."""

    @property
    def is_always_there(self) -> bool:
        return self.present == "always"

    @property
    def schema(self) -> dict[str, type[pl.DataType]]:
        """The types of the columns that every such table has, in order."""
        return {column.name: column.dtype for column in self.columns if not column.optional}

    def spec_of(self, name: str) -> ColumnSpec | None:
        return next((column for column in self.columns if column.describes(name)), None)


def _text(name: str, meaning: str) -> ColumnSpec:
    return ColumnSpec(name, pl.String, "", meaning)


def _whole(name: str, unit: str, meaning: str, *, optional: bool = False) -> ColumnSpec:
    return ColumnSpec(name, pl.Int64, unit, meaning, optional)


def _real(name: str, unit: str, meaning: str, *, optional: bool = False) -> ColumnSpec:
    return ColumnSpec(name, pl.Float64, unit, meaning, optional)


PLACEMENTS = TableSpec(
    "placements",
    "placements.csv",
    "one a pod, in order of decision",
    (
        _whole("order", "", "place in the order of decisions, from 0"),
        _text("pod", "the pod's name"),
        _text("node", "the node it was placed on; empty: not placed"),
        _text("devices", "GPU devices by index, joined with `-` (`0-1-2`); empty: none"),
        _real("time_s", "s", "when it was decided, from the start of the trace; whole seconds without a fraction"),
    ),
)
TIMELINE = TableSpec(
    "timeline",
    "timeline.parquet",
    "one an event (protocol `openb`: an arrival; `clock`: a snapshot; `snapshot`: before and after)",
    (
        _real("time_s", "s", "from the start of the trace"),
        _whole(
            "arrived_gpu_milli",
            "milli-GPU",
            "Σ GPU count × milli per GPU over all pods that have arrived, failed ones included",
        ),
        _whole("used_gpu_milli", "milli-GPU", "allocated now"),
        _whole("used_cpu_milli", "milli-CPU", "allocated now"),
        _whole("used_memory_bytes", "bytes", "allocated now"),
        _whole("idle_gpu_milli", "milli-GPU", "1000 · `total_gpus` − `used_gpu_milli`"),
        _real("fragment_milli", "milli-GPU", "F, below"),
        *(_real(name, "milli-GPU", "idle GPU of this class, below") for name in FRAGMENT_CLASSES),
        _whole("running", "pods", "pods on nodes"),
        _whole("waiting", "pods", "pods that wait for a node"),
        _whole("failed", "pods", "pods that will not be placed any more"),
        _whole("finished", "pods", "pods whose work is done"),
        _real("busy_cpu_milli", "milli-CPU", "what pods really use, where they share CPU", optional=True),
        _whole(
            f"used:{RESOURCE}",
            "units of the resource",
            "extended resource allocated now; one column for each that pods of the trace ask for",
            optional=True,
        ),
    ),
)
NODES = TableSpec(
    "nodes",
    "nodes.parquet",
    "one a node, at the end of the run",
    (
        _text("node", "name"),
        _text("model", "GPU model, empty for a node without GPUs"),
        _whole("cpu_milli", "milli-CPU", "what the node has"),
        _whole("memory_bytes", "bytes", "what the node has"),
        _whole("gpu_count", "devices", "what the node has"),
        _whole("cpu_free_milli", "milli-CPU", "what is not allocated"),
        _whole("memory_free_bytes", "bytes", "what is not allocated"),
        _whole("gpu_free_milli", "milli-GPU", "not allocated, all devices together"),
        _text("gpu_free_milli_by_device", "the same for each device in milli-GPU, joined with `-` (`1000-0-250`)"),
        _whole("pods", "pods", "how many are on the node"),
        _real("cpu_busy_milli", "milli-CPU", "what its pods really use, where they share CPU", optional=True),
        _whole(
            f"has:{RESOURCE}",
            "units of the resource",
            "extended resource of the node; one column for each that pods of the trace ask for",
            optional=True,
        ),
        _whole(f"free:{RESOURCE}", "units of the resource", "how much of it is not allocated", optional=True),
    ),
)
BY_LOAD = TableSpec(
    "by_load",
    "by_load.csv",
    "one a load",
    (
        _real("load", "% of all GPUs", "a"),
        _real(
            "allocation_pct",
            "% of all GPUs",
            "mean of round(`used_gpu_milli` / `total_gpus` / 10, 2), rounded to 2 places",
        ),
        _real("fragmentation_pct", "% of all GPUs", "100 · mean of round(F, 2) / 1000 / `total_gpus`, rounded to 2"),
        _real("fragmentation_ratio_pct", "% of idle GPU", "mean of round(100 · F / `idle_gpu_milli`, 2), not rounded"),
    ),
    present="where load has a meaning (protocol `openb`)",
)
PODS = TableSpec(
    "pods",
    "pods.parquet",
    "one a pod",
    (
        _text("pod", "name"),
        _real("submit_s", "s", "when it came, from the start of the trace"),
        _real("start_s", "s", "when it last got a node; null: never"),
        _real("end_s", "s", "when its work was done; null: it was not"),
        _real("wait_s", "s", "how long it waited, all its waits together"),
        _real("run_s", "s", "how long it ran"),
        _real("slowdown", "", "bounded slowdown, as the protocol states it"),
        _text("outcome", "`finished`, `running`, `waiting` or `failed`"),
        _whole("restarts", "", "how often it had to start again"),
        _text("reason", "why it failed, or with protocol `snapshot` why it fits nowhere; empty otherwise"),
        _real(
            "target_s",
            "s",
            "training jobs: when 90 % of the way from the first to the lowest loss was behind it; null: it was not",
            optional=True,
        ),
    ),
    present="protocols `clock` and `snapshot`",
)
JOURNAL = TableSpec(
    "journal",
    "journal.parquet",
    "one an event, in the order in which they happened",
    (
        _real("time_s", "s", "from the start of the trace"),
        _text(
            "what",
            "`arrive`, `refuse`, `start`, `end`, `evict`, `preempt`, `give_up`, `move`, `moved`, `resize`, `resized`, "
            "`hold`, `release`, `decline`; of nodes `fail`, `repair`, `cordon`, `uncordon`",
        ),
        _text("pod", "whom it happened to; empty for what happens to nodes"),
        _text("node", "where; empty for nowhere"),
        _text("detail", "why, or how much, in words"),
        _text("by", "the controller that asked for it; empty for what schedulers and clusters do of themselves"),
    ),
    present="runs with controllers",
)

JOBS = TableSpec(
    "jobs",
    "jobs.parquet",
    "one a running pod and look, in the order of looks",
    (
        _real("time_s", "s", "when it was looked at, from the start of the trace"),
        _text("job", "the pod's name, or what its job goes by across moves"),
        _text("node", "where it ran"),
        _whole("cpu_milli", "milli-CPU", "what it requested: its weight where pods compete"),
        _whole("cpu_limit_milli", "milli-CPU", "the most it could use, 0 for no limit"),
        _real("cpu_used_milli", "milli-CPU", "what it used"),
        _real("step", "steps", "of its last report; null: it has not reported"),
        _real("total_steps", "steps", "after how many it is done, as it says"),
        _real("loss", "", "of its last report"),
        _real("accuracy", "", "of its last report"),
    ),
    present="runs with training jobs",
)

CANDIDATES = TableSpec(
    "candidates",
    "candidates.parquet",
    "one a move that a controller weighed, in the order in which they were weighed",
    (
        _real("time_s", "s", "when it was weighed, from the start of the trace"),
        _text("by", "the controller"),
        _text("pod", "whom it might move"),
        _text("job", "the pod's name, or what its job goes by across moves"),
        _text("from_node", "where the pod was"),
        _text("to_node", "where it might have gone; empty: no node came into question"),
        _real("gain", "as in `unit`", "what the move would bring, as the controller reckons; null: it does not reckon"),
        _real("cost", "as in `unit`", "what it would take; null: as above"),
        _text("unit", "of gain and cost, such as `s` or `GPU-s`"),
        _text("outcome", "`chosen`: the pod was moved; `kept`: it was not; `declined`: asked for, but not possible"),
        _text("why", "what spoke for it or against it, in words"),
    ),
    present="runs with a controller that tells what it weighs",
)
DISTRIBUTION = TableSpec(
    "distribution",
    "distribution.csv",
    "one a job and turn in which a controller weighed moves of it, in the columns of the published log",
    (
        _real("time", "s", "when, from the start of the trace"),
        _text("job", "the pod's name, or what its job goes by across moves"),
        _text("orginal_node", "where the job was; spelt as published"),
        _text("to_node", "where it was moved; empty: it stayed"),
    ),
    present="runs with a controller that tells what it weighs",
)

REPORTS = TableSpec(
    "reports",
    "reports.parquet",
    "one a row that a trainer wrote, by job and then in the order in which they were written",
    (
        _real("time_s", "s", "when, by the trainer's clock, from the start of the run"),
        _text("job", "who wrote it"),
        _whole("step", "steps", "that are done"),
        _whole("total_steps", "steps", "after how many it is done; 0: it did not say"),
        _real("loss", "", "of this step"),
        _real("accuracy", "", "of this step"),
        _text("note", "empty, `resume`, `checkpoint:ID` or `done`"),
    ),
    present="runs on a cluster",
)
RESIZES = TableSpec(
    "resizes",
    "resizes.parquet",
    "one a resize that a kubelet carried out, in the order in which they were done",
    (
        _real("time_s", "s", "when the pod's spec asked for it, from the start of the run"),
        _text("job", "whose pod"),
        _text("node", "where"),
        _whole("before_milli", "milli-CPU", "what it requested before"),
        _whole("cpu_milli", "milli-CPU", "what it requests now"),
        _real("took_s", "s", "from the request in its spec to the status that says it has it, as a watch saw both"),
    ),
    present="runs on a cluster",
)

_TABLES: dict[str, TableSpec] = {
    table.name: table
    for table in (
        *(PLACEMENTS, TIMELINE, NODES, BY_LOAD, PODS, JOURNAL, JOBS, CANDIDATES, DISTRIBUTION),
        *(REPORTS, RESIZES),
    )
}


def register(table: TableSpec) -> TableSpec:
    """Make a table known; one of another package, registered when that package is imported."""
    if PurePath(table.file).name != table.file or not table.file.endswith(ENDINGS):
        raise ValueError(f'table {table.name}: "{table.file}" is no file name that ends in {" or ".join(ENDINGS)}')
    for other in _TABLES.values():
        if table != other and (table.name == other.name or table.file == other.file):
            raise ValueError(f"table {table.name} in {table.file}: there is table {other.name} in {other.file} already")
    _TABLES[table.name] = table
    return table


def tables() -> list[TableSpec]:
    """Every table, the built-in ones first."""
    return list(_TABLES.values())


def table_named(name: str) -> TableSpec:
    """The table of this name."""
    found = _TABLES.get(name)
    if found is None:
        raise ValueError(
            f'no table "{name}"; there are {", ".join(_TABLES)}; others are registered before they are used'
        )
    return found


def journal_columns(records: Iterable[Record]) -> Columns:
    """The journal as a table; collect it with `journal.listen(records.append)`."""
    time_s, what, pod, node, detail, by = list(zip(*records, strict=True)) or ((),) * len(Record._fields)
    return {
        "time_s": np.array(time_s, dtype=np.float64),
        "what": [str(one) for one in what],
        "pod": list(pod),
        "node": list(node),
        "detail": list(detail),
        "by": list(by),
    }


def to_frame(table: str, columns: Mapping[str, Column]) -> pl.DataFrame:
    """Turn a run's columns into a data frame with the documented order and types.

    Columns beyond those that every such table has are kept behind them, sorted by name. A float that is not a number
    becomes null: "does not apply" has one spelling in every file.
    """
    spec = table_named(table)
    schema = spec.schema
    missing = [name for name in schema if name not in columns]
    if missing:
        raise ValueError(f"table {table} lacks {', '.join(missing)}; it has {', '.join(columns) or 'no columns'}")
    typed = [_typed(table, pl.Series(name, columns[name]), dtype) for name, dtype in schema.items()]
    for name in sorted(columns.keys() - schema.keys()):
        described = spec.spec_of(name)
        values = pl.Series(name, columns[name])
        typed.append(values if described is None else _typed(table, values, described.dtype))
    return pl.DataFrame(typed).with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None))


def _typed(table: str, values: pl.Series, dtype: type[pl.DataType]) -> pl.Series:
    if not len(values):
        return pl.Series(values.name, [], dtype=dtype)
    # A silent cut of 0.5 milli to 0 would make two tables of one run disagree.
    if dtype is pl.Int64 and values.dtype.is_float() and not bool((values == values.round()).all()):
        raise ValueError(f"table {table}, column {values.name}: holds fractions, but is a column of whole numbers")
    return values.cast(dtype)
