import numpy as np
import pytest

from foresail.core.memory import Column


@pytest.mark.parametrize("count", [1, 255, 300, 9_000, 20_001])
def test_the_best_place_is_the_first_highest_total_whatever_was_written_before(count):
    random = np.random.default_rng(count)
    column = Column(count, [], [])
    plain = np.full(count, -np.inf)
    for _ in range(300):
        places = random.permutation(count)[: random.integers(1, 40)]
        # Few different totals, so that ties, losses of the best and whole refused blocks all occur.
        totals = random.choice([-np.inf, 0.0, 1.0, 2.0, 50.0], len(places), p=[0.5, 0.2, 0.15, 0.1, 0.05])
        plain[places] = totals
        column.replace_totals(places, totals)
        assert column.best() == plain.argmax()
        assert column.total[column.best()] == plain.max()


def test_a_total_that_is_no_number_is_found_first_so_that_it_can_be_reported():
    column = Column(10_000, [], [])
    column.replace_totals(np.array([3, 9_000]), np.array([7.0, np.nan]))
    assert np.isnan(column.total[column.best()])
