"""Protocol openb against the published results (all digits) and against committed tables of a generated trace."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from foresail.core.spec import NodeSpec, PodSpec, Workload
from foresail.errors import InputError
from foresail.forecast.fragmentation import TypicalPods
from foresail.policies.profiles.load import load_profile
from foresail.results.result import RunResult
from foresail.sim.protocols.openb import run_openb
from foresail.traces.generate.generate import GenerateSettings, generate
from foresail.traces.trace import Trace, load

PUBLISHED = {
    "fgd": "FGD",
    "best-fit": "BestFit",
    "dot-product": "DotProd",
    "gpu-packing": "GpuPacking",
    "gpu-clustering": "GpuClustering",
}
TRACES = (
    "default",
    "cpu050",
    "cpu200",
    "gpushare40",
    "gpushare100",
    "gpuspec10",
    "gpuspec33",
    "multigpu20",
    "multigpu50",
)
METRICS = {
    "allocation_pct": "allocation_by_load",
    "fragmentation_pct": "fragmentation_by_load",
    "fragmentation_ratio_pct": "fragmentation_ratio_by_load",
}
OWN_TABLES = Path(__file__).parent / "expected"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def openb_trace(folder: Path, name: str) -> Trace:
    return load(folder / "openb_node_list_gpu_node.csv", folder / f"openb_pod_list_{name}.csv")


@pytest.fixture(scope="module")
def expected_by_load(openb_expected: Path) -> dict[tuple[str, str, str, int], list[float]]:
    tables = {}
    for metric, file in METRICS.items():
        for row in rows_of(openb_expected / f"{file}.csv"):
            trace, policy = row["workload"].removeprefix("openb_pod_list_"), row["sc_policy"].partition("-")[2]
            tables[metric, trace, policy, int(row["seed"])] = [float(row[str(load)]) for load in range(131)]
    return tables


@pytest.mark.parametrize("policy", PUBLISHED)
@pytest.mark.parametrize("name", TRACES)
def test_every_published_run_comes_out_the_same_in_every_digit(
    openb_csv, openb_expected, expected_by_load, name, policy
):
    trace = openb_trace(openb_csv, name)
    published = {
        int(row["seed"]): row
        for row in rows_of(openb_expected / "runs.csv")
        if (row["trace"], row["policy"]) == (name, PUBLISHED[policy])
    }
    assert sorted(published) == [42, 43, 44, 45, 46]
    for seed, row in published.items():
        result = run_openb(trace, load_profile(policy), load=1.3, seed=seed)
        assert result.by_load is not None
        for metric in METRICS:
            assert list(result.by_load[metric]) == expected_by_load[metric, name, PUBLISHED[policy], seed]
        summary = result.summary
        found = (summary["pods"], summary["failed_pods"], summary["arrived_gpu_milli"], summary["used_gpu_milli"])
        columns = ("pods_after_tuning", "failed_pods", "arrived_gpu_milli", "used_gpu_milli")
        assert found == tuple(int(row[column]) for column in columns)
        assert summary["fragment_milli"] == float(row["frag_gpu_milli"])
        assert summary["fragment_classes_milli"] == {key: float(row[key]) for key in summary["fragment_classes_milli"]}


@pytest.mark.parametrize("policy", PUBLISHED)
def test_every_pod_goes_to_its_published_node(openb_csv, openb_expected, policy):
    result = run_openb(openb_trace(openb_csv, "default"), load_profile(policy), load=1.3, seed=42)
    published = rows_of(openb_expected / "placements_default_seed42.csv")
    assert result.placements["pod"] == [row["pod"] for row in published]
    assert result.placements["node"] == [row[f"node_{PUBLISHED[policy]}"] for row in published]


def test_typical_pods_are_the_published_ones(openb_csv, openb_expected):
    for path in sorted((openb_expected / "typical_pods").glob("*.csv")):
        typical = TypicalPods.of(openb_trace(openb_csv, path.stem).workload, [""])
        published = rows_of(path)
        assert typical.cpu_milli.tolist() == [int(row["cpu_milli"]) for row in published]
        assert typical.gpu_milli.tolist() == [int(row["gpu_milli_each"]) for row in published]
        assert typical.gpu_count.tolist() == [int(row["num_gpu"]) for row in published]
        assert typical.gpu_spec == [row["gpu_spec"] for row in published]
        assert typical.share == pytest.approx([float(row["freq"]) for row in published], rel=1e-12)


def test_random_placement_is_as_good_as_the_published_one_on_average(openb_csv, expected_by_load):
    trace = openb_trace(openb_csv, "default")
    runs = [run_openb(trace, load_profile("random"), load=1.3, seed=seed) for seed in range(42, 52)]
    assert np.mean([run.summary["at_load"]["130"]["allocation_pct"] for run in runs]) == pytest.approx(87.47, abs=0.4)
    published = [expected_by_load["allocation_pct", "default", "Random", seed][100] for seed in range(42, 47)]
    found = [run.summary["at_load"]["100"]["allocation_pct"] for run in runs]
    assert np.mean(found) == pytest.approx(np.mean(published), abs=0.4)


# --- without the public data: a generated trace, and tables that this file wrote -------------------------------------


def generated() -> Trace:
    nodes, workload = generate(GenerateSettings(nodes=40, pods=500, seed=7))
    return Trace("generated", nodes, workload)


def own_row(policy: str, seed: int, result: RunResult) -> list[dict[str, str]]:
    assert result.by_load is not None
    columns = [result.by_load[name] for name in ("load", *METRICS)]
    return [
        {"policy": policy, "seed": str(seed)} | dict(zip(("load", *METRICS), map(str, values), strict=True))
        for values in zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    ]


def places_of(result: RunResult) -> list[str]:
    places = result.placements
    return [f"{node}/{devices}" for node, devices in zip(places["node"], places["devices"], strict=True)]


@pytest.mark.parametrize("policy", PUBLISHED)
@pytest.mark.parametrize("seed", [42, 43])
def test_a_generated_trace_gives_the_committed_tables(policy, seed):
    result = run_openb(generated(), load_profile(policy), load=1.3, seed=seed)
    committed = [
        row for row in rows_of(OWN_TABLES / "by_load.csv") if (row["policy"], row["seed"]) == (policy, str(seed))
    ]
    assert own_row(policy, seed, result) == committed
    placed = [row[policy] for row in rows_of(OWN_TABLES / f"placements_seed{seed}.csv")]
    assert places_of(result) == placed


def write_own_tables() -> None:
    """Write the committed tables anew: python -c "import test_openb; test_openb.write_own_tables()" in this folder."""
    OWN_TABLES.mkdir(exist_ok=True)
    by_load: list[dict[str, str]] = []
    for seed in (42, 43):
        placements: dict[str, list[str]] = {}
        for policy in PUBLISHED:
            result = run_openb(generated(), load_profile(policy), load=1.3, seed=seed)
            by_load += own_row(policy, seed, result)
            placements["pod"] = list(result.placements["pod"])
            placements[policy] = places_of(result)
        write_csv(OWN_TABLES / f"placements_seed{seed}.csv", list(placements), zip(*placements.values(), strict=True))
    write_csv(OWN_TABLES / "by_load.csv", list(by_load[0]), (row.values() for row in by_load))


def write_csv(path: Path, header: list[str], rows) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


# --- the rules of the protocol ----------------------------------------------------------------------------------------


def small(nodes: list[NodeSpec], asks: list[PodSpec]) -> Trace:
    names = [f"pod-{index:02d}" for index in range(len(asks))]
    return Trace("small", nodes, Workload(names, asks, np.arange(len(asks))))


def test_a_pod_that_fits_nowhere_is_dropped_and_counted_by_reason():
    trace = small([NodeSpec("a", 4000, 1 << 30, 1, "T4")], [PodSpec(5000, 0, 1, 1000), PodSpec(1000, 0, 1, 1000)])
    result = run_openb(trace, load_profile("fgd"), load=2.0, seed=1)
    assert sorted(result.placements["node"]) == ["", "a"]
    assert result.summary["failed_by_reason"] == {"have too little cpu": 1}


def test_a_trace_without_gpus_is_refused_with_the_way_out():
    trace = small([NodeSpec("a", 4000, 1 << 30)], [PodSpec(1000)])
    with pytest.raises(InputError, match="--protocol clock"):
        run_openb(trace, load_profile("fgd"))
    trace = small([NodeSpec("a", 4000, 1 << 30, 1, "T4")], [PodSpec(1000)])
    with pytest.raises(InputError, match="no pod asks for a GPU"):
        run_openb(trace, load_profile("fgd"))


def test_progress_ends_at_the_number_of_arrivals():
    told: list[tuple[int, int]] = []
    result = run_openb(generated(), load_profile("fgd"), on_progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (result.summary["pods"], result.summary["pods"])
