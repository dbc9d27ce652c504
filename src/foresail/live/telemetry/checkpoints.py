"""What a move asks of a training job and is told by it: a checkpoint, and how far it has come."""

from __future__ import annotations

from typing import Protocol


class Checkpoints(Protocol):
    """The jobs of a cluster, by the names that `job_of` gives them.

    What jobs say is a claim of whoever wrote them: a move that is lied to spoils that job and no other.
    """

    def ask(self, job: str, request_id: str) -> bool:
        """Ask a job for a checkpoint; asking again with the same id is harmless. False: there is no way to ask this
        job, it only gets SIGTERM.
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
