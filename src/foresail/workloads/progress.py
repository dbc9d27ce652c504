"""A training loop's side of the bargain in one object: rows, checkpoints, and an exit code that says what happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from foresail.workloads import report as reports

_SAVE_AGAIN_S = 30.0


class TrainingProgress:
    """Called once a step: reports it, saves what is due or asked for, and leaves with 143 after SIGTERM.

    A loop that resumes from a checkpoint of step `start` goes on to count from there:

        progress = TrainingProgress(total=1000, start=start, save=save)
        for step in range(start + 1, 1001):
            ...
            progress.step(step, loss=loss)
        progress.done()

    Without `save` it reports alone, and SIGTERM ends the process as ever.
    """

    def __init__(
        self,
        total: int | None = None,
        save: Callable[[int], object] | None = None,
        *,
        start: int = 0,
        every: int = 1,
        every_s: float = 0.0,
        save_every: int = 0,
    ) -> None:
        """Set up for a loop of `total` steps.

        `save` puts a checkpoint of the given step on disk, and raises OSError if it cannot. A row is due each `every`
        steps, if the last is `every_s` seconds old; a checkpoint each `save_every` steps, never if 0, and when asked
        for.
        """
        self.total = total
        self._save, self._save_every = save, save_every
        self._every, self._every_s = max(1, every), every_s
        self._last_row_s = -float("inf")
        self._save_after_s = -float("inf")
        if save is not None:
            reports.catch_sigterm()
        if start:
            reports.report(start, total, note="resume")

    def step(self, step: int, loss: Any = None, accuracy: Any = None) -> None:
        """After each step; loss and accuracy are looked at only if a row is due, so tensors may stay where they are."""
        complete = self.total is not None and step >= self.total
        if complete or self._row_is_due(step):
            reports.report(step, self.total, loss, accuracy)
        if self._save is None or complete:
            return
        # Asked once: a SIGTERM that comes from here on is the next step's, which then saves before it leaves.
        wanted = reports.checkpoint_wanted()
        if wanted or (self._save_every and step % self._save_every == 0):
            self._checkpoint(step, self._save, wanted)
        if wanted == reports.SIGTERM_REQUEST:
            reports.flush()
            raise SystemExit(reports.EXIT_INTERRUPTED)

    def done(self, step: int | None = None) -> None:
        """After the last step: a last checkpoint, so that a restart finds nothing left to do, and the last row."""
        at = self.total if step is None else step
        if at is None:
            raise TypeError("done() needs the last step where TrainingProgress was not given a total")
        if self._save is not None:
            self._save_after_s = -float("inf")
            self._checkpoint(at, self._save, reports.checkpoint_wanted())
        reports.report(at, self.total, note="done")
        reports.flush()

    def _row_is_due(self, step: int) -> bool:
        if step != 1 and step % self._every:
            return False
        now_s = time.monotonic()
        if now_s - self._last_row_s < self._every_s:
            return False
        self._last_row_s = now_s
        return True

    def _checkpoint(self, step: int, save: Callable[[int], object], wanted: str) -> None:
        if time.monotonic() < self._save_after_s and wanted != reports.SIGTERM_REQUEST:
            return
        # Rows up to a checkpoint are on the volume before it is: after a crash none of them is missing.
        reports.reporter().flush_volume()
        try:
            save(step)
        except OSError as error:
            why = f"{error}; training goes on, and steps since the last checkpoint are lost if it ends now"
            reports.tell(f"save {error}", f"no checkpoint of step {step}: {why}")
            self._save_after_s = time.monotonic() + _SAVE_AGAIN_S
            return
        reports.checkpointed(step, wanted)
