"""What is measured, in which order, and what is kept of it."""

import re
from pathlib import Path

import pytest
from tests.measure.stress.made_up_machine import MadeUpMachine

from foresail.errors import ForesailError, InputError, OptionError
from foresail.forecast.runtime.scattered import read_measured
from foresail.measure.stress.grid import StressGrid, read_range
from foresail.measure.stress.results import COLUMNS, StressFile
from foresail.measure.stress.run import StressPlan, default_cpus, default_workers, measure_stress

PAGE = Path(__file__).resolve().parents[3] / "docs/guides/supersteps.md"
GRID = StressGrid(("cap", "zero"), (10.0, 20.0, 30.0, 40.0), (500, 1000, 2000, 4000))
OPS = {"cap": 100.0, "zero": 250.0}


def make_plan(**changed):
    settings = {"grid": GRID, "workers": 4, "target": None, "ops_a_unit": OPS, "try_s": None}
    return StressPlan(**(settings | changed))


def opened(path, plan, machine):
    return StressFile(path, {**plan.how(), **machine.where})


@pytest.fixture
def out(tmp_path):
    return tmp_path / "profile.csv"


def test_every_point_of_a_full_grid_is_measured_once_smallest_cpu_first(out):
    machine, plan, shown = MadeUpMachine(), make_plan(), []
    progress = measure_stress(plan, opened(out, plan, machine), machine, shown.append)
    assert (progress.points, progress.most, progress.expected_error) == (32, 32, None)
    assert [cpu for _, cpu, _, _ in machine.done] == [cpu for cpu in GRID.cpus_milli for _ in range(8)]
    assert machine.done[:2] == [("cap", 500, 1000, 4), ("cap", 500, 2000, 4)]
    assert len(set(machine.done)) == 32
    assert [one.points for one in shown] == [*range(33), 32]
    profile = read_measured(out)
    assert profile.tasks == ("cap", "zero")
    assert profile.seconds[1, 2, 0] == pytest.approx((0.020 + 7.5) * 2)


def test_tries_are_repeated_and_averaged(out):
    machine, plan = MadeUpMachine(), make_plan(tries=3)
    file = opened(out, plan, machine)
    measure_stress(plan, file, machine)
    assert len(machine.done) == 96
    assert [row.number for row in file.rows[:3]] == [1, 2, 3]
    assert read_measured(out).seconds.shape == (2, 4, 4)


def test_seconds_of_the_whole_are_told_from_what_was_done_and_what_starting_takes(out):
    machine, plan = MadeUpMachine(), make_plan(try_s=1.0)
    file = opened(out, plan, machine)
    measure_stress(plan, file, machine)
    # A trial of how quick the task is, with the most CPU; then half a second of CPU at each try, or all of the work.
    tried = [work for work in machine.done if work[1] == 500 and work[3] == 4]
    assert {(task, ops) for task, _, ops, _ in tried} == {("cap", tried[0][2]), ("zero", tried[0][2])}
    assert tried[0][2] == pytest.approx(500, rel=0.01)
    row = next(row for row in file.rows if (row.task, row.workload, row.cpu_milli) == ("cap", 10, 500))
    assert (row.ops, row.ops_done, row.start_s) == (1000, tried[0][2], pytest.approx(0.042))
    assert row.measured_s == pytest.approx((0.020 + row.ops_done / 1000) * 2)
    assert row.seconds == pytest.approx(0.042 + (row.measured_s - 0.042) * 1000 / row.ops_done)
    assert next(row for row in file.rows if row.cpu_milli == 4000).ops_done == 1000
    again = MadeUpMachine()
    measure_stress(plan, opened(out, plan, again), again)
    assert again.done == []


def test_work_that_is_over_as_soon_as_it_starts_is_said(out):
    machine, plan = MadeUpMachine(), make_plan(try_s=0.0001)
    with pytest.raises(ForesailError, match="task cap at workload 10 and 500 milli is over as soon as it starts"):
        measure_stress(plan, opened(out, plan, machine), machine)


