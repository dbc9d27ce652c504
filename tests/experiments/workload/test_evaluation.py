"""Forecasters are judged on one scale, on rows they have not seen; finished ones are not judged twice."""

import numpy as np
import pytest

from foresail.errors import InputError, OptionError
from foresail.experiments.workload.data import ForecastData, find_series
from foresail.experiments.workload.evaluation import PUBLISHED, evaluate, judge_matrix
from foresail.forecast.workload.fitted import Units
from foresail.forecast.workload.lstm import WorkloadLstm
from foresail.forecast.workload.prepared import prepare
from foresail.forecast.workload.track import Track

ROWS, HORIZON = 120, 5


@pytest.fixture(scope="module")
def data():
    return find_series(None, ("load_1", "load_2"), test_rows=ROWS, horizon=HORIZON)


def test_a_matrix_is_judged_in_units_of_what_comes_to_pass(data):
    targets = data.targets()
    assert targets.shape == (2, ROWS, HORIZON)
    # Row i, column k is the value i + k of the test; the test ends with the series.
    assert targets[1, -1, -1] == data.series[1].values[-1]
    assert targets[1, 7, 2] == data.series[1].values[1000 + 9]
    judged = judge_matrix("off by two", data, targets + 2.0)
    for errors, values in zip(judged.errors, targets[:, :, 0], strict=True):
        unit = 40.0 / np.ptp(values)
        np.testing.assert_allclose(errors.rmse, 2.0 * unit)
        np.testing.assert_allclose(errors.bias, 2.0 * unit)
        assert errors.coverage_80 is None


def test_errors_are_those_of_forecasts_made_one_after_another(data, tmp_path):
    (judged,) = evaluate(data, ["seasonal-naive"], folder=tmp_path)
    # The same by hand: the value of the day before, and what it is off by now, less with each row.
    for series, errors in zip(data.series, judged.errors, strict=True):
        z, first = series.values, 1000
        unit = 40.0 / np.ptp(z[first : first + ROWS])
        by_decay = []
        for decay in (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0):
            rmse = []
            for ahead in range(1, HORIZON + 1):
                at = np.arange(first, first + ROWS) + ahead - 1
                origin = at - ahead
                said = z[at - 48] + decay**ahead * (z[origin] - z[origin - 48])
                rmse.append(np.sqrt(((said - z[at]) ** 2).mean()) * unit)
            by_decay.append(np.abs(np.array(rmse) - errors.rmse).max())
        assert min(by_decay) < 1e-9
        assert 0.5 < np.mean(errors.coverage_80) < 1.0
        assert np.mean(errors.coverage_50) < np.mean(errors.coverage_80)


def test_what_is_finished_is_not_done_again_unless_the_rows_differ(data, tmp_path):
    told = []
    first = evaluate(data, ["ridge"], folder=tmp_path, on_progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (100, 100)
    assert told == sorted(told)
    (model,) = (tmp_path / "models").iterdir()
    model.unlink()
    assert evaluate(data, ["ridge"], folder=tmp_path) == first
    assert not list((tmp_path / "models").iterdir())
    # Another test, and the same rows to learn from: judged anew, with the same model.
    for series in data.series:
        series.values[-1] += 100.0
    try:
        again = evaluate(data, ["ridge"], folder=tmp_path)
    finally:
        for series in data.series:
            series.values[-1] -= 100.0
    assert again != first
    assert [one.name for one in (tmp_path / "models").iterdir()] == [model.name]


def test_mistakes_say_what_there_is(data, tmp_path):
    with pytest.raises(OptionError, match=r'no forecaster "rigde"; did you mean "ridge"\?'):
        evaluate(data, ["rigde"])
    with pytest.raises(InputError, match="holds no series"):
        find_series(tmp_path)
    with pytest.raises(InputError, match="leave 0 to learn from"):
        ForecastData("short", (data.series[0].head(12),), 10, 5).training()


def test_the_lstm_that_we_train_is_as_good_as_the_published_one(bsp_data):
    data = find_series(bsp_data)
    prepared = prepare(data.training())
    trained = WorkloadLstm.fit(prepared, data.horizon, 1)
    said = np.zeros((8, data.test_rows, data.horizon))
    for number, (kind, series) in enumerate(zip(prepared.kinds, data.series, strict=True)):
        track = Track(number, kind, prepared.days, data.horizon)
        online = trained.start(track)
        first = len(prepared.z[number])
        for row in range(first + data.test_rows - 1):
            track.add((series.values[row] - kind.mean) / kind.std, int(series.times_s[row]))
            online.observe()
            if row >= first - 1:
                said[number, row - first + 1] = kind.mean + kind.std * online.forecast()
    ours, published = judge_matrix("lstm", data, said), judge_matrix(PUBLISHED, data, data.published)
    all_ahead = range(1, data.horizon + 1)
    assert np.mean([ours.mean(ahead) for ahead in all_ahead]) < np.mean([published.mean(ahead) for ahead in all_ahead])
    # One row ahead hardly anything can be learnt, and both say about what was last.
    assert ours.mean(1) < 1.03 * published.mean(1)


def test_a_task_begins_where_its_history_ends(data):
    task = data.tasks()[0]
    assert len(task.so_far) == 1000
    assert task.coming_s[0] == task.so_far.times_s[-1] + 1800
    first = data.targets()[0, :, 0]
    assert task.units == Units(first.min(), first.max(), 10.0, 50.0)
