"""`python -m foresail.workloads.stress TASK:OPS[:WORKERS] …`: do the work of stress-ng tasks, one after the
other, and say what each took, a line of JSON each.

Seconds are those around the work, on the clock; CPU time is that of stress-ng and its workers; throttled is the share
of the 100 ms periods in which the limit on CPU held the work up.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

OPS = {
    "affinity": 400_000,
    "atomic": 250_000,
    "bsearch": 4_000,
    "cap": 2_000_000,
    "chmod": 4_000,
    "memcpy": 4_000,
    "vecmath": 10_000,
    "zero": 1_000_000,
}
"""The tasks of the published job, each with the bogo operations of stress-ng that a unit of workload counts there."""

_IN_MEMORY = "/dev/shm"  # noqa: S108 - only a folder in it is used


@dataclass(frozen=True)
class StressTook:
    """What one piece of work took."""

    task: str
    ops: int
    seconds: float
    cpu_s: float
    throttled: float | None
    """Share of periods; None where nothing limits CPU, or nobody counts."""


class StressError(Exception):
    """stress-ng is not there, or did not do its work."""


def stress_command(task: str, ops: int, workers: int) -> list[str]:
    """The command that does so many operations in all, shared by the workers; 0 workers: one for each core."""
    return ["stress-ng", "--quiet", f"--{task}", str(workers), f"--{task}-ops", str(ops)]


def do_work(task: str, ops: int, workers: int) -> StressTook:
    """Do the work and say what it took."""
    if shutil.which("stress-ng") is None:
        raise StressError("stress-ng is not installed; run as root: apt-get install -y stress-ng")
    # Some tasks make files where they stand: in memory, since a limit on CPU says nothing of a disk.
    with tempfile.TemporaryDirectory(
        prefix="foresail-stress-", dir=_IN_MEMORY if _usable(_IN_MEMORY) else None
    ) as folder:
        before, cpu_s = periods(), _cpu_s()
        begun_s = time.perf_counter()
        ran = subprocess.run(  # noqa: S603 - as written here
            stress_command(task, ops, workers), cwd=folder, capture_output=True, text=True, check=False
        )
        took_s = time.perf_counter() - begun_s
        used_s, after = _cpu_s() - cpu_s, periods()
    if ran.returncode:
        said = " ".join((ran.stderr or ran.stdout).split()[-30:])
        raise StressError(f"stress-ng --{task} {workers} --{task}-ops {ops} ended with {ran.returncode}: {said}")
    throttled = None
    if before is not None and after is not None and after[0] > before[0]:
        throttled = (after[1] - before[1]) / (after[0] - before[0])
    return StressTook(task, ops, took_s, used_s, throttled)


def _usable(folder: str) -> bool:
    return Path(folder).is_dir() and os.access(folder, os.W_OK)


def _cpu_s() -> float:
    """CPU time of all children that have ended, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def periods(mounts: str | None = None, groups: str | None = None) -> tuple[int, int] | None:
    """Periods in which this process's control group ran, and those of them in which it was held up."""
    folder = own_cpu_group(
        Path("/proc/self/mountinfo").read_text(encoding="utf-8") if mounts is None else mounts,
        Path("/proc/self/cgroup").read_text(encoding="utf-8") if groups is None else groups,
    )
    if folder is None:
        return None
    # Where a group of v2 has processes and no limit of its own, the one above may have it.
    for place in (folder, folder.parent):
        try:
            lines = (place / "cpu.stat").read_text(encoding="ascii").split()
        except OSError:
            continue
        found = dict(zip(lines[::2], lines[1::2], strict=False))
        if int(found.get("nr_periods", 0)):
            return int(found["nr_periods"]), int(found["nr_throttled"])
    return 0, 0


def own_cpu_group(mounts: str, groups: str) -> Path | None:
    """The folder of the control group that limits this process's CPU, under cgroup v1 or v2, in a pod or outside."""
    paths = {}
    for line in groups.splitlines():
        _number, names, path = line.split(":", 2)
        paths.update(dict.fromkeys(names.split(","), path))
    found = {}
    for line in mounts.splitlines():
        here, _, there = line.partition(" - ")
        root, mount = here.split()[3:5]
        kind, _source, options = there.split()[:3]
        name = "cpu" if kind == "cgroup" and "cpu" in options.split(",") else "" if kind == "cgroup2" else None
        if name is None or name not in paths:
            continue
        # In a pod a group's own folder is what is mounted, and its path is still the one outside.
        below = paths[name].removeprefix(root.rstrip("/")) if root != "/" else paths[name]
        found[name] = Path(mount) / below.lstrip("/")
    return found.get("cpu", found.get(""))


def main() -> None:
    """Do each work that is named and print what it took."""
    options = argparse.ArgumentParser(prog="python -m foresail.workloads.stress", description=__doc__)
    options.add_argument(
        "work",
        nargs="+",
        metavar="TASK:OPS[:WORKERS]",
        help="a task of stress-ng, its operations in all, and who shares them",
    )
    options.add_argument("--workers", type=int, default=0, help="processes unless told above; 0: one for each core")
    options.add_argument(
        "--join", action="append", default=[], metavar="FILE", help="cgroup.procs of a control group to be in"
    )
    asked = options.parse_args()
    for file in asked.join:
        Path(file).write_text(str(os.getpid()), encoding="ascii")
    for work in asked.work:
        task, ops, *workers = work.split(":")
        try:
            took = do_work(task, int(ops), int(workers[0]) if workers else asked.workers)
        except StressError as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(1)
        sys.stdout.write(json.dumps(asdict(took)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
