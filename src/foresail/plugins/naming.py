"""How a plug-in with options is written where one line must do: `NAME`, or `NAME:key=value,key=value`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from foresail.errors import OptionError

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class Named(NamedTuple):
    """A plug-in as it was written."""

    name: str
    options: dict[str, str]


def parse_named(text: str, what: str, example: str) -> Named:
    """Name and options of one plug-in; `what` and `example` are for the message that says how it is written."""
    name, colon, rest = (part.strip() for part in text.partition(":"))
    examples = f"examples: {example}, {example}:every_s=30, {example}:key=value,key=value"
    if _NAME.fullmatch(name) is None or (colon and not rest):
        raise OptionError(f'"{text}" is no {what}; {examples}')
    return Named(name, parse_options(rest.split(",") if rest else (), text, examples))


def parse_options(pairs: Iterable[str], of: str, examples: str) -> dict[str, str]:
    """The options that stand in these `key=value` pairs; a value may hold anything but what separates the pairs."""
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key:
            raise OptionError(f'"{pair}" in "{of}" is no option; {examples}')
        if key in options:
            raise OptionError(f'"{of}" gives {key} twice; give it once')
        options[key] = value
    return options


def written(name: str, options: Mapping[str, Any]) -> str:
    """A plug-in with its options as `parse_named` reads them."""
    pairs = ",".join(f"{key}={value}" for key, value in options.items())
    return f"{name}:{pairs}" if pairs else name
