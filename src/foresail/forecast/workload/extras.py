"""Libraries that only fitting needs; forecasts of a fitted model are made without them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from foresail.errors import OptionError


def needed(module: str, forecaster: str, extra: str = "bsp") -> Any:
    """A library of an extra, or an error that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        lacks = (error.name or module).partition(".")[0]
        raise OptionError(f"fitting {forecaster} needs {lacks}: pip install 'foresail[{extra}]'") from error
