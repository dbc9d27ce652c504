"""What a move asks of a training job and is told by it: a checkpoint, and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from foresail.errors import ForesailError
from foresail.live.telemetry.metrics import TelemetryMetrics
from foresail.live.telemetry.progress import ProgressStore


class VolumeFullError(ForesailError):
    """A job that is asked on its volume cannot be, for the volume is full: no checkpoint would find room there."""


class Checkpoints(Protocol):
    """The jobs of a cluster, by the names that `job_of` gives them.

    What jobs say is a claim of whoever wrote them: a move that is lied to spoils that job and no other.
    """

    can_ask: bool
    """Whether there is a way on which jobs might be asked."""

    def ask(self, job: str, request_id: str) -> bool:
        """Ask a job for a checkpoint; asking again with the same id is harmless. False: there is no way to ask this
        job, it only gets SIGTERM. Raises VolumeFullError while it could be asked but for a full volume.
        """

    def withdraw(self, job: str, request_id: str) -> None:
        """The checkpoint is wanted no longer: nobody is to find the request any more. One that is not there is none."""

    def confirmed_step(self, job: str, request_id: str) -> int | None:
        """Step of the checkpoint that answers the request; None while there is none."""

    def step(self, job: str) -> int | None:
        """The last step that the job has reported, by whichever of its pods."""

    def first_step_since(self, job: str, since_s: float) -> int | None:
        """The step of the first report at or after a time, in seconds since 1970; None if there is none."""

    def checkpoint_step(self, job: str) -> int | None:
        """Step of the last checkpoint known to be on disk."""


class NoCheckpoints:
    """Nobody reports anything: jobs get SIGTERM and their grace period, and what becomes of them is not followed."""

    can_ask = False

    def ask(self, job: str, request_id: str) -> bool:  # noqa: ARG002 - see Checkpoints
        return False

    def withdraw(self, job: str, request_id: str) -> None:
        pass

    def confirmed_step(self, job: str, request_id: str) -> int | None:  # noqa: ARG002 - see Checkpoints
        return None

    def step(self, job: str) -> int | None:  # noqa: ARG002 - see Checkpoints
        return None

    def first_step_since(self, job: str, since_s: float) -> int | None:  # noqa: ARG002 - see Checkpoints
        return None

    def checkpoint_step(self, job: str) -> int | None:  # noqa: ARG002 - see Checkpoints
        return None


class Channel(Protocol):
    """A way on which jobs can be asked."""

    def ask(self, job: str, request_id: str) -> bool:
        """Whether this job can be asked this way; if so it is, now or when it next reports. May raise
        VolumeFullError.
        """

    def withdraw(self, job: str, request_id: str) -> None:
        """Ask no more."""


class ReportedCheckpoints:
    """Checkpoints of jobs that report their progress, asked for on every way on which a job can be reached."""

    def __init__(self, store: ProgressStore, channels: Sequence[Channel], metrics: TelemetryMetrics) -> None:
        self._store = store
        self._channels = channels
        self._metrics = metrics
        self.can_ask = bool(channels)
        self._open: dict[str, str] = {}
        """Job to the request that waits for its answer."""

    def ask(self, job: str, request_id: str) -> bool:
        asked, full = False, None
        for channel in self._channels:
            try:
                asked |= channel.ask(job, request_id)
            except VolumeFullError as error:
                full = error
        if not asked and full is not None:
            raise full
        if asked and self._open.get(job) != request_id:
            self._open[job] = request_id
            self._metrics.checkpoints.labels("asked").inc()
        return asked

    def withdraw(self, job: str, request_id: str) -> None:
        self._close(job, request_id, "withdrawn")
        for channel in self._channels:
            channel.withdraw(job, request_id)

    def confirmed_step(self, job: str, request_id: str) -> int | None:
        known = self._store.of(job)
        step = None if known is None else known.confirmed.get(request_id)
        if step is not None and self._close(job, request_id, "confirmed"):
            for channel in self._channels:
                channel.withdraw(job, request_id)
        return step

    def step(self, job: str) -> int | None:
        known = self._store.of(job)
        return None if known is None else known.row.step

    def first_step_since(self, job: str, since_s: float) -> int | None:
        known = self._store.of(job)
        return None if known is None else known.first_step_since(since_s)

    def checkpoint_step(self, job: str) -> int | None:
        known = self._store.of(job)
        return None if known is None else known.checkpoint_step

    def forget(self, jobs: Sequence[str]) -> None:
        """Jobs that nobody knows any more."""
        for job in jobs:
            self._open.pop(job, None)

    def _close(self, job: str, request_id: str, outcome: str) -> bool:
        """Whether the request was open until now."""
        if self._open.get(job) != request_id:
            return False
        del self._open[job]
        self._metrics.checkpoints.labels(outcome).inc()
        return True
