"""Work is as much as the workload says, timed alone, and what cannot be done is said before anybody waits."""

from __future__ import annotations

import shutil

import pytest

from foresail.workloads.supersteps.task import main
from foresail.workloads.supersteps.work import StressWork, WorkError

needs_stress = pytest.mark.skipif(shutil.which("stress-ng") is None, reason="there is no stress-ng")


@pytest.mark.parametrize(
    ("modifier", "workload", "ops"),
    [
        (4000, 10.0, 40_000),
        (4000, 10.0001, 40_000),
        (0.5, 33.0, 16),
        (1e-9, 1.0, 1),
        (7, 0.0, 0),
        (2_000_000, 300, 6e8),
    ],
)
def test_operations_are_modifier_times_workload(modifier, workload, ops):
    assert StressWork("spin", modifier).ops(workload) == ops


def test_a_loop_works_and_is_timed():
    done = StressWork("spin", 2.0).do(5.0)
    assert done.ops == 10
    assert done.seconds > 0
    assert done.ended_s - done.started_s == pytest.approx(done.seconds, abs=1e-5)


def test_no_work_takes_no_operations():
    assert StressWork("bsearch", 4000.0).do(0.0).ops == 0


@needs_stress
@pytest.mark.parametrize("method", ["bsearch", "chmod"])
def test_stress_ng_does_the_operations(method):
    done = StressWork(method, 2.0, workers=1).do(5.0)
    assert (done.ops, done.seconds > 0) == (10, True)


@needs_stress
def test_stress_ng_that_refuses_or_takes_too_long_is_an_error():
    with pytest.raises(WorkError, match=r"stress-ng --no-such-stressor 1 .* ended with \d+: "):
        StressWork("no-such-stressor", 1.0, workers=1).do(1.0)
    with pytest.raises(WorkError, match=r"not done within 0\.2 s"):
        StressWork("bsearch", 1e8, workers=1, limit_s=0.2).do(1.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "--cpu"], '--method is "--cpu"'),
        (["--method", "a;b"], '--method is "a;b"'),
        (["--modifier", "0"], "--modifier is 0"),
        (["--modifier", "nan"], "--modifier is nan"),
        (["--workers", "-1"], "--workers is -1"),
        (["--work-timeout-s", "nan"], "--work-timeout-s is nan"),
        (["--timeout-s", "nan", "--api-server", "http://127.0.0.1:1"], "a time-out of nan s"),
        (["--board", "http://x/y"], 'the board is "http://x/y"'),
        (["--board", "lease://default/job", "--api-server", "ftp://x"], '--api-server is "ftp://x"'),
        (["--board", "lease://default/job"], "this is no pod"),
        (["--board", "lease://default/No_Name", "--api-server", "http://127.0.0.1:1"], 'job "No_Name"'),
        (["--board", "lease://default/job", "--api-server", "http://127.0.0.1:1", "--task", "A"], 'called "A"'),
    ],
)
def test_a_task_that_cannot_work_says_why(options, said, capsys, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    arguments = [
        "--board=lease://default/job",
        "--task=a",
        *(f"{a}={b}" for a, b in zip(*[iter(options)] * 2, strict=True)),
    ]
    assert main(arguments) == 1
    assert said in capsys.readouterr().err
