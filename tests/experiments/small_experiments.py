"""Tiny traces, and policies that make trouble when told to."""

import importlib
import sys
from types import ModuleType

import pytest

from foresail.experiments.experiment import Experiment, traces_of
from foresail.plugins.registry import forget_packages
from foresail.traces.generate.generate import GenerateSettings, generate
from foresail.traces.write import write

# A real package with an entry point: the way a user's own policy comes in.
TROUBLES = '''
"""A policy that places like any other until it is told to make trouble at a seed."""
import numpy as np

interrupt_at = None
fail_at = None


class Troubled:
    def seed(self, seed):
        self._seed = seed

    def score(self, pod, nodes):
        if self._seed == interrupt_at:
            raise KeyboardInterrupt
        if self._seed == fail_at or self._seed == 666:
            raise ValueError("out of luck")
        return np.zeros(len(nodes))
'''


@pytest.fixture
def troubles(tmp_path, monkeypatch) -> ModuleType:
    """The module of the policy "troubled", installed for this test."""
    site = tmp_path / "site"
    dist = site / "troubles-1.0.dist-info"
    dist.mkdir(parents=True)
    (site / "troubles.py").write_text(TROUBLES)
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: troubles\nVersion: 1.0\n")
    (dist / "entry_points.txt").write_text("[foresail.policies]\ntroubled = troubles:Troubled\n")
    monkeypatch.syspath_prepend(str(site))
    forget_packages()
    yield importlib.import_module("troubles")
    sys.modules.pop("troubles")
    forget_packages()


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    """Two tiny traces on one cluster, as a node list and two pod lists."""
    folder = tmp_path_factory.mktemp("traces")
    nodes, cluster = folder / "nodes.csv", generate(GenerateSettings(nodes=6, pods=1))[0]
    for name, seed in (("one", 1), ("two", 2)):
        _, workload = generate(GenerateSettings(nodes=6, pods=40, seed=seed))
        write(nodes, folder / f"{name}.csv", cluster, workload)
    return nodes, folder / "one.csv", folder / "two.csv"


@pytest.fixture
def experiment(traces):
    """Build an experiment over the tiny traces."""

    def build(policies=("fgd", "best-fit"), seeds=(42, 43), pods=(1,), **further):
        files = traces_of(str(traces[0]), [str(traces[number]) for number in pods])
        return Experiment(traces=files, policies=tuple(policies), seeds=tuple(seeds), **further)

    return build


@pytest.fixture
def tree():
    """Read every file below a folder, by its relative path."""

    def read(folder):
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
        }

    return read
