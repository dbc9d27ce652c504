"""Each way of forecasting says what the library, or the formula, that it comes from would say."""

import lightgbm
import numpy as np
import pytest
from statsmodels.tsa.arima.model import ARIMA
from statsmodels.tsa.exponential_smoothing.ets import ETSModel
from tests.forecast.workload.small_series import HORIZON, ROWS

from foresail.forecast.workload import lstm_training
from foresail.forecast.workload.boosting import Boosting
from foresail.forecast.workload.features import COUNT
from foresail.forecast.workload.hourly import Hourly
from foresail.forecast.workload.lstm import WorkloadLstm
from foresail.forecast.workload.prepared import prepare
from foresail.forecast.workload.profile import places
from foresail.forecast.workload.ridge import PENALTY, Ridge, rows_of_group
from foresail.forecast.workload.seasonal import SeasonalNaive
from foresail.forecast.workload.smoothing import Arima, ExponentialSmoothing
from foresail.forecast.workload.track import Track
from foresail.forecast.workload.weekly import Weekly
from foresail.traces.series import Series


@pytest.fixture(scope="module")
def data(whole):
    return prepare([one.head(ROWS) for one in whole])


def online(member, data, number, rows):
    track = Track(number, data.kinds[number], data.days, HORIZON)
    told = member.start(track)
    for z, time_s in zip(data.z[number][:rows].tolist(), data.times_s[number][:rows].tolist(), strict=True):
        track.add(z, time_s)
        told.observe()
    return told.forecast()


def anomalies(member, data, number):
    slots, off = places(data.times_s[number], data.kinds[number], data.days)
    return data.z[number] - member.profiles[number][off, slots]


def usual_next(member, data, number, rows):
    kind = data.kinds[number]
    times_s = data.times_s[number][rows - 1] + kind.step_s * np.arange(1, HORIZON + 1)
    slots, off = places(times_s, kind, data.days)
    return member.profiles[number][off, slots]


def test_seasonal_naive_repeats_the_last_season_and_corrects_its_level(data):
    member = SeasonalNaive.fit(data, HORIZON, 1)
    z, decay = data.z[0], member.decays[0]
    expected = [z[200 + h - 24] + decay**h * (z[200] - z[176]) for h in range(1, HORIZON + 1)]
    np.testing.assert_allclose(online(member, data, 0, 201), expected, rtol=1e-12)


def test_exponential_smoothing_goes_on_as_statsmodels_does(data):
    member = ExponentialSmoothing.fit(data, HORIZON, 1)
    rows = 220
    model = ETSModel(
        anomalies(member, data, 1)[:rows],
        error="add",
        trend="add",
        damped_trend=True,
        initialization_method="known",
        initial_level=0.0,
        initial_trend=0.0,
    )
    expected = model.smooth(member.numbers[1]).forecast(HORIZON) + usual_next(member, data, 1, rows)
    np.testing.assert_allclose(online(member, data, 1, rows), expected, rtol=1e-9, atol=1e-9)


def test_arima_goes_on_as_statsmodels_does(data):
    member = Arima.fit(data, HORIZON, 1)
    for number in range(4):
        p, q = (int(one) for one in member.numbers[number][:2])
        numbers = member.numbers[number]
        model = ARIMA(anomalies(member, data, number), order=(p, 0, q), trend="n")
        params = [*numbers[2 : 2 + p], *numbers[5 : 5 + q], 1.0]
        # Kalman's filter begins elsewhere, which has been forgotten by now.
        expected = model.smooth(params).forecast(HORIZON) + usual_next(member, data, number, ROWS)
        np.testing.assert_allclose(online(member, data, number, ROWS), expected, rtol=1e-4, atol=1e-4)


def test_ridge_is_least_squares_with_a_penalty_on_its_weights(data):
    member = Ridge.fit(data, HORIZON, 1)
    x, y = rows_of_group(data, 0, HORIZON)
    x, y = x[:, 3], y[:, 3] - x[:, 3, 1]
    scale = x.std(axis=0)
    used = scale > 1e-9

    def cost(weights):
        left = y - x @ weights
        return left @ left + PENALTY * len(y) * ((weights * scale)[used] ** 2).sum()

    best = member.weights[0, 3]
    random = np.random.default_rng(1)
    for _ in range(50):
        away = np.where(used, random.normal(size=COUNT) / np.maximum(scale, 1e-9), 0.0) * 1e-3
        away[0] = random.normal() * 1e-3
        assert cost(best + away) > cost(best)


