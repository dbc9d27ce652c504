"""The work of a superstep: stress-ng, or a plain loop for images without it."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

SPIN = "spin"
"""The method that needs nothing but Python."""
_METHOD = re.compile(r"[a-z][a-z0-9-]*")
_SPIN_LOOPS = 1000
_LAST_LINES = 400
_END_S = 5.0


class WorkError(Exception):
    """Work that cannot be done; the message says why and what to do."""


@dataclass(frozen=True)
class Worked:
    """What was done, and how long it took."""

    ops: int
    seconds: float
    started_s: float
    """Unix time."""
    ended_s: float
    """Unix time."""


@dataclass(frozen=True)
class StressWork:
    """Operations of one kind, as many as the workload says."""

    method: str
    """A stressor of stress-ng, such as bsearch; or spin."""
    modifier: float
    """Operations for a workload of 1."""
    workers: int = 0
    """Processes of stress-ng that share the operations; 0 for one a CPU."""
    limit_s: float = 3600.0
    """Work that takes longer counts as failed."""

    def check(self) -> None:
        """Refuse what cannot work, before anybody waits for it."""
        if not _METHOD.fullmatch(self.method):
            raise WorkError(f'--method is "{self.method}"; write a stressor of stress-ng, such as bsearch, or {SPIN}')
        if not 0 < self.modifier < 1e15:
            raise WorkError(f"--modifier is {self.modifier:g}; write the operations for a workload of 1, more than 0")
        if not 0 <= self.workers <= 4096:
            raise WorkError(f"--workers is {self.workers}; write 0 (one a CPU) to 4096")
        if not 0 < self.limit_s < 1e7:
            raise WorkError(f"--work-timeout-s is {self.limit_s:g}; write seconds, more than 0")
        if self.method != SPIN and shutil.which("stress-ng") is None:
            raise WorkError(f"there is no stress-ng on PATH; install the package stress-ng, or say --method {SPIN}")

    def ops(self, workload: float) -> int:
        """Operations for a workload; a little work is one operation, none is none."""
        return max(1, round(self.modifier * workload)) if workload > 0 else 0

    def do(self, workload: float) -> Worked:
        """Work and take the time of the work alone."""
        ops = self.ops(workload)
        doing: Callable[[int], None] = spin if self.method == SPIN else self._stress
        started_s, begun_s = time.time(), time.monotonic()
        # To stress-ng no operations mean no end.
        if ops:
            doing(ops)
        seconds = time.monotonic() - begun_s
        return Worked(ops, seconds, started_s, started_s + seconds)

    def _stress(self, ops: int) -> None:
        words = [f"--{self.method}", str(self.workers), f"--{self.method}-ops", str(ops)]
        command = ["stress-ng", *words, "--quiet", "--timeout", "0", "--temp-path", "/tmp"]  # noqa: S108 - chmod needs a folder
        # In this process's own group: a signal for the group ends both.
        working = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603 - as written here
        try:
            said, _ = working.communicate(timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            raise WorkError(f"{' '.join(command)}: not done within {self.limit_s:g} s") from None
        finally:
            _end(working)
        if working.returncode:
            raise WorkError(f"{' '.join(command)} ended with {working.returncode}: {said.strip()[-_LAST_LINES:]}")


def spin(ops: int) -> None:
    """Keep one CPU busy."""
    value = 1
    for _ in range(ops):
        for _ in range(_SPIN_LOOPS):
            value = (value * 1103515245 + 12345) & 0x7FFFFFFF


def _end(working: subprocess.Popen[str]) -> None:
    """stress-ng ends its workers itself, if it is let."""
    if working.poll() is None:
        working.terminate()
        try:
            working.wait(_END_S)
        except subprocess.TimeoutExpired:
            working.kill()
            working.wait()
    if working.stdout is not None:
        working.stdout.close()
