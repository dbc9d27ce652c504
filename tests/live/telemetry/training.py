"""A training loop in a process of its own, with the reporter as users copy it: one file, and nothing of Foresail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

from foresail.workloads import report

_LOOP = """
import json, sys
import my_report
for line in sys.stdin:
    my_report.report(**json.loads(line))
    print("arrived" if my_report.flush(30) else "lost", file=sys.stderr, flush=True)
"""
_BOARD = """
import json, sys
from tensorboardX import SummaryWriter
writer = SummaryWriter(sys.argv[1], flush_secs=1)
for line in sys.stdin:
    row = json.loads(line)
    writer.add_scalar("train/loss", row["loss"], row["step"])
    print("arrived", file=sys.stderr, flush=True)
"""
WITHIN_S = 60


class TrainingProcess:
    """Reports what it is told to, when it is told to."""

    def __init__(self, folder: Path, *, board: Path | None = None, **environment: str) -> None:
        """`board`: writes event files there instead, as jobs do that know nothing of Foresail."""
        folder.mkdir()
        shutil.copy(report.__file__, folder / "my_report.py")
        (folder / "train.py").write_text(_LOOP if board is None else _BOARD)
        self._command = [sys.executable, str(folder / "train.py"), *([] if board is None else [str(board)])]
        without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._environment = {**without, "PYTHONUNBUFFERED": "1", **environment}
        self.lines: list[str] = []
        """What it has printed."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reading = threading.Thread(target=lambda: self.lines.extend(self._process.stdout), daemon=True)
        self._reading.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(WITHIN_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._reading.join(WITHIN_S)
            self._process.stdout.close()
            self._process.stderr.close()

    def report(self, **row: Any) -> None:
        """Returns when the row has arrived."""
        self._process.stdin.write(json.dumps(row) + "\n")
        self._process.stdin.flush()
        said = self._process.stderr.readline()
        assert said == "arrived\n", said + self._process.stderr.readline()
