"""What policies that learn are told on a cluster: the pods that are there, or those of a trace."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable

import numpy as np

from foresail.core.decide import decide
from foresail.core.model import Pod
from foresail.core.policy import Learning
from foresail.core.profile import Profile
from foresail.core.spec import PodSpec, Workload
from foresail.core.table import NodeTable
from foresail.errors import ForesailError, PolicyError
from foresail.live.cache.cache import Cache
from foresail.logs import get_logger

_LEAST_NEW = 10
_PART_NEW = 0.1
_LOOK_EVERY_S = 30.0


def workload_of(cache: Cache) -> Workload:
    """All pods of the cluster, placed and waiting."""
    specs: dict[PodSpec, int] = {}
    names, spec_of = [], []
    for pod in cache.pods.values():
        names.append(f"{pod.namespace}/{pod.name}")
        spec_of.append(specs.setdefault(pod.spec, len(specs)))
    return Workload(names, list(specs), np.array(spec_of, dtype=np.int64))


class Lessons:
    """Tells a profile's policies which pods to expect, anew when the cluster has changed enough.

    `given` is a workload that is known beforehand; then it is the only lesson, repeated when GPU models come or go.
    """

    def __init__(self, cache: Cache, given: Workload | None = None) -> None:
        self._cache = cache
        self._given = given
        self._taught: tuple[Profile, list[str], int] | None = None

    def teach(self, profile: Profile) -> bool:
        """Whether there was something new to learn."""
        plugins = [*(used.plugin for used in profile.plugins), profile.devices]
        if not any(isinstance(plugin, Learning) for plugin in plugins):
            return False
        table, seen = self._cache.table, self._cache.seen
        if self._taught is not None:
            taught, models, when = self._taught
            enough = self._given is None and seen - when >= max(_LEAST_NEW, _PART_NEW * len(self._cache.pods))
            if taught is profile and models == table.models and not enough:
                return False
        self._taught = (profile, list(table.models), seen)
        try:
            profile.learn(workload_of(self._cache) if self._given is None else self._given, table.all)
        except ForesailError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise PolicyError(
                f"a policy of {profile.name} cannot learn from the pods it is to expect: {said}"
            ) from error
        return True

    async def repeat(self, profile: Callable[[], Profile]) -> None:
        """Look now and then whether there is something new to learn, for ever."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                self.teach(profile())
            except ForesailError as error:
                # What was learnt before still holds.
                get_logger().error("lesson_failed", error=str(error))


def warm_up(table: NodeTable, profile: Profile) -> None:
    """Decide once about pods that nobody sent: compiled kernels are loaded now, not while the first pod waits."""
    for spec in (PodSpec(1, 1), PodSpec(1, 1, 1, 1)):
        with contextlib.suppress(PolicyError):  # the first real pod will tell it
            decide(Pod("warm-up", table.shape(spec)), table, profile)
    # What is there now stays for long; looking at it for garbage would only make some decisions late.
    gc.collect()
    gc.freeze()
