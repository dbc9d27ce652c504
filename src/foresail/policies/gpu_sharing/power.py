"""Power: prefer the node whose electric power grows least."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foresail.core.model import Ints, Nodes, Pod, Scores
from foresail.core.spec import WHOLE_GPU_MILLI
from foresail.core.table import CPU
from foresail.errors import OptionError
from foresail.policies.plain.scaling import min_max

GPU_WATTS = {
    "T4": (10, 70),
    "A10": (30, 150),
    "P100": (25, 250),
    "V100": (30, 300),
    "A100": (50, 400),
    "G2": (30, 150),
    "G3": (50, 400),
}
"""Watts of one device, idle and in use. The anonymous G2 and G3 of the openb traces count as A10 and A100."""

_Watts = npt.NDArray[np.float64]


class Power:
    """Place the pod where it adds the fewest watts, after Lettich et al., power-aware scheduling (CCGrid '25).

    score = trunc(P(before) - P(after)), P = P_GPU + P_CPU in watts. P_GPU: W_idle for each idle device and W_full for
    each device in use, however little. P_CPU: of ⌈vCPU/2⌉ physical cores all but ⌊free vCPU/2⌋ work;
    ⌈working/cores per socket⌉ sockets take full power, the others idle power. Then over the feasible nodes
    (s - min)·100 div (max - min); all 100 if all are equal. Usually mixed with fgd: power:100+fgd:900.

    `cpu_idle_w`, `cpu_full_w`: watts of one CPU socket. `cores_per_socket`: its physical cores. `gpu_idle_w`,
    `gpu_full_w`: watts of one GPU of a model that is not in the built-in table (V100M32 counts as V100).
    """

    row_wise = True
    keeps_best = True

    def __init__(
        self,
        *,
        cpu_idle_w: float = 15.0,
        cpu_full_w: float = 120.0,
        cores_per_socket: int = 16,
        gpu_idle_w: float = 25.0,
        gpu_full_w: float = 250.0,
    ) -> None:
        if cores_per_socket < 1:
            raise OptionError(f"power: cores_per_socket is {cores_per_socket}; a socket has at least 1 core")
        for name, idle, full in (("cpu", cpu_idle_w, cpu_full_w), ("gpu", gpu_idle_w, gpu_full_w)):
            if not 0 <= idle <= full:
                raise OptionError(
                    f"power: {name}_idle_w is {idle} and {name}_full_w is {full}; need 0 <= idle <= full power"
                )
        self._cpu_idle_w = cpu_idle_w
        self._cpu_full_w = cpu_full_w
        self._cores_per_socket = cores_per_socket
        self._other_gpu_watts = (gpu_idle_w, gpu_full_w)
        self._extra_watts: dict[tuple[str, ...], _Watts] = {}

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        vcpu_milli, free_milli = nodes.allocatable[:, CPU], nodes.free[:, CPU]
        cpu_w = self._cpu_watts(vcpu_milli, free_milli) - self._cpu_watts(vcpu_milli, free_milli - pod.request[CPU])
        if not pod.gpu_count:
            return np.trunc(cpu_w)
        free = nodes.gpu_free
        in_use_with_room = (free < WHOLE_GPU_MILLI) & (free >= pod.gpu_milli)
        # Devices in use come first: they draw full power anyway.
        newly_used = np.maximum(pod.gpu_count - in_use_with_room.sum(axis=1), 0)
        gpu_w: _Watts = newly_used * self._extra_watts_of(nodes.table.models)[nodes.gpu_model]
        return np.trunc(cpu_w - gpu_w)

    def normalize(self, _pod: Pod, _nodes: Nodes, raw: Scores) -> Scores:
        return min_max(raw, all_equal=100)

    def _cpu_watts(self, vcpu_milli: Ints, free_milli: Ints) -> _Watts:
        cores = -(-vcpu_milli // 2000)
        working = cores - free_milli // 2000
        sockets = -(-cores // self._cores_per_socket)
        active = -(-working // self._cores_per_socket)
        return active * self._cpu_full_w + (sockets - active) * self._cpu_idle_w

    def _extra_watts_of(self, models: list[str]) -> _Watts:
        """What one device draws more in use than idle, by model code."""
        extra = self._extra_watts.get(tuple(models))
        if extra is None:
            extra = np.array([full - idle for idle, full in map(self._gpu_watts, models)], dtype=np.float64)
            self._extra_watts[tuple(models)] = extra
        return extra

    def _gpu_watts(self, model: str) -> tuple[float, float]:
        # A model name may go on with the memory size, as in V100M32.
        known = max((name for name in GPU_WATTS if model.startswith(name)), key=len, default="")
        return GPU_WATTS.get(known, self._other_gpu_watts)
