"""Nodes and pods as tables with the openb columns, and those as CSV or Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from foresail.core.spec import NodeSpec, Workload
from foresail.errors import InputError

_MIB = 2**20


def write_table(path: Path, table: pl.DataFrame) -> None:
    """Write the table as Parquet if the ending says so, as CSV otherwise."""
    # Opened here: what the system refuses is then an ordinary OSError, which polars words in its own way.
    with path.open("wb") as out:
        if path.suffix.lower() == ".parquet":
            table.write_parquet(out)
        else:
            table.write_csv(out)


def node_table(nodes: Sequence[NodeSpec]) -> pl.DataFrame:
    """Nodes as openb columns: sn, cpu_milli, memory_mib, gpu, model."""
    for node in nodes:
        _refuse_unwritable(node.name, node.memory_bytes, (node.labels, node.taints, node.extended, node.max_pods))
    return pl.DataFrame(
        {
            "sn": [node.name for node in nodes],
            "cpu_milli": [node.cpu_milli for node in nodes],
            "memory_mib": [node.memory_bytes // _MIB for node in nodes],
            "gpu": [node.gpu_count for node in nodes],
            "model": [node.gpu_model or None for node in nodes],
        },
        schema={"sn": pl.String, "cpu_milli": pl.Int64, "memory_mib": pl.Int64, "gpu": pl.Int64, "model": pl.String},
    )


def pod_table(workload: Workload) -> pl.DataFrame:
    """Pods as openb columns, and priority, gang, gang_min and owner; limits, weights, work and training if stated."""
    for index, spec in enumerate(workload.specs):
        unwritable = (spec.extended, spec.node_selector, spec.tolerations, spec.labels, spec.namespace != "default")
        _refuse_unwritable(f"spec {index}", spec.memory_bytes, unwritable)
    of = workload.spec_of
    ends = np.isfinite(workload.duration_s)
    created = _time_column(workload.arrival_s)
    deleted = _time_column(np.where(ends, workload.arrival_s + workload.duration_s, 0.0))
    gang_names = [gang.name for gang in workload.gangs]
    gang_least = [gang.min_members for gang in workload.gangs]
    gang_of = pl.Series(workload.gang_of).cast(pl.Int64)
    gang_of = gang_of.set(gang_of < 0, None)

    def by_spec(values: Iterable[int]) -> npt.NDArray[np.int64]:
        return np.fromiter(values, dtype=np.int64, count=len(workload.specs))[of]

    def text_by_spec(values: Iterable[str]) -> pl.Series:
        return pl.Series([value or None for value in values], dtype=pl.String).gather(of)

    return pl.DataFrame(
        {
            "name": pl.Series(workload.names, dtype=pl.String),
            "cpu_milli": by_spec(spec.cpu_milli for spec in workload.specs),
            "memory_mib": by_spec(spec.memory_bytes // _MIB for spec in workload.specs),
            "num_gpu": by_spec(spec.gpu_count for spec in workload.specs),
            "gpu_milli": by_spec(spec.gpu_milli for spec in workload.specs),
            "gpu_spec": text_by_spec("|".join(spec.gpu_models) for spec in workload.specs),
            "qos": pl.repeat("Burstable", len(workload), eager=True),
            "pod_phase": pl.Series(["Running", "Succeeded"]).gather(ends.astype(np.int64)),
            "creation_time": created,
            "deletion_time": deleted.set(pl.Series(~ends), None),
            # As if every pod had been placed at once: lifetime from creation and from start are then the same.
            "scheduled_time": created,
            "priority": workload.priority,
            "gang": pl.Series(gang_names, dtype=pl.String).gather(gang_of),
            "gang_min": pl.Series(gang_least, dtype=pl.Int64).gather(gang_of),
            "owner": text_by_spec(spec.owner for spec in workload.specs),
            **_work_columns(workload),
        }
    )


def _work_columns(workload: Workload) -> dict[str, pl.Series]:
    columns: dict[str, pl.Series] = {}
    if workload.cpu_limit_milli.any():
        columns["cpu_limit_milli"] = pl.Series(workload.cpu_limit_milli)
    if workload.cpu_weight.any():
        columns["cpu_weight"] = pl.Series(workload.cpu_weight)
    if not np.isnan(workload.work_cpu_s).all():
        if np.isinf(workload.work_cpu_s).any():
            raise InputError("a pod has endless work, which no openb column holds; write .yaml instead")
        columns["work_cpu_s"] = pl.Series(workload.work_cpu_s).fill_nan(None)
    if workload.trainings:
        names = pl.Series([training.name for training in workload.trainings], dtype=pl.String)
        training_of = pl.Series(workload.training_of).cast(pl.Int64)
        columns["training"] = names.gather(training_of.set(training_of < 0, None))
    return columns


def _time_column(seconds: npt.NDArray[np.float64]) -> pl.Series:
    """Whole seconds as integers, as the openb files have them; finer times as they are."""
    whole = bool(np.all(seconds == np.floor(seconds)))
    return pl.Series(seconds.astype(np.int64) if whole else seconds)


def _refuse_unwritable(name: str, memory_bytes: int, further: tuple[object, ...]) -> None:
    if memory_bytes % _MIB or any(further):
        raise InputError(
            f"{name} has memory in parts of a MiB or fields that no openb column holds; write .yaml instead"
        )
