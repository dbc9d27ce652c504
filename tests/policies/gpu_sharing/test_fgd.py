"""What fgd needs to know before it can answer."""

import numpy as np
import pytest

from foresail.core.spec import PodSpec, Workload
from foresail.errors import PolicyError
from foresail.policies.gpu_sharing.fgd import Fgd
from foresail.testing import make_pod, make_table

SHARE = PodSpec(cpu_milli=1, gpu_count=1, gpu_milli=300)


def test_without_a_lesson_neither_scores_nor_devices_of_shares_are_known():
    table = make_table(free=[(4, 8, 2000)])
    pod = make_pod(gpu=300, nodes=table)
    for asked in (Fgd().score, lambda pod, nodes: Fgd().devices(pod, nodes, 0)):
        with pytest.raises(PolicyError, match="fgd has not seen a workload yet"):
            asked(pod, table.all)


def test_a_model_that_came_after_the_lesson_is_known_to_the_device_rule_too():
    policy = Fgd()
    policy.learn(Workload(["a"], [SHARE], np.zeros(1, dtype=np.int64)), make_table(free=[(4, 8, 1000)]).all)
    table = make_table(free=[(4, 8, 2000)] * 3, gpu_model=["A10", "T4", "V100M32"])
    assert policy.devices(make_pod(gpu=300, nodes=table), table.all, 2) == (0,)
    # The kernels look models up without a check, so there must be a column for each.
    assert policy._requests[-1].shape == (1, len(table.models))
