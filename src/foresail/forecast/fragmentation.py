"""GPU fragmentation: how much of a node's idle GPU the typical pods of a workload could not use."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from foresail.core.columns import CPU
from foresail.core.spec import Workload

Q1_LACK_BOTH, Q2_LACK_GPU, Q3_SATISFIED, Q4_LACK_CPU, XL_SATISFIED, XR_LACK_CPU, NO_ACCESS = range(7)
CLASSES = 7


class TypicalRequests(NamedTuple):
    """Typical pods as the kernels take them; one row a request.

    `share` is how typical a request is: a part of 1, or a whole count where sums must be exact. `gamma_at` says where a
    request's per-device milli stands in `gammas`, the distinct ones in rising order. `allowed` has one column a GPU
    model of the node table.
    """

    cpu_milli: Any
    gpu_count: Any
    share: Any
    gammas: Any
    gamma_at: Any
    allowed: Any


Asks = TypicalRequests
"""Its name once. Kernels compiled then may be on disk still, and numba looks the types in their index up by name
before it sees that they are out of date."""


@dataclass(slots=True)
class TypicalPods:
    """The most frequent requests of a workload, the most frequent first; one row a request.

    `share` sums to 1; `weight` is the same as whole counts. `allowed` has one column a GPU model of the node table.
    """

    cpu_milli: npt.NDArray[np.int64]
    gpu_milli: npt.NDArray[np.int64]
    gpu_count: npt.NDArray[np.int64]
    gpu_spec: list[str]
    weight: npt.NDArray[np.int64]
    share: npt.NDArray[np.float64]
    allowed: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, workload: Workload, models: list[str], *, cover: float = 0.95) -> TypicalPods:
        """The requests that together make up at least `cover` of the workload; memory does not tell requests apart."""
        counts: Counter[tuple[int, int, int, str]] = Counter()
        per_spec = np.bincount(workload.spec_of, minlength=len(workload.specs))
        for spec, count in zip(workload.specs, per_spec.tolist(), strict=True):
            counts[spec.cpu_milli, spec.gpu_milli, spec.gpu_count, "|".join(spec.gpu_models)] += count
        ranked = sorted(((count, *which) for which, count in counts.items() if count), reverse=True)
        total = max(1, len(workload))
        taken = []
        covered = 0
        for row in ranked:
            if covered >= cover * total:
                break
            taken.append(row)
            covered += row[0]
        weight = np.array([row[0] for row in taken], dtype=np.int64)
        gpu_milli = np.array([row[2] for row in taken], dtype=np.int64)
        specs = [row[4] for row in taken]
        return cls(
            cpu_milli=np.array([row[1] for row in taken], dtype=np.int64),
            gpu_milli=gpu_milli,
            gpu_count=np.array([row[3] for row in taken], dtype=np.int64),
            gpu_spec=specs,
            weight=weight,
            # Two divisions, not one: the published shares are made so, and a truncated score feels the last bit.
            share=(weight / total) / (max(1, covered) / total),
            allowed=_allowed(specs, models),
        )

    def allow(self, models: list[str]) -> None:
        """The node table has other models now."""
        self.allowed = _allowed(self.gpu_spec, models)

    def requests(self, share: npt.NDArray[Any]) -> TypicalRequests:
        """The columns for the kernels, weighted by `share` or by `weight`."""
        gammas, gamma_at = np.unique(self.gpu_milli, return_inverse=True)
        return TypicalRequests(self.cpu_milli, self.gpu_count, share, gammas, gamma_at.astype(np.int64), self.allowed)


def _allowed(specs: list[str], models: list[str]) -> npt.NDArray[np.bool_]:
    if not specs:
        return np.zeros((0, len(models)), dtype=np.bool_)
    return np.array([[not spec or model in spec.split("|") for model in models] for spec in specs], dtype=np.bool_)


@njit(cache=True, inline="always")
def _count_by_gamma(free: Any, gammas: Any, fitting: Any, below: Any) -> int:
    """For each distinct request per device: how many devices have that much, and what the others hold together."""
    idle = 0
    for device in range(len(free)):
        idle += free[device]
    for at in range(len(gammas)):
        gamma = gammas[at]
        enough = 0
        short = 0
        for device in range(len(free)):
            if free[device] >= gamma:
                enough += 1
            else:
                short += free[device]
        fitting[at] = enough
        below[at] = short
    return idle


@njit(cache=True)
def add_classes(
    cpu_free: int, free: Any, model: int, requests: TypicalRequests, fitting: Any, below: Any, out: Any
) -> None:
    """Write a node's idle milli by class into `out`, weighted by how typical each request is; shape (7,).

    `fitting` and `below` are scratch, as long as `requests.gammas`. The sums run over the requests in their order and
    class by class: scores are truncated, so the last bit counts. Whole shares and a whole-number `out` give exact sums
    instead.
    """
    out[:] = 0
    idle = _count_by_gamma(free, requests.gammas, fitting, below)
    if idle == 0:
        return
    for which in range(len(requests.cpu_milli)):
        at, share = requests.gamma_at[which], requests.share[which]
        enough_cpu = cpu_free >= requests.cpu_milli[which]
        if requests.gammas[at] == 0:
            out[XL_SATISFIED if enough_cpu else XR_LACK_CPU] += share * idle
        elif not requests.allowed[which, model]:
            out[NO_ACCESS] += share * idle
        elif fitting[at] >= requests.gpu_count[which]:
            if enough_cpu:
                out[Q2_LACK_GPU] += share * below[at]
                out[Q3_SATISFIED] += share * (idle - below[at])
            else:
                out[Q4_LACK_CPU] += share * idle
        else:
            out[Q2_LACK_GPU if enough_cpu else Q1_LACK_BOTH] += share * idle


@njit(cache=True)
def fragment_milli(classes: Any) -> float:
    """All classes but the satisfied one."""
    total = 0.0
    for at in range(CLASSES):
        if at != Q3_SATISFIED:
            total += classes[at]
    return total


@njit(cache=True, inline="always")
def node_fragments(cpu_free: int, free: Any, model: int, requests: TypicalRequests, scratch: Any) -> float:
    """A node's fragmentation in milli."""
    fitting, below, classes = scratch
    add_classes(cpu_free, free, model, requests, fitting, below, classes)
    return fragment_milli(classes)  # type: ignore[no-any-return] # compiled functions carry no types


@njit(cache=True, inline="always")
def scratch_for(requests: TypicalRequests) -> Any:
    gammas = len(requests.gammas)
    return np.empty(gammas, dtype=np.int64), np.empty(gammas, dtype=np.int64), np.empty(CLASSES)


@njit(cache=True)
def has_twin_before(free: Any, device: int) -> bool:
    """Whether an earlier device is as free: it would give the same score, and the first of equals is taken."""
    for earlier in range(device):  # noqa: SIM110 - numba compiles no generators
        if free[earlier] == free[device]:
            return True
    return False


@njit(cache=True)
def same_state(free: Any, gpu_free: Any, row: int, other: int) -> bool:
    if free[row, CPU] != free[other, CPU]:
        return False
    for device in range(gpu_free.shape[1]):  # noqa: SIM110 - numba compiles no generators
        if gpu_free[row, device] != gpu_free[other, device]:
            return False
    return True
