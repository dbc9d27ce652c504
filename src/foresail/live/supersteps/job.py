"""What a coordinator is given, and what it tells of each superstep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from foresail.controllers.supersteps.splitter import JobSplitter
from foresail.errors import ForesailError, InputError


class JobFailedError(ForesailError):
    """The job cannot go on; the message says why."""


@dataclass(frozen=True, slots=True)
class GangTask:
    """One task: what its pod does in a superstep."""

    name: str
    method: str
    """A stressor of stress-ng, or spin."""
    modifier: float
    """Operations for a workload of 1."""
    workers: int = 1
    """Processes that share the work; 0 for one a core."""


@dataclass(frozen=True, eq=False, slots=True)
class GangJob:
    """A job to be run."""

    name: str
    run: str
    """Tells this job from another one of its name: what that one left behind does not count."""
    tasks: tuple[GangTask, ...]
    works: npt.NDArray[np.float64]
    """Supersteps × tasks."""
    splitter: JobSplitter
    measures_penalty: bool
    """Whether the planner is told what changes really take."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(task.name for task in self.tasks)

    def works_of(self, step: int) -> dict[str, float]:
        return dict(zip(self.names, self.works[step].tolist(), strict=True))


class ChangedSize(msgspec.Struct, frozen=True, kw_only=True):
    """How one resize ended."""

    outcome: str
    took_s: float
    """From the controller's word to its end."""
    allocated_s: float | None = None
    """From the controller's word until the kubelet had set it aside."""


class SuperstepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One superstep as it was. Mappings are by task."""

    step: int
    workload: dict[str, float]
    cpu_milli: dict[str, int]
    """What each task had."""
    seconds: dict[str, float]
    """How long each task worked."""
    attempt: dict[str, int]
    """Which pod of the task it was that did the work, counted by the board."""
    superstep_s: float
    """From when it was opened until all had reported; at least what the slowest task took."""
    changed: bool
    """Whether the split was changed before it."""
    changing_s: float
    """What that took, from the controller's word until all pods had what they were to have."""
    recreated: bool = False
    """Whether pods were made anew for it, as they could not be resized."""
    resizes: tuple[ChangedSize, ...] = ()
    penalty_s: float | None = None
    """What a change was reckoned to take when it was decided; None for a strategy that does not weigh it."""


class RowFile:
    """Rows of a job, a line each; who starts it again goes on where it ended."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self) -> list[SuperstepRow]:
        """Those that are whole, in the order of their supersteps; of one that stands there twice the last."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=self._path) from error
        found: dict[int, SuperstepRow] = {}
        for number, line in enumerate(lines[:-1], 1):  # what stands after the last newline was being written
            try:
                row = msgspec.json.decode(line, type=SuperstepRow)
            except msgspec.DecodeError as error:
                raise InputError(f"no row of a superstep: {error}", path=self._path, line=number) from error
            found[row.step] = row
        return [found[step] for step in sorted(found)]

    def add(self, row: SuperstepRow) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        whole = self._path.read_bytes() if self._path.exists() else b""
        with self._path.open("r+b" if whole else "wb") as file:
            # A line that was cut short by a crash is written over.
            file.seek(whole.rfind(b"\n") + 1)
            file.write(msgspec.json.encode(row) + b"\n")
            file.truncate()

    def forget(self) -> None:
        """Another job begins."""
        self._path.unlink(missing_ok=True)


def last_sizes(rows: list[SuperstepRow], names: tuple[str, ...]) -> Mapping[str, int]:
    """What tasks had in the last superstep of which there is a row; empty if there is none."""
    sizes = rows[-1].cpu_milli if rows else {}
    return sizes if set(sizes) == set(names) else {}
