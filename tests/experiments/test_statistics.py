import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foresail.experiments.statistics import ComparisonRow, bootstrap_interval, compare
from foresail.results.metrics import at_load, find_metric

MORE = at_load("allocation", 100)
LESS = find_metric("failed_pods", "openb", 1.3)


def by_seed(**policies):
    """Values of metrics named in each policy's table, on trace t, with seeds 1, 2, …"""
    return {
        ("t", policy, seed): {name: values[seed - 1] for name, values in metrics.items()}
        for policy, metrics in policies.items()
        for seed in range(1, 1 + len(next(iter(metrics.values()))))
    }


def compared(values, metrics=(MORE,), traces=("t",), policies=("a", "b")):
    return compare(values, traces=traces, policies=policies, baseline="a", metrics=metrics)


def test_means_deviations_differences_and_wins_by_hand():
    values = by_seed(
        a={MORE.name: [10.0, 20.0, 30.0], LESS.name: [5, 5, 5]}, b={MORE.name: [11.0, 22.0, 27.0], LESS.name: [4, 5, 7]}
    )
    rows = compared(values, [MORE, LESS])
    assert rows[0] == ComparisonRow("t", "a", "a", MORE.name, "higher", 3, 20.0, 10.0)
    assert rows[1] == ComparisonRow("t", "a", "a", LESS.name, "lower", 3, 5.0, 0.0)
    assert (rows[2].n, rows[2].mean, rows[2].pairs, rows[2].diff_mean, rows[2].wins) == (3, 20.0, 3, 0.0, 2)
    assert rows[2].sd == pytest.approx(math.sqrt((81 + 4 + 49) / 2))
    # One seed better, one worse by two, one tie, which nobody wins.
    assert (rows[3].diff_mean, rows[3].wins) == (pytest.approx(1 / 3), 1)


def test_the_interval_of_two_values_lies_between_them():
    # Resamples of {0, 1} have mean 0, 0.5 or 1 with probability 1/4, 1/2, 1/4: both tails are wider than 2.5 %.
    assert bootstrap_interval([0.0, 1.0]) == (0.0, 1.0)


def test_one_pair_has_no_interval():
    row = compared(by_seed(a={MORE.name: [1.0]}, b={MORE.name: [2.0]}))[1]
    assert (row.n, row.sd, row.pairs, row.diff_mean) == (1, None, 1, 1.0)
    assert (row.diff_low, row.diff_high, row.wins) == (None, None, 1)


def test_only_runs_with_a_partner_make_pairs():
    values = by_seed(a={MORE.name: [1.0, 2.0, None]}, b={MORE.name: [1.5, 2.5, 9.0]})
    del values["t", "a", 1]
    row = compared(values)[1]
    assert (row.n, row.mean, row.pairs, row.diff_mean) == (3, pytest.approx(13 / 3), 1, 0.5)


def test_a_policy_without_values_has_no_mean():
    row = compared(by_seed(a={MORE.name: [1.0]}, b={MORE.name: [None]}))[1]
    assert (row.n, row.mean, row.sd, row.pairs, row.diff_mean, row.wins) == (0, None, None, 0, None, 0)


def test_rows_over_all_traces_pair_trace_and_seed():
    values = {("t", "a", 1): 1.0, ("t", "b", 1): 2.0, ("u", "a", 1): 10.0, ("u", "b", 1): 9.0}
    rows = compared({key: {MORE.name: value} for key, value in values.items()}, traces=("t", "u"))
    assert [(row.trace, row.policy) for row in rows] == [
        (trace, policy) for trace in ("t", "u", "all traces") for policy in ("a", "b")
    ]
    both = rows[-1]
    assert (both.n, both.mean, both.pairs, both.diff_mean, both.wins) == (2, 5.5, 2, 0.0, 1)
    assert (both.diff_low, both.diff_high) == (-1.0, 1.0)


def test_most_intervals_cover_the_true_mean():
    random = np.random.default_rng(7)
    intervals = [bootstrap_interval(random.normal(3.0, 1.0, 30).tolist()) for _ in range(200)]
    covered = sum(low <= 3.0 <= high for low, high in intervals)
    # 95 % is meant; the percentile bootstrap of 30 values gives a little less.
    assert 175 <= covered <= 199


def test_many_values_are_drawn_in_pieces():
    values = np.random.default_rng(1).normal(0.0, 1.0, 5000)
    low, high = bootstrap_interval(values.tolist())
    half = 1.96 / math.sqrt(5000)
    assert low == pytest.approx(values.mean() - half, abs=0.003)
    assert high == pytest.approx(values.mean() + half, abs=0.003)


differences = st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=2, max_size=12)


@given(differences)
def test_the_interval_holds_the_mean(values):
    low, high = bootstrap_interval(values)
    room = 1e-9 * (1 + max(map(abs, values)))
    assert low - room <= math.fsum(values) / len(values) <= high + room


@given(differences)
def test_another_baseline_turns_the_sign(values):
    pairs = by_seed(a={MORE.name: [0.0] * len(values)}, b={MORE.name: values})
    there = compare(pairs, traces=["t"], policies=["a", "b"], baseline="a", metrics=[MORE])[1]
    back = compare(pairs, traces=["t"], policies=["a", "b"], baseline="b", metrics=[MORE])[0]
    room = 1e-9 * (1 + max(map(abs, values)))
    assert back.diff_mean == pytest.approx(-there.diff_mean, abs=room)
    assert back.diff_low == pytest.approx(-there.diff_high, abs=room)
    assert back.diff_high == pytest.approx(-there.diff_low, abs=room)
    assert there.wins + back.wins == sum(value != 0 for value in values)