def test_an_interrupted_measurement_keeps_what_it_has_and_goes_on(out):
    plan = make_plan(tries=2)
    first = MadeUpMachine(breaks_after=13)
    with pytest.raises(KeyboardInterrupt):
        measure_stress(plan, opened(out, plan, first), first)
    kept = out.read_text()
    second = MadeUpMachine()
    measure_stress(plan, opened(out, plan, second), second)
    assert out.read_text().startswith(kept)
    assert sorted(first.done + second.done) == sorted(2 * list(set(first.done + second.done)))
    assert len(first.done + second.done) == 64
    third = MadeUpMachine()
    assert measure_stress(plan, opened(out, plan, third), third).points == 32
    assert third.done == []


def test_a_line_that_was_broken_off_is_measured_again_and_a_damaged_one_is_said(out):
    plan, machine = make_plan(), MadeUpMachine()
    measure_stress(plan, opened(out, plan, machine), machine)
    whole = out.read_text()
    out.write_text(whole[:-9])
    again = MadeUpMachine()
    measure_stress(plan, opened(out, plan, again), again)
    assert again.done == machine.done[-1:]
    without_time = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z")
    assert without_time.sub("", out.read_text()) == without_time.sub("", whole)
    lines = whole.splitlines(keepends=True)
    out.write_text("".join([*lines[:6], lines[6].replace(",", ",x", 1), *lines[7:]]))
    with pytest.raises(InputError, match=r"profile\.csv:7: the row is damaged .* remove it"):
        opened(out, plan, machine)


@pytest.mark.parametrize("length", range(1, 400, 7))
def test_a_file_that_was_broken_off_anywhere_goes_on_or_is_refused(out, length):
    plan, machine = make_plan(), MadeUpMachine()
    measure_stress(plan, opened(out, plan, machine), machine)
    content = out.read_bytes()[:length]
    out.write_bytes(content)
    try:
        measure_stress(plan, opened(out, plan, machine), machine)
    except InputError:
        assert b"\n" not in content
        assert out.read_bytes() == content
    else:
        assert read_measured(out).seconds.shape == (2, 4, 4)


def test_what_was_measured_otherwise_is_not_mixed(out):
    plan, machine = make_plan(), MadeUpMachine()
    measure_stress(plan, opened(out, plan, machine), machine)
    before = out.read_text()
    with pytest.raises(InputError, match=r"was measured otherwise \(workers 4, not 2\); name another file with --out"):
        opened(out, make_plan(workers=2), machine)
    changed = make_plan(ops_a_unit={"cap": 7.0, "zero": 250.0})
    with pytest.raises(OptionError, match="has 100 operations of cap in a unit of workload, not 7"):
        measure_stress(changed, opened(out, plan, machine), machine)
    assert out.read_text() == before
    out.write_text("task,workload\n")
    with pytest.raises(InputError, match="is no file of measure stress"):
        opened(out, plan, machine)


def test_more_tasks_and_more_values_are_added_to_a_file(out):
    plan, machine = make_plan(grid=StressGrid(("cap",), GRID.workloads, GRID.cpus_milli)), MadeUpMachine()
    measure_stress(plan, opened(out, plan, machine), machine)
    wider = make_plan(grid=StressGrid(("cap", "zero"), (10.0, 15.0, 20.0, 30.0, 40.0), GRID.cpus_milli))
    more = MadeUpMachine()
    measure_stress(wider, opened(out, wider, more), more)
    assert len(more.done) == 4 + 20
    assert read_measured(out).seconds.shape == (2, 5, 4)


