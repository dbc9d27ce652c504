"""Says so when the numeric kernels are about to be compiled, which happens once and takes a while."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


@contextmanager
def compiling_is_announced() -> Iterator[None]:
    """Print a line before the first run with these kernels on this machine."""
    marker = _marker()
    if marker.exists():
        yield
        return
    import typer

    typer.echo("compiling numeric kernels; this is needed once and takes up to half a minute", err=True)
    yield
    with suppress(OSError):  # a read-only home only means that the line is printed again
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()


def kernel_sources() -> list[Path]:
    """The files that may hold kernels, wherever they lie in their rooms."""
    return sorted(
        path
        for room in ("controllers", "forecast", "policies", "sim", "traces", "train")
        for path in (PACKAGE / room).rglob("*.py")
    )


def _marker() -> Path:
    """A file whose name stands for the kernels as they are now, and for where they are kept."""
    stated = [str(PACKAGE), platform.python_version(), platform.machine(), os.environ.get("NUMBA_CACHE_DIR", "")]
    stated += [f"{path.name} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in kernel_sources()]
    name = hashlib.sha256("\n".join(stated).encode()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "foresail" / f"compiled-{name}"
