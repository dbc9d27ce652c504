"""Checkpoints that are whole or not there, behind a fence that keeps a writer out whose job has moved on.

A folder of a shared volume holds a job's checkpoints and the file `fence`, with the token of the process that the job
belongs to now. A checkpoint is written beside its place, brought to disk, and renamed into place only if the fence
still holds the writer's token. Who takes over writes its own token first, then removes what is half written, then looks
for the newest checkpoint: a late writer finds either another's token or its file gone, so that nothing appears behind
the back of its successor.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from foresail.workloads.report import job_folder, job_name, tell

EXIT_FENCED = 75
"""The job belongs to another process now."""
_FENCE = "fence"
_HALF = ".writing-"
_NAME = re.compile(r"step-(\d{12})-([0-9a-f]{32})")
_State = TypeVar("_State")


class FencedOff(SystemExit):
    """Another process has taken the job over: this one leaves, with 75, and writes nothing more."""

    def __init__(self, folder: Path, holder: str) -> None:
        super().__init__(EXIT_FENCED)
        tell(
            "fence", f"{folder} belongs to {holder} now; nothing is written, and this process leaves with {EXIT_FENCED}"
        )


class SavedCheckpoint(NamedTuple):
    """A file in the folder; its name says the step and the digest of what is in it."""

    step: int
    digest: str
    path: Path


class CheckpointFolder:
    """The checkpoints of one job."""

    def __init__(self, folder: Path, token: str = "", keep: int = 2) -> None:
        """Take the job over: from now on it belongs to `token`, a random one if empty.

        `keep` checkpoints stay, so that a damaged one does not lose everything. Where the folder cannot be written this
        is told, and tried again with each checkpoint.
        """
        self.folder = folder
        self.token = token or secrets.token_hex(16)
        self._keep = max(1, keep)
        self._found = ""
        self._is_mine = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._found = self._holder()
            self._take()
        except OSError as error:
            tell("take", f"{folder} cannot be taken over yet: {error}; tried again with each checkpoint")

    @classmethod
    def from_environment(cls) -> CheckpointFolder | None:
        """Those of this job below FORESAIL_CHECKPOINT_DIR, for the pod FORESAIL_POD_UID; None where it is not set."""
        base = os.environ.get("FORESAIL_CHECKPOINT_DIR", "")
        return cls(job_folder(base, job_name()), os.environ.get("FORESAIL_POD_UID", "")) if base else None

    def save(self, step: int, write: Callable[[BinaryIO], object]) -> Path:
        """Put a checkpoint in place; raises OSError if the volume refuses, FencedOff if the job is another's."""
        self.check_fence()
        half = self.folder / f"{_HALF}{secrets.token_hex(8)}"
        try:
            with half.open("x+b") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
                file.seek(0)
                path = self.folder / f"step-{step:012}-{_digest(file)}"
            self.check_fence()
            try:
                half.replace(path)
            except FileNotFoundError:
                # A successor has swept it up between the check and here.
                raise FencedOff(self.folder, self._holder()) from None
        finally:
            with suppress(OSError):
                half.unlink(missing_ok=True)
        _sync_folder(self.folder)
        self._prune()
        return path

    def newest(self, read: Callable[[BinaryIO], _State]) -> tuple[int, _State] | None:
        """Step and content of the newest checkpoint that is whole; damaged ones are told of and passed over.

        Raises OSError where the folder cannot be looked into: nobody knows then whether there is nothing to lose.
        """
        for one in self.there():
            try:
                with one.path.open("rb") as file:
                    if _digest(file) == one.digest:
                        file.seek(0)
                        return one.step, read(file)
            except OSError as error:
                tell(f"read {one.path}", f"{one.path} cannot be read: {error}; the one before is taken")
                continue
            tell(f"damaged {one.path}", f"{one.path} is damaged: its digest is another; the one before is taken")
        return None

    def there(self) -> list[SavedCheckpoint]:
        """What is in the folder, newest first, whole or not."""
        found = [
            SavedCheckpoint(int(at[1]), at[2], path)
            for path in self._files()
            if (at := _NAME.fullmatch(path.name)) is not None
        ]
        return sorted(found, reverse=True)

    def check_fence(self) -> None:
        """Leave if the job belongs to somebody else."""
        holder = self._holder()
        if holder == self.token:
            return
        # Ours was never written, or somebody has removed it; nobody has come after us.
        if holder == "" or (not self._is_mine and holder == self._found):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._take()
            return
        raise FencedOff(self.folder, holder)

    def _take(self) -> None:
        half = self.folder / f".{_FENCE}-{secrets.token_hex(8)}"
        try:
            with half.open("x", encoding="utf-8") as file:
                file.write(self.token)
                file.flush()
                os.fsync(file.fileno())
            half.replace(self.folder / _FENCE)
        finally:
            with suppress(OSError):
                half.unlink(missing_ok=True)
        self._is_mine = True
        for path in self._files():
            if path.name.startswith(_HALF):
                path.unlink(missing_ok=True)

    def _holder(self) -> str:
        """Whom the job belongs to; opened anew each time, since over NFS only then others' writes are seen."""
        try:
            return (self.folder / _FENCE).read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            return ""

    def _files(self) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            yield from self.folder.iterdir()

    def _prune(self) -> None:
        for old in self.there()[self._keep :]:
            with suppress(OSError):
                old.path.unlink(missing_ok=True)


def _digest(file: BinaryIO) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()[:32]  # type: ignore[arg-type]  # typeshed wants more of a file than is used


def _sync_folder(folder: Path) -> None:
    """The name, too, has to be on disk; some file systems cannot, and need not, be told."""
    with suppress(OSError):
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