def plain_week(data, group):
    """Means of a group by day of the week and time, each drawn to those of like days, and these to that of all."""
    values = {}
    for number in data.of_group(group):
        kind = data.kinds[number]
        for z, time_s in zip(data.z[number].tolist(), data.times_s[number].tolist(), strict=True):
            at = (int(data.days[time_s // 86_400]), time_s // kind.step_s % kind.period)
            values.setdefault(at, []).append(z)

    def usual(time_s, kind):
        day, slot = int(data.days[time_s // 86_400]), time_s // kind.step_s % kind.period
        alike = range(5) if day < 5 else [5] if day == 5 else [6, 7]
        every = [z for (_, its), all_z in values.items() if its == slot for z in all_z]
        like = [z for other in alike for z in values.get((other, slot), [])]
        of_kind = (sum(like) + 2 * sum(every) / len(every)) / (len(like) + 2)
        own = values.get((day, slot), [])
        return (sum(own) + 2 * of_kind) / (len(own) + 2)

    return usual


def plain_weekly_features(data, number, rows, ahead):
    kind, z, times_s = data.kinds[number], data.z[number][:rows], data.times_s[number][:rows].tolist()
    usual = plain_week(data, kind.group)
    off = np.array([value - usual(time_s, kind) for value, time_s in zip(z, times_s, strict=True)])
    then, level = usual(times_s[-1] + ahead * kind.step_s, kind), z[-kind.period :].mean()
    means = [off[-span:].mean() for span in (4, kind.period // 4, *(n * kind.period for n in (1, 3, 7)))]
    ago = [off[rows - 1 + ahead - n * kind.period] for n in (1, 7)]
    return np.array([1.0, level, then - level, then - usual(times_s[-1], kind), *off[:-5:-1], *means, *ago]), level


def test_weekly_is_ridge_regression_on_how_far_a_series_is_from_the_week_of_its_group(data):
    member = Weekly.fit(data, HORIZON, 1)
    for number in (1, 2):
        kind = data.kinds[number]
        said = online(member, data, number, 230)
        for ahead in (1, HORIZON):
            features, level = plain_weekly_features(data, number, 230, ahead)
            expected = level + features @ member.weights[kind.group, ahead - 1]
            assert said[ahead - 1] == pytest.approx(expected, rel=1e-9)
    assert np.abs(member.weights).max(axis=(0, 1)).min() > 0  # every feature says something


def test_weekly_forgets_with_the_track_and_goes_on_the_same(data):
    """After more rows than a track keeps, what it says is what an object says that was told the kept rows alone."""
    member = Weekly.fit(data, HORIZON, 1)
    kind, random = data.kinds[2], np.random.default_rng(4)
    long, short = (Track(2, kind, data.days, HORIZON) for _ in range(2))
    told, late = member.start(long), member.start(short)
    first, room = int(data.times_s[2][0]), len(long.z)
    for row, z in enumerate(random.normal(size=2 * room).tolist()):
        long.add(z, first + row * kind.step_s)
        told.observe()
        if row >= 2 * room - 10 * kind.period:
            short.add(z, first + row * kind.step_s)
            late.observe()
    np.testing.assert_allclose(told.forecast(), late.forecast(), rtol=1e-9)


def test_hourly_says_the_mean_of_that_hour():
    times_s = 1_700_006_400 // 86_400 * 86_400 + 600 * np.arange(144 * 6) + 300
    values = np.random.default_rng(1).normal(size=len(times_s)) + 30 * np.sin(2 * np.pi * times_s / 86_400)
    data = prepare([Series("fine", times_s, values)])
    assert data.kinds[0].period == 144
    member = Hourly.fit(data, 8, 1)
    track = Track(0, data.kinds[0], data.days, 8)
    told = member.start(track)
    for z, time_s in zip(data.z[0].tolist(), times_s.tolist(), strict=True):
        track.add(z, time_s)
        told.observe()
    hours = times_s % 86_400 // 3600
    expected = [data.z[0][hours == (times_s[-1] + 600 * ahead) % 86_400 // 3600].mean() for ahead in range(1, 9)]
    np.testing.assert_allclose(told.forecast(), expected, rtol=1e-9)


def test_trees_are_walked_as_lightgbm_walks_them(data, monkeypatch):
    grown = []
    train = lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *given: grown.append(train(*given)) or grown[-1])
    member = Boosting.fit(data, HORIZON, 1)
    assert len(grown) == 2
    track = Track(3, data.kinds[3], data.days, HORIZON)
    for z, time_s in zip(data.z[3].tolist(), data.times_s[3].tolist(), strict=True):
        track.add(z, time_s)
    features = track.features().copy()
    said = np.einsum("hf,hf->h", features, member.ridge.weights[1]) + features[:, 1]
    rows = features.copy()
    rows[:, 0], rows[:, 1] = np.arange(HORIZON), said - features[:, 1]
    left = grown[1].predict(rows)
    assert np.ptp(left) > 0
    np.testing.assert_allclose(member.start(track).forecast(), said + member.spreads[1] * left, rtol=1e-12)


def test_the_lstm_runs_on_as_it_was_trained(data):
    """What it remembers at the end is what a plain recurrence over all differences, written anew here, leaves."""
    member = WorkloadLstm.fit(data, HORIZON, 1, epochs=2)
    net, (least, most), z = member.networks[2], member.ranges[2], data.z[2]
    out, memory = np.zeros(4), np.zeros(4)
    for step in np.diff(z):
        value = 2 * (step - least) / (most - least) - 1
        gate = value * net["kernel"] + out @ net["recurrent"] + net["bias"]
        i, f, c, o = gate[:4], gate[4:8], gate[8:12], gate[12:]
        memory = memory / (1 + np.exp(-f)) + np.tanh(c) / (1 + np.exp(-i))
        out = np.tanh(memory) / (1 + np.exp(-o))
    steps = (out @ net["dense"] + net["dense_bias"] + 1) / 2 * (most - least) + least
    np.testing.assert_allclose(online(member, data, 2, ROWS), z[-1] + steps.cumsum(), rtol=1e-10)


def test_training_the_lstm_lowers_its_error(data):
    scaled = np.sin(np.arange(300) * 2 * np.pi / 12) * 0.8

    def error(epochs):
        net = lstm_training.train(scaled, 4, 4, epochs, 1)
        out, memory, total = np.zeros(4), np.zeros(4), 0.0
        for at in range(len(scaled) - 4):
            gate = scaled[at] * net["kernel"] + out @ net["recurrent"] + net["bias"]
            i, f, c, o = gate[:4], gate[4:8], gate[8:12], gate[12:]
            memory = memory / (1 + np.exp(-f)) + np.tanh(c) / (1 + np.exp(-i))
            out = np.tanh(memory) / (1 + np.exp(-o))
            total += ((out @ net["dense"] + net["dense_bias"] - scaled[at + 1 : at + 5]) ** 2).mean()
        return total

    assert error(15) < 0.3 * error(1)