def test_operations_are_aimed_at_seconds_and_kept(out):
    plan, machine = make_plan(ops_a_unit=None, aim_s=6.0), MadeUpMachine()
    file = opened(out, plan, machine)
    measure_stress(plan, file, machine)
    # 4 CPU for 6 s are 24 s, or 24000 operations; the middle workload is 30.
    assert file.ops_a_unit == {"cap": pytest.approx(800, rel=0.01), "zero": pytest.approx(800, rel=0.01)}
    again = MadeUpMachine()
    measure_stress(plan, opened(out, plan, again), again)
    assert again.done == []


def test_published_operations_are_the_default_and_others_must_be_told(out):
    machine = MadeUpMachine()
    plan = make_plan(ops_a_unit=None)
    file = opened(out, plan, machine)
    measure_stress(plan, file, machine)
    assert file.ops_a_unit == {"cap": 2_000_000, "zero": 1_000_000}
    plan = make_plan(grid=StressGrid(("matrix",), GRID.workloads, GRID.cpus_milli))
    with pytest.raises(OptionError, match="nobody has published what a unit of matrix counts; give --ops matrix=N"):
        measure_stress(plan, file, machine)


def test_more_cpu_than_there_is_is_refused_before_anything_is_done(out):
    machine, plan = MadeUpMachine(), make_plan(grid=StressGrid(("cap",), GRID.workloads, (500, 1000, 2000, 4500)))
    with pytest.raises(OptionError, match="--cpus goes to 4500 milli, and 4000 can be had"):
        measure_stress(plan, opened(out, plan, machine), machine)
    assert machine.done == []


def test_adaptive_sampling_stops_when_it_is_sure_and_goes_on_where_it_stopped(out):
    grid = StressGrid(("cap", "zero"), cpus_milli=default_cpus(4000))
    plan, machine = make_plan(grid=grid, target=0.03), MadeUpMachine()
    progress = measure_stress(plan, opened(out, plan, machine), machine)
    assert 10 <= progress.points <= 40
    assert progress.expected_error <= 0.03
    profile = read_measured(out)
    for workload, cpu in ((10.0, 400.0), (49.0, 3000.0)):
        at = profile.workloads.tolist().index(workload), profile.shares_milli.tolist().index(cpu)
        expected = (0.020 + 250 * workload / 1000) * 1000 / cpu
        assert profile.seconds[1][at] == pytest.approx(expected, rel=0.03)
    again = MadeUpMachine()
    assert measure_stress(plan, opened(out, plan, again), again) == progress
    assert again.done == []
    few = make_plan(grid=grid, target=0.001, most=6)
    assert measure_stress(few, opened(out.with_name("few.csv"), few, machine), machine).points == 12


def test_values_are_read_one_by_one_or_as_a_range():
    assert read_range("10,20.5", "--cpus") == (10, 20.5)
    assert read_range("10:49:3", "--workloads") == tuple(range(10, 50, 3))
    for text in ("", "a", "1:2", "1:2:x"):
        with pytest.raises(OptionError, match="--cpus is"):
            read_range(text, "--cpus")
    with pytest.raises(OptionError, match="--cpus has 3 values"):
        StressGrid(("cap",), cpus_milli=(1, 2, 3))
    with pytest.raises(OptionError, match="--workloads is 1,2,2,3; values are above 0 and go up"):
        StressGrid(("cap",), workloads=(1, 2, 2, 3))
    with pytest.raises(OptionError, match="--workloads has 0 values"):
        StressGrid(("cap",), workloads=read_range("9:1:-1", "--workloads"))


def test_workers_are_enough_for_the_most_cpu_and_no_more():
    assert default_cpus(2000) == tuple(range(200, 1501, 100))
    assert [default_workers(StressGrid(("cap",), cpus_milli=(1, 2, 3, most))) for most in (900, 1000, 1001, 8500)] == [
        *(1, 1, 2, 9)
    ]


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_is_told_on_the_page(name):
    assert f"| `{name}` | {COLUMNS[name]} |" in PAGE.read_text(encoding="utf-8")
