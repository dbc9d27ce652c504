"""Files that are whole or not there: written beside their place, then renamed into it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from foresail.errors import ForesailError, InputError


@contextmanager
def replacing(path: Path, failed: Callable[[str], ForesailError] | None = None) -> Iterator[Path]:
    """A path beside `path`, of the same ending; it takes the place of `path` at the end, or vanishes after an error.

    What stands at `path` stays as it was until then. Where the system refuses, `failed` makes the error to raise of
    its reason ("No space left on device"); without it an `InputError` names the file.
    """
    # The ending stays last: writers pick the format by it.
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        why = error.strerror or str(error)
        raise failed(why) if failed else InputError(f"cannot be written: {why}", path=path) from error
    finally:
        # What refused to be written may refuse to be removed; the first error says more.
        with suppress(OSError):
            part.unlink(missing_ok=True)
