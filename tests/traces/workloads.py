"""Whether two workloads are the same, column by column."""

import numpy as np

from foresail.core.spec import Workload


def assert_equal(one: Workload, other: Workload) -> None:
    assert list(one.names) == list(other.names)
    assert one.specs == other.specs
    assert one.gangs == other.gangs
    columns = ("spec_of", "arrival_s", "duration_s", "priority", "gang_of")
    assert one.trainings == other.trainings
    for column in (*columns, "cpu_limit_milli", "cpu_weight", "work_cpu_s", "training_of"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column))
