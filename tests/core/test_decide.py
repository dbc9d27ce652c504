"""What is seen of a decision from outside is the decision itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.decide import Decision, decide
from foresail.core.model import NoFit, Pod
from foresail.core.profile import Profile, UsedScore
from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.errors import PolicyError
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.plain.fit import Fit
from foresail.policies.profiles.load import load_profile


def table_of(cpus_milli):
    return NodeTable([NodeSpec(f"n{at}", cpu_milli, 64) for at, cpu_milli in enumerate(cpus_milli)])


@settings(deadline=None)
@given(
    st.sampled_from(["best-fit", "least-allocated", "most-allocated"]),
    st.lists(st.sampled_from([500, 2000, 4000, 8000]), max_size=8),
)
def test_the_next_best_is_what_decide_takes_without_those_before(policy, cpus_milli):
    profile, left = load_profile(policy), list(enumerate(cpus_milli))
    table = table_of(cpus_milli)
    order = list(Decision(Pod("p", table.shape(PodSpec(1000, 1))), table, profile).best_first())
    for row in order:
        fewer = table_of([cpu_milli for _, cpu_milli in left])
        taken = decide(Pod("p", fewer.shape(PodSpec(1000, 1))), fewer, profile)
        assert left.pop(taken.row)[0] == row
    fewer = table_of([cpu_milli for _, cpu_milli in left])
    assert isinstance(decide(Pod("p", fewer.shape(PodSpec(1000, 1))), fewer, profile), NoFit)


class NoNumber:
    row_wise = True

    def score(self, _pod, nodes):
        return np.where(nodes.rows == 1, np.nan, 1.0)


def test_a_score_that_is_no_number_is_told():
    profile = Profile("odd", filters=[("fit", Fit())], scores=[UsedScore("odd", NoNumber())], devices=LeastSufficient())
    table = table_of([4000, 4000])
    with pytest.raises(PolicyError, match='"odd" scored node n1 NaN for p'):
        list(Decision(Pod("p", table.shape(PodSpec(1000, 1))), table, profile).best_first())
