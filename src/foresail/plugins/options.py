"""Options of plug-ins: checked against, and converted by, the annotations of a constructor."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from foresail.errors import OptionError, did_you_mean

_REQUIRED = inspect.Parameter.empty
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class _MisfitError(ValueError):
    """A value that is not of the wanted type."""


@dataclass(frozen=True, slots=True)
class Option:
    """One keyword of a constructor: its type as a person reads it, and what it is if not given."""

    name: str
    kind: Any
    default: Any

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def allowed(self) -> str:
        """What may be given, in words."""
        return _in_words(self.kind)


def options_of(factory: Callable[..., Any]) -> list[Option]:
    """The options a plug-in has, in the order of its constructor."""
    return [
        Option(parameter.name, kind, parameter.default)
        for parameter, kind in _parameters(factory)
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]


def converted(name: str, factory: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options as the constructor wants them; an error names the plug-in, the option and what is allowed."""
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter, _ in _parameters(factory))
    known = {option.name: option for option in options_of(factory)}
    for key in given:
        if key not in known and not takes_any:
            has = f"it has {', '.join(known)}" if known else "it has no options"
            raise OptionError(f'{name} has no option "{key}"{did_you_mean(key, known) or ";"} {has}')
    missing = [option.name for option in known.values() if option.required and option.name not in given]
    if missing:
        raise OptionError(f"{name} needs the option {missing[0]} ({known[missing[0]].allowed})")
    values = {}
    for key, value in given.items():
        if key not in known:
            values[key] = value
            continue
        try:
            values[key] = _convert(value, known[key].kind)
        except ValueError:
            shown = f'"{value}"' if isinstance(value, str) else repr(value)
            raise OptionError(f"{name}: {key} is {shown}; allowed is {known[key].allowed}") from None
    return values


def _parameters(factory: Callable[..., Any]) -> list[tuple[inspect.Parameter, Any]]:
    """The keywords of a constructor, each with its type; where that is not written down, the type of its default."""
    constructor = inspect.getattr_static(factory, "__init__") if isinstance(factory, type) else factory
    if constructor is object.__init__:
        return []
    try:
        hints = typing.get_type_hints(constructor)
    except (NameError, TypeError):
        hints = {}  # annotations that cannot be resolved outside their package
    result = []
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY}:
            continue
        untyped = parameter.default is None or parameter.default is _REQUIRED
        guess = Any if untyped else type(parameter.default)
        result.append((parameter, hints.get(parameter.name, guess)))
    return result


def _convert(value: Any, kind: Any) -> Any:
    """The value as the annotated type; ValueError where it is none."""
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        for choice in typing.get_args(kind):
            if value == choice or (isinstance(value, str) and value == str(choice)):
                return choice
        raise _MisfitError
    if origin in {typing.Union, types.UnionType}:
        return _first_that_fits(value, typing.get_args(kind))
    read = _READERS.get(kind)
    return value if read is None else read(value)


def _first_that_fits(value: Any, kinds: tuple[Any, ...]) -> Any:
    for kind in kinds:
        try:
            return _convert(value, kind)
        except ValueError:
            continue
    raise _MisfitError


def _as_nothing(value: Any) -> None:
    if value not in {None, "", "none"}:
        raise _MisfitError


def _as_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _WORDS:
        return _WORDS[value.lower()]
    raise _MisfitError


def _as_int(value: Any) -> int:
    # True is an int to Python, but not to someone who writes a profile.
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _MisfitError
    return int(value)


def _as_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _MisfitError
    return float(value)


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _MisfitError
    return value


_READERS: dict[Any, Callable[[Any], Any]] = {
    type(None): _as_nothing,
    bool: _as_bool,
    int: _as_int,
    float: _as_float,
    str: _as_text,
}


def _in_words(kind: Any) -> str:
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return ", ".join(str(choice) for choice in typing.get_args(kind))
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(_in_words(part) for part in typing.get_args(kind))
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "nothing"}
    return words.get(kind, "anything" if kind is Any else str(getattr(kind, "__name__", kind)))
