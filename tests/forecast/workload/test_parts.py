"""Holidays, periods, scenarios and weights."""

import datetime as dt

import numpy as np
import pytest
from tests.forecast.workload.small_series import HORIZON, ROWS

from foresail.errors import InputError, OptionError
from foresail.forecast.workload import fitting
from foresail.forecast.workload.calendar import HOLIDAY, day_table, us_federal_holidays
from foresail.forecast.workload.fitted import TaskSeries
from foresail.forecast.workload.fitting import _simplex, _weights, fit
from foresail.forecast.workload.prepared import prepare
from foresail.forecast.workload.residuals import Residuals
from foresail.forecast.workload.season import find_period
from foresail.traces.series import Series


def test_us_federal_holidays_of_2014_and_2015():
    # As the Office of Personnel Management lists them; 4 July 2015 was a Saturday and kept on the Friday.
    assert us_federal_holidays(2014) == [
        *(dt.date(2014, 1, 1), dt.date(2014, 1, 20), dt.date(2014, 2, 17), dt.date(2014, 5, 26), dt.date(2014, 7, 4)),
        *(dt.date(2014, 9, 1), dt.date(2014, 10, 13), dt.date(2014, 11, 11), dt.date(2014, 11, 27)),
        dt.date(2014, 12, 25),
    ]
    assert {dt.date(2015, 7, 3), dt.date(2015, 7, 4)} <= set(us_federal_holidays(2015))
    table = day_table("us")
    assert table[(dt.date(2015, 1, 19) - dt.date(1970, 1, 1)).days] == HOLIDAY
    assert table[(dt.date(2015, 1, 20) - dt.date(1970, 1, 1)).days] == 1
    assert day_table("none").max() == 6


@pytest.mark.parametrize(("period", "step_s"), [(24, 3600), (48, 1800), (31, 3600), (12, 60)])
def test_periods_are_found_by_autocorrelation(period, step_s):
    rows = np.arange(period * 20)
    noise = np.random.default_rng(1).normal(size=len(rows))
    assert find_period(np.sin(2 * np.pi * rows / period) * 3 + noise, step_s) == period


def test_what_does_not_repeat_has_no_period():
    noise = np.random.default_rng(1).normal(size=500)
    assert find_period(noise, 3600) == 1
    assert find_period(np.ones(500), 3600) == 1


def test_a_flat_series_is_forecast_to_stay():
    times_s = 1_700_000_000 // 3600 * 3600 + 3600 * np.arange(200)
    flat = Series("flat", times_s, np.full(200, 7.0))
    for name in ("seasonal-naive", "ridge", "boosting", "arima"):
        online = fit(name, [flat], horizon=3).start([TaskSeries(flat)])
        np.testing.assert_allclose(online.forecast(3), 7.0, atol=1e-9)


def test_scenarios_lie_around_the_forecast_as_errors_did(whole):
    fitted = fit("ridge", [one.head(ROWS) for one in whole], horizon=HORIZON)
    online = fitted.start([TaskSeries(one.head(ROWS)) for one in whole])
    drawn = online.scenarios(HORIZON, 4000, np.random.default_rng(2))
    assert drawn.shape == (4000, 4, HORIZON)
    bounds = online.quantiles(HORIZON, (0.1, 0.9))
    inside = ((drawn >= bounds[0]) & (drawn <= bounds[1])).mean(axis=0)
    assert np.all(np.abs(inside - 0.8) < 0.05)
    again = online.scenarios(HORIZON, 4000, np.random.default_rng(2))
    assert np.array_equal(drawn, again)
    assert np.array_equal(online.scenarios(2, 4000, np.random.default_rng(2)), drawn[:, :, :2])


def test_series_of_the_same_times_are_drawn_together():
    random = np.random.default_rng(1)
    kinds = prepare([Series(n, 90_000 + 3600 * np.arange(300), random.normal(size=300)) for n in "abc"], "none").kinds
    common = random.normal(size=(200, 2))
    times_s = 90_000 + 3600 * np.arange(200)
    together = Residuals.of(
        [common, 2 * common, random.normal(size=(150, 2))], [times_s, times_s, times_s[:150]], kinds
    )
    drawn = together.draw(kinds, [0, 1, 2], [0, 0, 0], 500, np.random.default_rng(3))
    correlation = np.corrcoef(drawn[:, :, 0].T)
    assert correlation[0, 1] > 0.999
    assert abs(correlation[0, 2]) < 0.2


