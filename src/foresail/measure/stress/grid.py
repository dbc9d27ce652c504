"""Tasks × workloads × amounts of CPU: all that can be measured."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from foresail.errors import OptionError

PUBLISHED_WORKLOADS = tuple(float(workload) for workload in range(10, 50, 3))
PUBLISHED_CPUS_MILLI = tuple(range(1000, 8501, 500))
LEAST_VALUES = 4
"""Of workloads, and of amounts of CPU: fewer make no profile."""


@dataclass(frozen=True, slots=True)
class StressPoint:
    """A task with so much work and so much CPU."""

    task: str
    workload: float
    cpu_milli: int


@dataclass(frozen=True, slots=True)
class StressGrid:
    """All points that can be measured."""

    tasks: tuple[str, ...]
    workloads: tuple[float, ...] = PUBLISHED_WORKLOADS
    """Ascending."""
    cpus_milli: tuple[int, ...] = PUBLISHED_CPUS_MILLI
    """Ascending."""

    def __post_init__(self) -> None:
        for option, values in (("--workloads", self.workloads), ("--cpus", self.cpus_milli)):
            if len(values) < LEAST_VALUES:
                raise OptionError(f"{option} has {len(values)} values; a profile needs {LEAST_VALUES} or more")
            if min(values) <= 0 or any(one >= other for one, other in pairwise(values)):
                shown = ",".join(f"{value:g}" for value in values)
                raise OptionError(f"{option} is {shown}; values are above 0 and go up")

    def of(self, task: str) -> list[StressPoint]:
        """The points of a task, along CPU first."""
        return [StressPoint(task, workload, cpu) for workload in self.workloads for cpu in self.cpus_milli]

    @property
    def points(self) -> list[StressPoint]:
        """All points, task by task."""
        return [point for task in self.tasks for point in self.of(task)]


def read_range(text: str, option: str) -> tuple[float, ...]:
    """Values of an option: one by one, `10,20,30`, or `FIRST:LAST:STEP`."""
    try:
        if ":" in text:
            first, last, step = (float(part) for part in text.split(":"))
            count = int((last - first) / step + 1e-9) + 1 if step > 0 else 0
            return tuple(round(first + step * at, 9) for at in range(count))
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f'{option} is "{text}"; write values as 10,20,30 or FIRST:LAST:STEP as 10:49:3') from None
