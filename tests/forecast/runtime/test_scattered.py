"""Seconds on a whole grid from a few of its points."""

import numpy as np
import pytest

from foresail.errors import InputError
from foresail.forecast.runtime.generated import generate_profile
from foresail.forecast.runtime.profile import read_profile
from foresail.forecast.runtime.scattered import ScatteredFit, TaskPoints, read_measured

WORKLOADS, SHARES = np.arange(10.0, 50.0, 3.0), np.arange(1000.0, 8501.0, 500.0)
CORNERS = [(10.0, 1000.0), (10.0, 8500.0), (49.0, 1000.0), (49.0, 8500.0), (31.0, 5000.0)]


def points(seconds, places=CORNERS):
    workloads, shares = np.array(places).T
    return TaskPoints(workloads, shares, seconds(workloads, shares))


def work_by_cpu(workloads, shares):
    return 3.0 * workloads / (shares / 1000.0)


def test_a_task_that_only_computes_is_told_by_five_points():
    fit = ScatteredFit({"a": points(work_by_cpu)}, WORKLOADS, SHARES)
    told = fit.profile().seconds[0]
    np.testing.assert_allclose(told, work_by_cpu(WORKLOADS[:, None], SHARES[None, :]), rtol=0.01)


def test_what_is_told_rises_with_work_and_falls_with_cpu():
    random = np.random.default_rng(3)
    places = list({(float(random.choice(WORKLOADS)), float(random.choice(SHARES))) for _ in range(40)})
    noisy = points(lambda w, c: work_by_cpu(w, c) * random.normal(1.0, 0.2, len(w)), places)
    told = ScatteredFit({"a": noisy}, WORKLOADS, SHARES).profile().seconds[0]
    assert (np.diff(told, axis=0) >= 0).all()
    assert (np.diff(told, axis=1) <= 0).all()


def test_it_is_surer_where_it_was_shown_more():
    few = ScatteredFit({"a": points(work_by_cpu)}, WORKLOADS, SHARES)
    _, covariance = few.posterior("a")
    spread = np.sqrt(np.diag(covariance)).reshape(len(WORKLOADS), len(SHARES))
    assert spread[0, 0] < spread[0, 4]
    assert spread[-1, -1] < spread[-1, 4]
    shown_there = points(work_by_cpu, [*CORNERS, (10.0, 3000.0)])
    _, after = ScatteredFit({"a": shown_there}, WORKLOADS, SHARES).posterior("a")
    assert after[4, 4] < covariance[4, 4] / 2


def test_a_noisy_task_does_not_make_a_calm_one_noisy():
    random = np.random.default_rng(1)
    places = [(float(w), float(c)) for w in WORKLOADS[::3] for c in SHARES[::3]]
    wild = points(lambda w, c: work_by_cpu(w, c) * random.normal(1.0, 0.13, len(w)), places)
    fit = ScatteredFit({"calm": points(work_by_cpu, places), "wild": wild}, WORKLOADS, SHARES)
    assert fit.noise("calm") < 0.02
    assert fit.noise("wild") >= 0.05


def write(path, rows):
    path.write_text('# how it was measured: {1, "2"}\n\ntask,workload,cpu_milli,seconds\n' + "".join(rows))
    return path


def test_a_whole_file_is_taken_as_it_is_and_one_with_gaps_is_filled(tmp_path):
    made = generate_profile(("a", "b"))
    rows = [
        f"{task},{workload:g},{share:g},{made.seconds[j, i, g]!r}\n"
        for j, task in enumerate(made.tasks)
        for i, workload in enumerate(made.workloads)
        for g, share in enumerate(made.shares_milli)
    ]
    rows = [row.replace("np.float64(", "").replace(")", "") for row in rows]
    whole = write(tmp_path / "whole.csv", rows)
    np.testing.assert_array_equal(read_measured(whole).seconds, made.seconds)
    np.testing.assert_array_equal(read_profile(whole).seconds, made.seconds)
    # The corners stay, and every fifth point.
    some = write(
        tmp_path / "some.csv", [row for at, row in enumerate(rows) if at % 5 == 0 or at % 224 in (15, 208, 223)]
    )
    filled = read_measured(some)
    assert filled.seconds.shape == made.seconds.shape
    assert np.abs(filled.seconds / made.seconds - 1).mean() < 0.05
    with pytest.raises(InputError, match=r"some\.csv: task a has no row for workload 10 and 1500 milli"):
        read_profile(some)


def test_few_values_are_told_on_more(tmp_path):
    rows = [f"a,{workload},{cpu},{3000 * workload / cpu}\n" for workload, cpu in CORNERS]
    filled = read_measured(write(tmp_path / "few.csv", rows))
    assert (len(filled.workloads), len(filled.shares_milli)) == (14, 14)
    assert {10.0, 31.0, 49.0} < set(filled.workloads.tolist())
    assert (np.diff(filled.shares_milli) > 0).all()
    expected = work_by_cpu(filled.workloads[:, None], filled.shares_milli[None, :])
    np.testing.assert_allclose(filled.seconds[0], expected, rtol=0.01)
    with pytest.raises(InputError, match=r"one\.csv: 1 different values of workload; 2 or more are needed"):
        read_measured(write(tmp_path / "one.csv", [f"a,10,{cpu},5\n" for cpu in range(1000, 6000, 1000)]))


def test_too_few_points_and_wrong_cells_are_said_with_their_place(tmp_path):
    rows = [f"a,{10 + at},{1000 + at},5\n" for at in range(5)]
    with pytest.raises(InputError, match=r"few\.csv: task b has fewer than 5 points"):
        read_measured(write(tmp_path / "few.csv", [*rows, "b,10,1000,4\n"]))
    with pytest.raises(InputError, match=r'bad\.csv:5: seconds is "x"'):
        read_measured(write(tmp_path / "bad.csv", ["a,10,1000,4\n", "a,10,1000,x\n"]))
