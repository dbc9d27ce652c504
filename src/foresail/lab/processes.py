"""Start detached processes, know them again later, and end exactly those."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from foresail.lab.errors import LabError

MARK = "FORESAIL_LAB_ID"
"""Every process of a lab carries the lab's id in this variable: it is found even if its start went unrecorded."""
_LAUNCH = 'log=$1; shift; exec "$@" </dev/null >>"$log" 2>&1 & echo $!'
_PASSED_ON = ("PATH", "LANG", "TZ", "TMPDIR")
_GONE_S = 20.0


@dataclass(frozen=True)
class ProcessId:
    """A process of this boot: a pid alone may be given to another process later."""

    pid: int
    start_ticks: int
    """Clock ticks since boot at which it started, field 22 of /proc/PID/stat."""

    @property
    def alive(self) -> bool:
        return start_ticks(self.pid) == self.start_ticks

    @property
    def is_there(self) -> bool:
        """Alive, or a zombie: that may have threads yet, which keep its files and ports."""
        return start_ticks(self.pid, zombie=True) == self.start_ticks


def start_ticks(pid: int, *, zombie: bool = False) -> int | None:
    """When a process started; None if there is none, or only a `zombie` and that does not count."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold spaces and parentheses itself.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" and not zombie else int(fields[19])


def launch(command: Sequence[str | Path], *, log: Path, lab_id: str, folder: Path) -> ProcessId:
    """Start a process that outlives us; its output is appended to `log`."""
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # HOME keeps programs from reading or writing the user's own settings.
    environment |= {MARK: lab_id, "HOME": str(folder)}
    # The shell ends at once, so the process belongs to init and never becomes our zombie.
    ran = subprocess.run(  # noqa: S603 - our own command line
        ["/bin/sh", "-c", _LAUNCH, "sh", str(log), *map(str, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    pid = int(ran.stdout)
    started = start_ticks(pid)
    if started is None:
        raise LabError(f"{Path(command[0]).name} ended at once{last_lines(log)}")
    return ProcessId(pid, started)


def marked(lab_id: str) -> list[ProcessId]:
    """All processes that carry the lab's id."""
    wanted = f"{MARK}={lab_id}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        pid = int(folder.name)
        # Taken first: if the pid changes hands while we look, the number no longer fits and nobody is hurt.
        started = start_ticks(pid)
        with suppress(OSError):
            if started is not None and wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(ProcessId(pid, started))
    return found


def running(lab_id: str, command: Sequence[str | Path]) -> ProcessId | None:
    """The lab's process with exactly this command line, whoever started it."""
    wanted = [str(word).encode() for word in command]
    for process in marked(lab_id):
        with suppress(OSError):
            if Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")[:-1] == wanted:
                return process
    return None


def kill(processes: Iterable[ProcessId], *, within_s: float = _GONE_S) -> list[ProcessId]:
    """End processes at once, and wait until their ports are free; returns those still there after the time given."""
    watched: dict[ProcessId, int] = {}
    deadline = time.monotonic() + within_s
    left = []
    try:
        for process in processes:
            with suppress(ProcessLookupError):
                # A pidfd stays with the process it was opened for, so the check after it holds until the signal.
                watched[process] = descriptor = os.pidfd_open(process.pid)
                if process.is_there:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        for process, descriptor in watched.items():
            if process.is_there:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)  # readable once the last thread has ended
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    left.append(process)
        return left
    finally:
        for descriptor in watched.values():
            os.close(descriptor)


def last_lines(log: Path, count: int = 5) -> str:
    """The end of a log, to put into an error; empty if there is none."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "".join(f"\n  {line[:400]}" for line in [f"(from {log})", *lines[-count:]])
