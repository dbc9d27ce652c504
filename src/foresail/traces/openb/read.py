"""Traces in the columns of the public openb GPU-sharing traces, as CSV or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from foresail.core.spec import WHOLE_GPU_MILLI, Gang, NodeSpec, PodSpec, Workload
from foresail.traces.check.checks import Findings, no_such_model, unknown_models
from foresail.traces.tabular import Floats, Ints, Table, read_table
from foresail.traces.training.models import shipped_models

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
NODE_OPTIONAL_COLUMNS = ("rack", "server", "max_pods")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
POD_OPTIONAL_COLUMNS = (
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
    "priority",
    "gang",
    "gang_min",
    "owner",
    "duration_s",
    "cpu_limit_milli",
    "cpu_weight",
    "work_cpu_s",
    "training",
)
LABEL_PREFIX = "label:"
RESOURCE_PREFIX = "resource:"
MOST_GPUS_A_NODE = 1024

_MIB_BYTES = 2**20
_CPU_RULE = "CPU is a whole number of milli-cores, 0 or more"
_MEMORY_RULE = "memory is a whole number of MiB, 0 or more"
_TIME_RULE = "times are seconds from the start of the trace, 0 or more"
_RESOURCE_RULE = "an extended resource is a whole number, 0 or more"


def read_nodes(path: str | Path, *, skip_bad_rows: bool = False) -> tuple[list[NodeSpec], int]:
    """Read a node list; the number says how many bad rows were dropped."""
    findings = Findings(str(path))
    nodes, _ = nodes_with_lines(path, findings)
    if not skip_bad_rows:
        findings.raise_first_error()
    _require_some(len(nodes), findings)
    return nodes, findings.dropped_rows


def read_pods(
    path: str | Path, *, models: frozenset[str] | None = None, skip_bad_rows: bool = False
) -> tuple[Workload, int]:
    """Read a pod list; the number says how many bad rows were dropped.

    With `models` a GPU pod that names only other models is a bad row: it could never be placed.
    """
    findings = Findings(str(path))
    workload, _ = pods_with_lines(path, findings, models)
    if not skip_bad_rows:
        findings.raise_first_error()
    _require_some(len(workload), findings)
    return workload, findings.dropped_rows


def _require_some(count: int, findings: Findings) -> None:
    if not count:
        findings.fail("FS103", f"no row is left after dropping {findings.dropped_rows} bad ones; mend them instead")


def nodes_with_lines(path: str | Path, findings: Findings) -> tuple[list[NodeSpec], Ints]:
    """Read the good rows of a node list and the lines they stand in; the bad ones are in the findings."""
    table = read_table(path, findings)
    table.require(NODE_COLUMNS, NODE_OPTIONAL_COLUMNS, (LABEL_PREFIX, RESOURCE_PREFIX))
    cpu_milli = table.integers("cpu_milli", _CPU_RULE)
    memory_mib = table.integers("memory_mib", _MEMORY_RULE)
    gpu_count = table.integers("gpu", f"a node has 0 to {MOST_GPUS_A_NODE} GPUs", most=MOST_GPUS_A_NODE)
    max_pods = table.integers("max_pods", "a node takes 0 (no limit) or more pods", default=0)
    model = table.text("model")
    labels: dict[str, pl.Series] = {name: table.text(name) for name in ("rack", "server")}
    labels |= {column.removeprefix(LABEL_PREFIX): table.text(column) for column in _prefixed(table, LABEL_PREFIX)}
    resources = _resources(table)
    names = table.names("sn")
    rows = table.good_rows()
    nodes = [
        NodeSpec(
            name=names[row],
            cpu_milli=int(cpu_milli[row]),
            memory_bytes=int(memory_mib[row]) * _MIB_BYTES,
            gpu_count=int(gpu_count[row]),
            gpu_model=model[row],
            max_pods=int(max_pods[row]),
            labels=tuple((key, values[row]) for key, values in labels.items() if values[row]),
            extended=tuple((name, int(amounts[row])) for name, amounts in resources.items() if amounts[row]),
        )
        for row in rows.tolist()
    ]
    return nodes, table.lines[rows]


def pods_with_lines(
    path: str | Path, findings: Findings, models: frozenset[str] | None = None
) -> tuple[Workload, Ints]:
    """Read the good rows of a pod list and the lines they stand in; the bad ones are in the findings."""
    table = read_table(path, findings)
    table.require(POD_COLUMNS, POD_OPTIONAL_COLUMNS, (RESOURCE_PREFIX,))
    requests = {
        "cpu_milli": table.integers("cpu_milli", _CPU_RULE),
        "memory_mib": table.integers("memory_mib", _MEMORY_RULE),
        "num_gpu": table.integers("num_gpu", "a pod asks for 0 or more GPUs"),
    }
    requests["gpu_milli"] = _gpu_milli(table, requests["num_gpu"])
    texts = {"gpu_spec": table.text("gpu_spec"), "owner": table.text("owner")}
    _refuse_unknown_models(table, texts["gpu_spec"], requests["num_gpu"], models)
    resources = _resources(table)
    arrival_s, duration_s = _times(table)
    priority = table.integers("priority", "a priority is a whole number", default=0, least=-(2**31), most=2**31 - 1)
    gang, gang_min = _gang_columns(table)
    limit_milli = _limits(table, requests["cpu_milli"])
    weight = table.seconds("cpu_weight", "a weight is a number, 0 or more; empty or 0 for what the pod requests")
    work_cpu_s = table.seconds("work_cpu_s", "work is in CPU-seconds, 0 or more; empty if it is not known")
    training = _training(table)
    names = table.names("name")

    rows = table.good_rows()
    keys = pl.DataFrame(
        {**requests, **texts, **{RESOURCE_PREFIX + name: amounts for name, amounts in resources.items()}}
    )
    specs, spec_of = _specs(keys[rows], list(resources))
    gangs, gang_of = _gangs(gang[rows], gang_min[rows])
    more: dict[str, Any] = {"work_cpu_s": work_cpu_s[rows]}
    if training is not None:
        found = shipped_models().resolve(training[rows].to_list(), work_cpu_s[rows], duration_s[rows])
        more = dict(zip(("trainings", "training_of", "work_cpu_s"), found, strict=True))
    workload = Workload(
        names=names[rows].to_list(),
        specs=specs,
        spec_of=spec_of,
        arrival_s=arrival_s[rows],
        duration_s=duration_s[rows],
        priority=priority[rows],
        gang_of=gang_of,
        gangs=gangs,
        cpu_limit_milli=limit_milli[rows],
        cpu_weight=np.nan_to_num(weight[rows], nan=0.0),
        **more,
    )
    return workload, table.lines[rows]


def _prefixed(table: Table, prefix: str) -> list[str]:
    return [column for column in table.columns if column.startswith(prefix) and len(column) > len(prefix)]


def _resources(table: Table) -> dict[str, Ints]:
    return {
        column.removeprefix(RESOURCE_PREFIX): table.integers(column, _RESOURCE_RULE, default=0)
        for column in _prefixed(table, RESOURCE_PREFIX)
    }


def _gpu_milli(table: Table, num_gpu: Ints) -> Ints:
    """The milli-GPU on each device; 0 for pods without GPUs, whatever the cell says."""
    gpu_milli = table.integers("gpu_milli", f"a GPU share is 0 to {WHOLE_GPU_MILLI} milli")
    judged = (num_gpu > 0) & ~table.bad
    table.refuse(
        "FS207",
        (gpu_milli > WHOLE_GPU_MILLI) & ~table.bad,
        lambda row: f'gpu_milli is "{gpu_milli[row]}"; it is per GPU, and one GPU is {WHOLE_GPU_MILLI} milli',
    )
    table.refuse(
        "FS208",
        judged & (gpu_milli == 0),
        lambda row: f"gpu_milli is 0 but num_gpu is {num_gpu[row]}; write {WHOLE_GPU_MILLI} for whole GPUs",
    )
    table.refuse(
        "FS209",
        judged & (num_gpu > 1) & (gpu_milli > 0) & (gpu_milli < WHOLE_GPU_MILLI),
        lambda row: (
            f"gpu_milli is {gpu_milli[row]} but num_gpu is {num_gpu[row]}; "
            f"several GPUs are whole ones: write {WHOLE_GPU_MILLI}"
        ),
    )
    table.warn(
        "FS212",
        (num_gpu == 0) & (gpu_milli > 0) & ~table.bad,
        lambda row: f"gpu_milli is {gpu_milli[row]} but num_gpu is 0; read as a pod without GPU",
    )
    return np.where(num_gpu > 0, gpu_milli, 0)


def _limits(table: Table, cpu_milli: Ints) -> Ints:
    limit_milli = table.integers("cpu_limit_milli", f"{_CPU_RULE}; empty or 0 for no limit", default=0)
    table.refuse(
        "FS214",
        (limit_milli > 0) & (limit_milli < cpu_milli) & ~table.bad,
        lambda row: (
            f"cpu_limit_milli is {limit_milli[row]}, below the {cpu_milli[row]} of cpu_milli; a limit is no less"
        ),
    )
    return limit_milli


def _training(table: Table) -> pl.Series | None:
    """The model that each pod trains, empty for none; None where no pod trains anything."""
    if "training" not in table.columns:
        return None
    training, models = table.text("training"), shipped_models()
    unknown = [name for name in training.unique().to_list() if name and models.find(name) is None]
    table.refuse("FS215", training.is_in(unknown).to_numpy(), lambda row: models.unknown(training[row]))
    return training


def _refuse_unknown_models(table: Table, gpu_spec: pl.Series, num_gpu: Ints, models: frozenset[str] | None) -> None:
    if models is None:
        return
    hopeless = [text for text in gpu_spec.unique().to_list() if unknown_models(_models(text), models)]
    table.refuse(
        "FS211",
        gpu_spec.is_in(hopeless).to_numpy() & (num_gpu > 0),
        lambda row: no_such_model(gpu_spec[row], models),
    )


def _models(gpu_spec: str) -> tuple[str, ...]:
    """The allowed models in the order of the trace; a model that stands twice stays twice."""
    return tuple(model.strip() for model in gpu_spec.split("|") if model.strip())


def _times(table: Table) -> tuple[Floats, Floats]:
    created_s = table.seconds("creation_time", _TIME_RULE)
    deleted_s = table.seconds("deletion_time", _TIME_RULE)
    scheduled_s = table.seconds("scheduled_time", _TIME_RULE)
    stated_s = table.seconds("duration_s", "a duration is in seconds, 0 or more; empty if unknown")
    for column, began_s in (("creation_time", created_s), ("scheduled_time", scheduled_s)):
        table.refuse(
            "FS210",
            (deleted_s < began_s) & ~table.bad,
            lambda row, column=column, began_s=began_s: (  # type: ignore[misc]  # defaults bind the loop's values
                f"deletion_time is {deleted_s[row]:.15g}, before {column} {began_s[row]:.15g}; "
                "leave it empty for a pod that never ended"
            ),
        )
    arrival_s = np.nan_to_num(created_s, nan=0.0)
    began_s = np.where(np.isnan(scheduled_s), arrival_s, scheduled_s)
    lived_s = np.where(np.isnan(deleted_s), np.inf, deleted_s - began_s)
    return arrival_s, np.where(np.isnan(stated_s), lived_s, stated_s)


def _gang_columns(table: Table) -> tuple[pl.Series, Ints]:
    """The gang of each row (empty: none) and its stated size (0: all members), of which a gang has one."""
    gang = table.text("gang")
    gang_min = table.integers(
        "gang_min", "a gang waits for 1 or more of its pods; leave it empty for all", default=0, least=0
    )
    stated = (gang_min > 0) & ~table.bad
    if not stated.any():
        return gang, gang_min
    alone = stated & (gang == "").to_numpy()
    table.refuse("FS213", alone, lambda row: f"gang_min is {gang_min[row]} but the pod is in no gang; name its gang")
    rows = pl.DataFrame({"gang": gang, "min": gang_min, "row": np.arange(len(table))}).filter(pl.Series(stated))
    first_row = rows.select(pl.col("row").first().over("gang"))["row"].to_numpy()
    above = np.arange(len(table))
    above[stated] = first_row
    table.refuse(
        "FS213",
        stated & ~alone & (gang_min != gang_min[above]),
        lambda row: (
            f"gang_min is {gang_min[row]} but line {table.lines[above[row]]} says {gang_min[above[row]]} "
            f'for gang "{gang[row]}"; write one size'
        ),
    )
    return gang, gang_min


def _specs(keys: pl.DataFrame, resources: list[str]) -> tuple[list[PodSpec], Ints]:
    """One spec for each distinct request, in order of first appearance, and the spec of each row."""
    distinct = keys.unique(maintain_order=True).with_row_index("spec")
    spec_of = keys.join(distinct, on=keys.columns, how="left", maintain_order="left")["spec"]
    specs = [
        PodSpec(
            cpu_milli=request["cpu_milli"],
            memory_bytes=request["memory_mib"] * _MIB_BYTES,
            gpu_count=request["num_gpu"],
            gpu_milli=request["gpu_milli"],
            gpu_models=_models(request["gpu_spec"]),
            owner=request["owner"],
            extended=tuple(
                (name, request[RESOURCE_PREFIX + name]) for name in resources if request[RESOURCE_PREFIX + name]
            ),
        )
        for request in distinct.iter_rows(named=True)
    ]
    return specs, spec_of.cast(pl.Int64).to_numpy()


def _gangs(gang: pl.Series, gang_min: Ints) -> tuple[list[Gang], Ints]:
    rows = pl.DataFrame({"gang": gang, "min": gang_min})
    members = (
        rows.filter(pl.col("gang") != "")
        .group_by("gang", maintain_order=True)
        .agg(pl.col("min").max(), pl.len().alias("rows"))
        .with_row_index("code")
    )
    codes = rows.join(members.select("gang", "code"), on="gang", how="left", maintain_order="left")["code"]
    gangs = [Gang(name, stated or count) for name, stated, count in members.select("gang", "min", "rows").iter_rows()]
    return gangs, codes.cast(pl.Int64).fill_null(-1).to_numpy()
