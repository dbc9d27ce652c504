"""What a planner of splits is: it is told what may come, and says how the CPU is split from now on, or keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Units = npt.NDArray[np.int64]
"""How many steps of CPU each task has above the least."""


@dataclass(frozen=True, slots=True)
class ShareGrid:
    """The splits there are: every task has the least and a number of steps more, together no more than the total."""

    tasks: int
    least_milli: int = 1000
    """What every task has, in milli-CPU."""
    step_milli: int = 100
    total_milli: int = 24000
    """What all tasks have together."""
    cap_milli: int | None = None
    """The most that one task may have; None for no cap."""

    def __post_init__(self) -> None:
        if self.tasks < 1:
            raise ValueError(f"{self.tasks} tasks; a job has 1 or more")
        for name in ("least_milli", "step_milli"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is 1 or more")
        if self.total_milli < self.tasks * self.least_milli:
            raise ValueError(
                f"{self.tasks} tasks with {self.least_milli} milli each need {self.tasks * self.least_milli}, "
                f"and the job has {self.total_milli}"
            )
        if self.cap_milli is not None and self.cap_milli < self.least_milli:
            raise ValueError(f"the cap is {self.cap_milli} milli, below the least of {self.least_milli}")

    @property
    def units(self) -> int:
        """Steps to be given out; no more than the tasks can take."""
        left = (self.total_milli - self.tasks * self.least_milli) // self.step_milli
        return left if self.cap_milli is None else min(left, self.tasks * self.most)

    @property
    def most(self) -> int:
        """The most steps that one task can have."""
        left = (self.total_milli - self.tasks * self.least_milli) // self.step_milli
        return left if self.cap_milli is None else min(left, (self.cap_milli - self.least_milli) // self.step_milli)

    @property
    def shares_milli(self) -> Floats:
        """What a task has with 0, 1, … most steps."""
        return self.least_milli + self.step_milli * np.arange(self.most + 1, dtype=np.float64)

    def milli(self, split: Units) -> list[int]:
        return [self.least_milli + self.step_milli * int(units) for units in split]

    def even(self) -> Units:
        """As near to equal parts as steps allow; the first tasks have what is left over."""
        part, over = divmod(self.units, self.tasks)
        return part + (np.arange(self.tasks) < over).astype(np.int64)


@dataclass(frozen=True, slots=True)
class SplitOutlook:
    """What a planner looks at before a superstep."""

    step: int
    """How many supersteps have been."""
    left: int
    """How many are to come."""
    current: Units | None
    """The split as it is; None before the first."""
    workloads: Floats
    """The workloads expected next: tasks × horizon."""
    scenarios: Floats | None = None
    """Workloads that may come: scenarios × tasks × horizon; for planners that ask for them."""


class SplitPlanner(Protocol):
    """Says how the CPU is split. What it remembers between two calls is when it wanted to look again."""

    horizon: int
    """How many supersteps it looks ahead."""
    scenarios: int
    """How many scenarios it wants; 0 for one that plans with expected workloads alone."""

    def plan(self, outlook: SplitOutlook) -> Units | None:
        """The split from now on; None keeps the current one. Before the first superstep it is never None."""
