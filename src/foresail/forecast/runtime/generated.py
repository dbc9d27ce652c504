"""A profile that is made up by seed, for tests and benchmarks: no machine has ever taken these seconds."""

from __future__ import annotations

import numpy as np

from foresail.forecast.runtime.profile import RuntimeProfile

_NOISE = 0.03
"""How far a measurement is off: standard deviation, as a part of it."""


def generate_profile(tasks: tuple[str, ...], seed: int = 1) -> RuntimeProfile:
    """Tasks of which a part does not get quicker with CPU, 1000 to 8500 milli, at workloads from 10 to 49.

    Seconds are start + work · workload · (serial + (1 − serial) · 1000 / milli), and noise.
    """
    random = np.random.default_rng(seed)
    workloads, shares = np.arange(10.0, 50.0, 3.0), np.arange(1000.0, 8501.0, 500.0)
    shape = (len(tasks), 1, 1)
    start, work = random.uniform(1, 8, shape), random.uniform(4, 12, shape)
    serial = random.uniform(0.0, 0.12, shape)
    seconds = start + work * workloads[:, None] * (serial + (1 - serial) * 1000 / shares)
    return RuntimeProfile(tasks, workloads, shares, seconds * random.normal(1.0, _NOISE, seconds.shape))
