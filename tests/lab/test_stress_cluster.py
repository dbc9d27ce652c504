"""stress-ng measured for real, in control groups of the machine and in pods of a kubelet, interrupted on the way."""

from __future__ import annotations

import os

import pytest

from foresail.forecast.runtime.scattered import read_measured
from foresail.kube.api.connect import find_connection
from foresail.lab import Lab, cgroups
from foresail.lab.workload_image import WORKLOAD_IMAGE
from foresail.measure.stress.grid import StressGrid
from foresail.measure.stress.local import StressHere
from foresail.measure.stress.on_kube import StressOnKube
from foresail.measure.stress.results import StressFile
from foresail.measure.stress.run import StressPlan, measure_stress

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="control groups and real kubelets need root"),
]
GRID = StressGrid(("bsearch",), (10.0, 20.0, 30.0, 40.0), (50, 100, 200, 800))


def measure_twice(plan, path, runner):
    """Interrupted after three points; then the same again."""

    def interrupt(progress):
        if progress.points == 3:
            raise KeyboardInterrupt

    how = {**plan.how(), **runner.where}
    with pytest.raises(KeyboardInterrupt):
        measure_stress(plan, StressFile(path, how), runner, interrupt)
    before = path.read_text()
    file = StressFile(path, how)
    assert len(file.rows) == 3
    measure_stress(plan, file, runner)
    assert path.read_text().startswith(before)
    assert sorted((row.workload, row.cpu_milli) for row in file.rows) == sorted(
        (point.workload, point.cpu_milli) for point in GRID.points
    )
    return file


def check(file, path):
    """A sixteenth of the CPU takes 16 times as long if nobody else works; on a busy machine it still takes longer."""
    seconds = read_measured(path).seconds[0]
    assert seconds[:, 0].mean() > 1.5 * seconds[:, -1].mean()
    least = [row for row in file.rows if row.cpu_milli == 50]
    assert all(row.cpu_s > 0 and row.measured_s > 0 for row in file.rows)
    assert max(row.throttled or 0.0 for row in least) > 0.5, "the limit holds the work up"


def test_in_control_groups_of_the_machine(tmp_path):
    runner, path = StressHere(), tmp_path / "local.csv"
    plan = StressPlan(grid=GRID, workers=1, target=None, try_s=0.3, ops_a_unit={"bsearch": 10.0})
    file = measure_twice(plan, path, runner)
    check(file, path)
    assert all(row.ops_done <= row.ops for row in file.rows)
    ours = f"foresail-measure-{os.getpid()}-*"
    assert [folder for tree in cgroups.all_hierarchies() for folder in tree.mount.glob(ours)] == []


def test_in_pods_of_a_kubelet(tmp_path, labs):
    with Lab("stress", kubelets=1, node_cpu="1", workload_image=True, base=labs) as lab:
        path = tmp_path / "kube.csv"
        plan = StressPlan(grid=GRID, workers=1, target=None, try_s=None, ops_a_unit={"bsearch": 1.0})
        with StressOnKube.connected(find_connection(lab.kubeconfig), WORKLOAD_IMAGE) as runner:
            assert runner.most_milli <= 1000
            file = measure_twice(plan, path, runner)
        check(file, path)
        with lab.api() as api:
            left = [
                one["metadata"]["name"]
                for one in api.items("/api/v1/namespaces")
                if one["metadata"]["name"].startswith("foresail-measure-") and one["status"]["phase"] == "Active"
            ]
        assert left == []
