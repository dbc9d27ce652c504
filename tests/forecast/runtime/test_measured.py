"""The profile that comes along. It may be measured anew at any time, so none of its digits is expected here."""

import numpy as np
import pytest

from foresail.experiments.supersteps.request import JobRequest
from foresail.experiments.supersteps.run import simulate_job
from foresail.experiments.supersteps.source import find_source
from foresail.forecast.runtime.measured import FILE, shipped_profile
from foresail.traces.supersteps.matrices import TASKS


@pytest.fixture(scope="module")
def shipped():
    return shipped_profile()


def test_it_has_the_published_tasks_and_is_monotone(shipped):
    assert shipped.tasks == tuple(TASKS)
    assert (shipped.workloads[0], shipped.workloads[-1]) == (10, 49)
    assert (shipped.seconds > 0).all()
    assert (np.diff(shipped.seconds, axis=1) >= 0).all()
    assert (np.diff(shipped.seconds, axis=2) <= 0).all()


def test_it_says_how_it_was_measured():
    lines = FILE.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# foresail measure stress {")
    assert '"on": "local"' in lines[0]
    assert len(lines) < 400


def test_work_and_cpu_decide_and_not_what_else_the_machine_did(shipped):
    """Five times the work takes about five times as long, and so does a fifth of the CPU, for all tasks."""
    at = int(np.searchsorted(shipped.shares_milli, 1000))
    less_cpu = shipped.seconds[:, :, 0].mean(axis=1) / shipped.seconds[:, :, at].mean(axis=1)
    more_work = shipped.seconds[:, -1].mean(axis=1) / shipped.seconds[:, 0].mean(axis=1)
    assert ((less_cpu > 2) & (less_cpu < 10)).all()
    assert ((more_work > 3) & (more_work < 8)).all()


def test_jobs_without_data_have_it(monkeypatch, shipped):
    monkeypatch.delenv("FORESAIL_DATA", raising=False)
    source = find_source(None)
    np.testing.assert_array_equal(source.profile.seconds, shipped.seconds)
    assert source.data.tasks == shipped.tasks
    result = simulate_job(source, JobRequest(strategy="static", forecast="perfect", length=10))
    least = int(shipped.shares_milli[0])
    assert (result.grid.least_milli, result.grid.total_milli) == (least, 3 * 8 * least)
    assert result.run.total_s > 0
