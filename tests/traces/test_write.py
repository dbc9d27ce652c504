from __future__ import annotations

import csv
import hashlib
from dataclasses import replace

import numpy as np
import pytest
from tests.traces.workloads import assert_equal

from foresail.core.spec import NodeSpec, PodSpec, Training, Workload
from foresail.errors import InputError
from foresail.testing import make_workload
from foresail.traces.generate.generate import GenerateSettings, generate
from foresail.traces.trace import check, load
from foresail.traces.training.models import shipped_models
from foresail.traces.write import write


def make(**options):
    return generate(GenerateSettings(**options))


@pytest.mark.parametrize("ending", ["csv", "parquet", "yaml", "json", "jsonl", "ndjson", "CSV"])
@pytest.mark.parametrize("time_step_s", [1.0, 0.125])
def test_written_files_are_read_back_equal(tmp_path, ending, time_step_s):
    nodes, workload = make(
        nodes=30, pods=150, gangs=0.3, gang_min=0.5, spec_share=0.5, replica_sets=5, priorities=((0, 1), (5, 1)),
        time_step_s=time_step_s,
    )  # fmt: skip
    nodes_path, pods_path = tmp_path / f"nodes.{ending}", tmp_path / f"pods.{ending}"
    write(nodes_path, pods_path, nodes, workload)
    again = load(nodes_path, pods_path)
    assert (again.nodes, again.dropped_rows) == (nodes, 0)
    assert_equal(again.workload, workload)
    assert sorted(path.name for path in tmp_path.iterdir()) == [nodes_path.name, pods_path.name]


@pytest.mark.parametrize("ending", ["csv", "parquet", "yaml"])
def test_limits_weights_and_work_are_read_back(tmp_path, ending):
    workload = make_workload(
        {
            "limited": {"cpu_milli": 500, "cpu_limit_milli": 1500, "duration_s": 5.0},
            "weighty": {"cpu_milli": 500, "cpu_weight": 0.25, "work_cpu_s": 1 / 3},
            "plain": {"cpu_milli": 500},
        }
    )
    paths = tmp_path / f"nodes.{ending}", tmp_path / f"pods.{ending}"
    write(*paths, [NodeSpec("a", 4000, 2**30)], workload)
    assert_equal(load(*paths).workload, workload)


@pytest.mark.parametrize("ending", ["csv", "parquet", "yaml"])
def test_trainings_are_read_back(tmp_path, ending):
    trainings = {name: shipped_models().find(name).training for name in ("vae", "birnn")}
    workload = make_workload(
        {
            "plain": {"cpu_milli": 500, "duration_s": 1.0},
            "one": {"cpu_milli": 500, "training": trainings["vae"], "work_cpu_s": 7.0},
            "two": {"cpu_milli": 500, "training": trainings["birnn"], "duration_s": 9.0},
            "three": {"cpu_milli": 500, "training": trainings["vae"], "work_cpu_s": 2.0},
        }
    )
    paths = tmp_path / f"nodes.{ending}", tmp_path / f"pods.{ending}"
    write(*paths, [NodeSpec("a", 4000, 2**30)], workload)
    assert_equal(load(*paths).workload, workload)
    assert not any(finding.severity == "error" for finding in check(*paths))


def test_a_training_that_no_file_can_name_is_refused(tmp_path):
    known = shipped_models().find("vae").training
    for training in (Training("mine", 10, 1), replace(known, steps=known.steps + 1)):
        workload = make_workload({"one": {"cpu_milli": 500, "training": training, "work_cpu_s": 7.0}})
        with pytest.raises(InputError, match=rf'a pod trains "{training.name}", which is none of the models'):
            write(tmp_path / "n.yaml", tmp_path / "p.yaml", [NodeSpec("a", 4000, 2**30)], workload)


def test_endless_work_has_no_column(tmp_path):
    workload = make_workload({"service": {"cpu_milli": 500, "work_cpu_s": np.inf}})
    with pytest.raises(InputError, match=r"endless work, which no openb column holds; write \.yaml instead"):
        write(tmp_path / "nodes.csv", tmp_path / "pods.csv", [NodeSpec("a", 4000, 2**30)], workload)


@pytest.mark.parametrize("ending", ["csv", "parquet", "yaml"])
def test_the_same_seed_writes_the_same_bytes(tmp_path, ending):
    digests = set()
    for run in ("one", "two"):
        (tmp_path / run).mkdir()
        paths = tmp_path / run / f"nodes.{ending}", tmp_path / run / f"pods.{ending}"
        write(*paths, *make(nodes=20, pods=300, seed=5, gangs=0.2))
        digests.add(tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in paths))
    assert len(digests) == 1


def test_csv_columns_are_those_of_openb(tmp_path):
    write(tmp_path / "nodes.csv", tmp_path / "pods.csv", *make(nodes=1, pods=20, gangs=0.5, replica_sets=2))
    assert (tmp_path / "nodes.csv").read_text() == "sn,cpu_milli,memory_mib,gpu,model\nnode-000000,96000,393216,8,G2\n"
    with (tmp_path / "pods.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time",
        "deletion_time", "scheduled_time", "priority", "gang", "gang_min", "owner",
    ]  # fmt: skip
    assert [row["name"] for row in rows] == [f"pod-{number:07d}" for number in range(20)]
    assert all(row["creation_time"].isdigit() and row["scheduled_time"] == row["creation_time"] for row in rows)
    assert {row["gang_min"] for row in rows if not row["gang"]} == {""}


def test_a_failed_write_leaves_neither_file(tmp_path):
    nodes, workload = make(nodes=2, pods=5)
    labelled = Workload(["a"], [PodSpec(labels=(("a", "b"),))], np.array([0]))
    with pytest.raises(InputError, match=r"spec 0 has .* fields that no openb column holds"):
        write(tmp_path / "nodes.csv", tmp_path / "pods.csv", nodes, labelled)
    with pytest.raises(InputError, match=r'pods\.txt: the ending "\.txt" is not known; .*\.csv, .*\.yaml'):
        write(tmp_path / "nodes.csv", tmp_path / "pods.txt", nodes, workload)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["csv", "parquet", "yaml"])
@pytest.mark.parametrize("missing", ["nodes", "pods"])
def test_a_file_that_cannot_be_written_is_told_by_the_name_the_user_gave(tmp_path, ending, missing):
    paths = {name: tmp_path / f"{name}.{ending}" for name in ("nodes", "pods")}
    paths[missing] = tmp_path / "none" / f"{missing}.{ending}"
    with pytest.raises(InputError, match=rf"none/{missing}\.{ending}: cannot be written: No such file or directory$"):
        write(paths["nodes"], paths["pods"], *make(nodes=1, pods=1))
    assert list(tmp_path.iterdir()) == []
