"""Which files a plug-in depends on: what it reads, and its own source. Results are only as old as these."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from foresail.errors import InputError, OptionError


def files_of(plugin: Any) -> tuple[Path, ...]:
    """The files that a plug-in says it reads: models, profiles, tables.

    It says so with `reads`, an attribute or a method that gives one path or several; one that says nothing reads none.
    """
    reads = getattr(plugin, "reads", ())
    told = reads() if callable(reads) else reads
    if isinstance(told, str):
        told = (told,)
    who = type(plugin).__name__
    named = tuple(told) if isinstance(told, Iterable) else (told,)
    if not all(isinstance(one, str | os.PathLike) for one in named):
        raise OptionError(f"{who}: reads is {told!r}; it gives the paths of the files that are read")
    paths = tuple(Path(one) for one in named)
    for path in paths:
        if not path.is_file():
            raise InputError(f"there is no such file; {who} reads it", path=path)
    return paths


def sources_of(plugin: Any) -> tuple[Path, ...]:
    """The source of a plug-in that is not built in: its module, or all modules of its package, in order of their paths.

    Empty for a built-in one, whose source is Foresail's version, and for one that was typed and stands in no file.
    """
    module = type(plugin).__module__
    top = module.partition(".")[0]
    if top == __package__.partition(".")[0]:
        return ()
    folders = getattr(sys.modules.get(top), "__path__", None)
    if folders is not None:
        return tuple(sorted(path for folder in folders for path in Path(folder).rglob("*.py")))
    file = getattr(sys.modules.get(module), "__file__", None)
    return (Path(file),) if file is not None and Path(file).is_file() else ()
