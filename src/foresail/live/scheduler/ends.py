"""When pods of a real cluster leave their nodes, as far as they say."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from foresail.core.clock import Clock
from foresail.core.model import Pod
from foresail.kube.objects.quantity import RequestError
from foresail.kube.objects.values import DURATION_S, seconds_of
from foresail.live.cache.cache import Cache
from foresail.live.cache.pods import CachedPod


class PodEnds:
    """Ends on the queue's clock: a pod's `activeDeadlineSeconds`, or its annotation if that is sooner."""

    def __init__(self, cache: Cache, clock: Clock, unix_s: Callable[[], float] = time.time) -> None:
        self._cache, self._clock, self._unix_s = cache, clock, unix_s

    def __call__(self, pod: Pod) -> float:
        cached = self._cache.pods.get(str(pod.uid))
        runs_s = math.inf if cached is None else _runs_s(cached)
        if cached is None or runs_s == math.inf:
            return math.inf
        has_run_s = 0.0 if cached.started_s is None else max(0.0, self._unix_s() - cached.started_s)
        return self._clock.now() + runs_s - has_run_s


def _runs_s(cached: CachedPod) -> float:
    """How long it runs at most; infinity if it does not say, or not so that it can be read."""
    text = cached.annotations.get(DURATION_S)
    try:
        said_s = math.inf if text is None else seconds_of(text, DURATION_S)
    except RequestError:
        said_s = math.inf
    return min(said_s, cached.active_deadline_s)
