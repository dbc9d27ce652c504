"""Work on this machine, in a control group that limits its CPU as a kubelet limits a container's."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

from foresail.errors import ForesailError, OptionError
from foresail.lab import cgroups
from foresail.lab.errors import LabError
from foresail.lab.packages import MEASURING, install_command
from foresail.measure.machine import processor
from foresail.measure.stress.run import Work
from foresail.workloads.stress import StressTook


class StressHere:
    """One work after the other, each in the same control group."""

    def __init__(self) -> None:
        if shutil.which("stress-ng") is None:
            raise OptionError(f"stress-ng is not installed; run as root: {install_command(list(MEASURING.values()))}")

    @property
    def where(self) -> dict[str, str]:
        said = subprocess.run(["stress-ng", "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S607 - whichever is on PATH
        version = said.removeprefix("stress-ng, version ").partition(" ")[0].strip()
        return {"on": "local", "processor": processor(), "stress-ng": version}

    @property
    def most_milli(self) -> int:
        return 1000 * len(os.sched_getaffinity(0))

    def do(self, cpu_milli: int, works: Sequence[Work]) -> Generator[StressTook]:
        group = f"/foresail-measure-{os.getpid()}-{secrets.token_hex(3)}"
        try:
            cgroups.make(group, cpu_limit_milli=cpu_milli)
            # The limit is to be what holds work up, not what else the machine does.
            cgroups.put_first(group)
            joined = cgroups.process_files(group)
        except (LabError, OSError) as error:
            raise ForesailError(
                f"no control group with a limit of {cpu_milli} milli can be made here ({error.__cause__ or error}); "
                "be root on a machine whose control groups root may change, or measure with --on kube"
            ) from error
        try:
            yield from _do(joined, works)
        finally:
            cgroups.remove(group)


def _do(joined: Sequence[Path], works: Sequence[Work]) -> Generator[StressTook]:
    command = [sys.executable, "-m", "foresail.workloads.stress"]
    command += [word for file in joined for word in ("--join", str(file))]
    command += [":".join(map(str, work)) for work in works]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - as written here
        assert process.stdout is not None  # noqa: S101 - they are pipes, which the types do not say
        assert process.stderr is not None  # noqa: S101 - see above
        told = 0
        try:
            for line in process.stdout:
                told += 1
                yield StressTook(**json.loads(line))
            said = process.stderr.read()
        except BaseException:
            # Its workers go with the control group.
            process.kill()
            raise
    if process.returncode or told < len(works):
        last = " ".join(said.strip().splitlines()[-1:])
        raise ForesailError(f"stress-ng failed in its control group (ended with {process.returncode}): {last}")
