"""Files that others append to, on volumes that others can write to: read from where the last look ended.

Whoever may write there may put anything there: links that lead elsewhere, pipes that never answer, files without end.
So no link below the folder is followed, nothing but regular files is opened, and a look reads no more than it is told.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_REMEMBERED = 64
"""Bytes before the place where a look ended; they say whether the file is still the one that was read."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Piece(NamedTuple):
    """What has come to a file since the last look."""

    data: bytes
    anew: str = ""
    """Why these bytes are the file's first; empty if they follow on those before."""
    passed_over: int = 0
    """Bytes before these that nobody has read: there were more than a look reads."""


def open_folder(root: Path, parts: Sequence[str]) -> int:
    """A descriptor of a folder below `root`; a part that is a link is an OSError."""
    for part in parts:
        if part in {"", ".", ".."} or "/" in part or "\0" in part:
            raise FileNotFoundError(f"{part!r} names no folder")
    found = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts:
        above, found = found, -1
        try:
            found = os.open(part, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return found


class Tail:
    """One file below a folder, of which nobody has read anything yet."""

    def __init__(self, root: Path, *parts: str, most_bytes: int, skips: bool = True) -> None:
        """A look reads at most `most_bytes`. Where there are more, the last of them are read if it `skips`, else the
        next; the others wait for the next look.
        """
        self._root = root
        self._parts = parts
        self._most_bytes = most_bytes
        self._skips = skips
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._before = b""

    @property
    def path(self) -> str:
        return str(self._root.joinpath(*self._parts))

    def read(self) -> list[Piece]:
        """What has come since the last look. OSError if the file cannot be read; one that is not there is empty."""
        try:
            folder = open_folder(self._root, self._parts[:-1])
        except FileNotFoundError:
            return []
        try:
            return self._read_in(folder)
        finally:
            os.close(folder)

    def head(self, count: int) -> bytes:
        """The first bytes of the file as it is now."""
        try:
            folder = open_folder(self._root, self._parts[:-1])
        except FileNotFoundError:
            return b""
        try:
            opened = self._open(folder, self._parts[-1])
        finally:
            os.close(folder)
        if opened is None:
            return b""
        try:
            return os.pread(opened, count, 0)
        finally:
            os.close(opened)

    def _read_in(self, folder: int) -> list[Piece]:
        opened = self._open(folder, self._parts[-1])
        if opened is None:
            return []
        try:
            about = os.fstat(opened)
            identity = (about.st_dev, about.st_ino)
            pieces: list[Piece] = []
            anew = ""
            if self._identity is None:
                self._identity = identity
            elif identity != self._identity:
                anew = "it was replaced by another file"
                pieces += self._rest_of_rotated(folder)
            elif about.st_size < self._offset:
                anew = "it was cut short"
            elif os.pread(opened, len(self._before), self._offset - len(self._before)) != self._before:
                anew = "it was written anew"
            if anew:
                self._identity, self._offset, self._before = identity, 0, b""
            found = self._next(opened, about.st_size, anew)
            return [*pieces, *([found] if found.data or found.anew else [])]
        finally:
            os.close(opened)

    def _rest_of_rotated(self, folder: int) -> list[Piece]:
        """What came to the file before it got another name, if that is the one that log rotation gives."""
        try:
            opened = self._open(folder, f"{self._parts[-1]}.1")
        except OSError:
            return []
        if opened is None:
            return []
        try:
            about = os.fstat(opened)
            if (about.st_dev, about.st_ino) != self._identity or about.st_size < self._offset:
                return []
            found = self._next(opened, about.st_size, "")
            return [found] if found.data else []
        finally:
            os.close(opened)

    def _next(self, opened: int, size: int, anew: str) -> Piece:
        passed_over = size - self._offset - self._most_bytes if self._skips else 0
        if passed_over > 0:
            self._offset += passed_over
            self._before = b""
        data = os.pread(opened, self._most_bytes, self._offset)
        self._offset += len(data)
        self._before = (self._before + data)[-_REMEMBERED:]
        return Piece(data, anew, max(0, passed_over))

    @staticmethod
    def _open(folder: int, name: str) -> int | None:
        """A regular file of this name, None if there is nothing; OSError for anything else."""
        try:
            opened = os.open(name, _FILE, dir_fd=folder)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise OSError("it is no regular file")
        return opened


class Lines:
    """Whole lines of bytes that come in pieces; where the pieces are cut makes no difference."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun = b""
        self._too_long = False
        """Whether the line that has begun is longer than a line may be; its beginning is kept."""

    def feed(self, data: bytes) -> list[tuple[bytes, bool]]:
        """The lines that end in `data`, without their ends; and whether each is whole, or only its beginning is."""
        first, *others = data.split(b"\n")
        found = []
        self._add(first)
        for one in others:
            found.append((self._begun.removesuffix(b"\r"), not self._too_long))
            self._begun, self._too_long = b"", False
            self._add(one)
        return found

    def reset(self) -> None:
        """What comes next follows on nothing."""
        self._begun, self._too_long = b"", False

    def _add(self, part: bytes) -> None:
        begun = self._begun + part[: self._longest + 1]
        self._too_long = self._too_long or len(begun) > self._longest
        self._begun = begun[: self._longest]
