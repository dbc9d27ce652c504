"""Sources of jobs whose judged rows were replaced."""

from dataclasses import replace

import numpy as np

from foresail.traces.series import Series, training_rows
from foresail.traces.supersteps.matrices import JobData


def corrupted(source):
    """The same source with other values in every row that jobs are judged on."""
    rng = np.random.default_rng(1)
    series = {}
    for name, one in source.series.items():
        values = one.values.copy()
        first = training_rows(one, source.data.rows, source.data.actual.shape[2])
        values[first:] = rng.uniform(-1e4, 1e4, len(values) - first)
        series[name] = Series(name, one.times_s, values)
    actual = rng.uniform(-1e4, 1e4, source.data.actual.shape)
    return replace(source, series=series, data=JobData(source.data.tasks, source.data.series, actual, None))


def same(one, other):
    """Whether two networks are the same to the last bit."""
    return all(np.array_equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))
