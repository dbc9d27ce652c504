"""Volumes that are really full."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_volume(folder: Path) -> Iterator[Path]:
    """A file system of 256 KiB in a folder; skips the test where none may be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    ran = subprocess.run(mount, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"a small file system cannot be mounted here, as root can: {ran.stderr.strip()}")
    try:
        yield folder
    finally:
        unmount = ["umount", str(folder)]
        subprocess.run(unmount, check=True)


def fill(folder: Path) -> Path:
    """Leave no room; returns the file that takes it."""
    path = folder / "filler"
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        path.write_bytes(bytes(1 << 20))
    return path
