"""When pods of a real cluster leave their nodes at the latest: by what kubelets enforce, not by what pods say."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from foresail.core.clock import Clock
from foresail.core.model import Pod
from foresail.live.cache.cache import Cache


class PodEnds:
    """Ends on the queue's clock, by `activeDeadlineSeconds` and the time that a pod is given to end.

    An annotation would be a claim: with it anybody could fill in where room is held, and stay.
    """

    def __init__(self, cache: Cache, clock: Clock, unix_s: Callable[[], float] = time.time) -> None:
        self._cache, self._clock, self._unix_s = cache, clock, unix_s

    def __call__(self, pod: Pod) -> float:
        cached = self._cache.pods.get(str(pod.uid))
        if cached is None or cached.gone_after_s == math.inf:
            return math.inf
        has_run_s = 0.0 if cached.started_s is None else max(0.0, self._unix_s() - cached.started_s)
        return self._clock.now() + cached.gone_after_s - has_run_s
