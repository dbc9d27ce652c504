import numpy as np
import pytest

from foresail.core.decide import decide
from foresail.core.memory import Column
from foresail.core.model import Placement
from foresail.core.profile import Profile, UsedScore
from foresail.errors import PolicyError
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.plain.fit import Fit
from foresail.testing import make_pod, make_table


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


class Moody:
    """Raises while it is in a mood."""

    row_wise = True
    in_a_mood = False

    def score(self, pod, nodes):
        if self.in_a_mood:
            raise ValueError("not now")
        return nodes.free[:, 0]


def test_what_a_policy_would_not_say_is_asked_for_again():
    table = make_table(allocatable=[(4000, 8, 0), (5000, 8, 0), (3000, 8, 0)])
    moody = Moody()
    profile = Profile("p", filters=[("fit", Fit())], scores=[UsedScore("moody", moody)], devices=LeastSufficient())
    pod = make_pod("p", cpu=1, nodes=table)
    for expected in ("node-1", "node-0"):
        moody.in_a_mood = True
        for _ in range(2):
            with pytest.raises(PolicyError, match="not now"):
                decide(pod, table, profile)
        moody.in_a_mood = False
        assert decide(pod, table, profile).node == expected
        table.assume(make_pod(f"on {expected}", cpu=2500, nodes=table), Placement(table.row_of[expected], expected))