def test_errors_are_drawn_as_wide_as_they_are_in_the_hour_that_they_fall_in():
    """Six hours in which nothing is sure, and quiet ones: a path that leads from one into the other changes with it."""
    random, times_s = np.random.default_rng(1), 86_400 + 3600 * np.arange(9600)
    season = np.sin(2 * np.pi * np.arange(9600) / 24)
    kinds = prepare([Series("a", times_s, 10 * season + random.normal(size=9600))], "none").kinds
    assert kinds[0].period == 24
    falls_in = (times_s[:, None] // 3600 + np.arange(1, 4)) % 24
    errors = random.normal(size=(9600, 3)) * np.where(falls_in < 6, 5.0, 1.0)
    wide = Residuals.of([errors], [times_s], kinds)
    for slot, expected in ((22, (1.0, 5.0, 5.0)), (4, (5.0, 1.0, 1.0)), (12, (1.0, 1.0, 1.0))):
        drawn = wide.draw(kinds, [0], [slot], 4000, np.random.default_rng(2))[:, 0]
        np.testing.assert_allclose(drawn.std(axis=0) / 1.1, expected, rtol=0.15)
        low, high = wide.quantiles(kinds, 0, slot, (0.1, 0.9))
        np.testing.assert_allclose((high - low) / 2.563 / 1.1, expected, rtol=0.2)


def test_weights_prefer_members_of_small_error_and_add_up():
    random = np.random.default_rng(1)
    wrong = random.normal(size=(3, 2000)) * np.array([[1.0], [1.0], [10.0]])
    weights = _simplex(wrong @ wrong.T / 2000)
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weights[:2], 0.5, atol=0.06)
    assert weights[2] < 0.08


def test_weights_are_the_best_there_are_and_bad_members_do_not_hinder_good_ones():
    random = np.random.default_rng(2)
    wrong = random.normal(size=(4, 500)) + random.normal(size=500)
    wrong[1] *= 1.3
    products = wrong @ wrong.T / 500
    weights = _simplex(products)
    assert weights.min() >= 0
    cost = products + 0.02 * products.diagonal().min() * np.eye(4)
    for other in random.dirichlet(np.full(4, 0.5), size=5000):
        assert weights @ cost @ weights <= other @ cost @ other + 1e-12
    useless = np.zeros((5, 5))
    useless[:4, :4], useless[4, 4] = products, 1e6
    np.testing.assert_allclose(_simplex(useless), [*weights, 0.0], atol=1e-4)


def test_an_ensemble_is_as_good_as_its_best_member_in_validation(whole, monkeypatch):
    seen = []

    def spied(data, group, forecasts, targets):
        weights = _weights(data, group, forecasts, targets)
        seen.append((data.of_group(group), forecasts, targets, weights))
        return weights

    monkeypatch.setattr(fitting, "_weights", spied)
    fit("ensemble", [one.head(ROWS) for one in whole], horizon=HORIZON)
    assert len(seen) == 2
    for numbers, forecasts, targets, weights in seen:
        np.testing.assert_allclose(weights.sum(axis=0), 1.0)

        every = np.stack([np.stack([((one[n] - targets[n]) ** 2).mean(axis=0) for n in numbers]) for one in forecasts])
        mixed = [sum(w * one[n] for w, one in zip(weights, forecasts, strict=True)) - targets[n] for n in numbers]
        error, best = sum((one**2).mean(axis=0) for one in mixed), every.sum(axis=1).min(axis=0)
        # Neighbouring rows ahead share their weights, which costs a little in the rows that they were made of.
        assert (error <= 1.02 * best).all()


def test_mistakes_are_named(whole):
    with pytest.raises(OptionError, match=r'no forecaster "ensembel"; did you mean "ensemble"\?'):
        fit("ensembel", whole)
    with pytest.raises(OptionError, match='no holidays "uk"'):
        fit("ridge", whole, holidays="uk")
    with pytest.raises(InputError, match="series load_1 has 12 rows to learn from; a forecaster needs 40 or more"):
        fit("ridge", [whole[0].head(12)])
    with pytest.raises(InputError, match='two series are called "load_1"'):
        fit("ridge", [whole[0], whole[0]])
    fitted = fit("seasonal-naive", [whole[0]], horizon=3)
    with pytest.raises(OptionError, match='does not know series "load_2"; did you mean "load_1"'):
        fitted.start([TaskSeries(whole[1])])
    online = fitted.start([TaskSeries(whole[0])])
    with pytest.raises(InputError, match="2 values were observed; the job has 1 tasks"):
        online.observe([1.0, 2.0])
    with pytest.raises(InputError, match="nan was observed"):
        online.observe([float("nan")])
    with pytest.raises(OptionError, match=r"4 supersteps ahead are asked for; .* was fitted for 1 to 3"):
        online.forecast(4)
