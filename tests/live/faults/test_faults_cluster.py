"""Whatever fails, no pod is lost, none is bound twice, no node is overfilled, and the cache is the truth afterwards."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.faults.scenarios import STORIES

from foresail.lab import Lab
from foresail.lab.errors import LabError

pytestmark = pytest.mark.cluster

RUNS = [(name, seed) for name, (_, count) in STORIES.items() for seed in range(count)]
LEAST_RUNS = 200
FLAGS = (
    # Nodes here are Ready from the start, and pods need no account: nothing has to be waited for.
    "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",
)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="fs-") as folder, Lab(base=Path(folder), apiserver_flags=FLAGS) as lab:
        yield lab


@pytest.fixture(scope="module")
def judged() -> list[str]:
    """The runs that came to a right end."""
    return []


@pytest.mark.parametrize(("name", "seed"), RUNS, ids=[f"{name}-{seed}" for name, seed in RUNS])
def test_faults(name: str, seed: int, lab: Lab, tmp_path: Path, judged: list[str]) -> None:
    story, _ = STORIES[name]
    try:
        asyncio.run(story(lab, tmp_path, seed))
    except BaseException as error:
        again = f'pytest -m cluster "tests/live/faults/test_faults_cluster.py::test_faults[{name}-{seed}]"'
        error.add_note(f"{name}, seed {seed}: {story.__doc__}\nonce more: {again}")
        raise
    judged.append(f"{name}-{seed}")


def test_enough_runs_were_judged(judged: list[str]) -> None:
    assert len(set(judged)) >= LEAST_RUNS


def test_what_a_lab_does_not_have_cannot_be_restarted(lab: Lab) -> None:
    with pytest.raises(LabError, match='has no component "kube-proxy"'):
        lab.restart("kube-proxy")
