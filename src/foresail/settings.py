"""Settings: a dataclass says once what can be set, and options, keys of files, commands and manifests follow from it.

A field's docstring is its meaning wherever it is shown. Its option is `--` and its name, without the unit `_s`; where
that would not do, `setting(...)` says what is different.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from foresail.errors import InputError, OptionError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Look:
    """What of a setting does not follow from its name and type."""

    option: str = ""
    """The option, if it is not called like the field."""
    metavar: str = ""
    """What stands for the value in help; `SECONDS` for a name that ends in `_s`."""
    negates: bool = False
    """Whether giving the option turns the setting off."""
    off: str = ""
    """A second option that turns the setting off."""
    is_file: bool = False
    """Whether it is the path of a file; in a file of settings it is relative to that file."""
    example: Any = None
    """What a mistake is answered with; by default the default."""
    parse: Callable[[Any], Any] | None = None
    """Makes the value of what a person wrote."""
    write: Callable[[Any], str] | None = None
    """Writes the value as a person would; the inverse of `parse`."""
    help: str = ""
    """What help says of the option, where that is not the meaning."""
    without_option: bool = False
    """Whether it can be given in a file alone."""
    said_if_given: bool = False
    """Whether a manifest leaves it out while it has its default, as manifests did that knew nothing of it."""


def setting(default: Any = MISSING, *, default_factory: Any = MISSING, **look: Any) -> Any:
    """A field of a dataclass of settings that says more than name and type do; `look` as in `Look`."""
    given = {"default": default, "default_factory": default_factory}
    return field(metadata={"look": Look(**look)}, **{k: v for k, v in given.items() if v is not MISSING})


@dataclass(frozen=True, slots=True)
class Described:
    """One setting as everybody who shows, reads or writes it sees it."""

    key: str
    type: Any
    """Without `None`; a dataclass of settings for a group of them."""
    default: Any
    """MISSING where it must be given."""
    meaning: str
    look: Look

    @property
    def option(self) -> str:
        return self.look.option or "--" + self.key.removesuffix("_s").replace("_", "-")

    @property
    def metavar(self) -> str | None:
        return self.look.metavar or ("SECONDS" if self.key.endswith("_s") else None)

    @property
    def is_group(self) -> bool:
        return is_dataclass(self.type) and self.look.parse is None

    @property
    def is_list(self) -> bool:
        return get_origin(self.type) is tuple

    @property
    def example(self) -> Any:
        return self.default if self.look.example is None else self.look.example

    def words(self, value: Any) -> list[str]:
        """The words on a command line that give this value."""
        if isinstance(value, bool):
            return [self.option if value != self.look.negates else self.look.off] if value != self.default else []
        several = value if self.is_list else [value]
        return [word for one in several for word in (self.option, self._written(one))]

    def _written(self, value: Any) -> str:
        if self.look.write is not None:
            return self.look.write(value)
        return f"{value:g}" if isinstance(value, float) else str(value)


def described(kind: type) -> tuple[Described, ...]:
    """The settings of a dataclass, its own before those that it shares with others."""
    if kind not in _KNOWN:
        _KNOWN[kind] = _describe(kind)
    return _KNOWN[kind]


_KNOWN: dict[type, tuple[Described, ...]] = {}


def _describe(kind: type) -> tuple[Described, ...]:
    hints, meanings = get_type_hints(kind), _meanings(kind)
    return tuple(
        Described(
            key=one.name,
            type=_without_none(hints[one.name]),
            default=one.default_factory() if one.default_factory is not MISSING else one.default,
            meaning=meanings.get(one.name, ""),
            look=one.metadata.get("look", Look()),
        )
        for one in sorted(fields(kind), key=lambda one: one.name not in kind.__annotations__)
    )


def options(kind: type) -> Iterator[tuple[tuple[str, ...], Described]]:
    """Every setting that is an option, those of groups too, each with the keys that lead to it."""
    for one in described(kind):
        if one.is_group:
            for keys, inner in options(one.type):
                yield (one.key, *keys), inner
        elif not one.look.without_option:
            yield (one.key,), one


def command_words(settings: Any, *, always: tuple[str, ...] = (), never: tuple[str, ...] = ()) -> list[str]:
    """The options that give these settings: those of `always` in that order, then all that differ from defaults."""
    by_key = {one.key: one for one in described(type(settings))}
    words = [word for key in always for word in by_key[key].words(getattr(settings, key))]
    for key, one in by_key.items():
        value = getattr(settings, key)
        if key in always or key in never or value == one.default:
            continue
        words += command_words(value) if one.is_group else one.words(value)
    return words


def plain(settings: Any) -> dict[str, Any]:
    """Settings as plain data, for manifests."""
    data: dict[str, Any] = asdict(settings)
    for one in described(type(settings)):
        value = getattr(settings, one.key)
        if one.look.said_if_given and value == one.default:
            del data[one.key]
        elif one.is_group:
            data[one.key] = plain(value)
    return data


def from_plain(kind: type[T], data: Mapping[str, Any]) -> T:
    """The settings that `plain` described."""
    import msgspec  # noqa: PLC0415 - only who reads a manifest needs it

    return msgspec.convert(data, kind)


def nested(given: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Values by the keys that lead to them, as tables within tables."""
    tables: dict[str, Any] = {}
    for keys, value in given.items():
        table = tables
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = value
    return tables


def make(kind: type[T], values: Mapping[str, Any]) -> T:
    """Settings from values by key; what is left out has its default. Groups are tables, texts are parsed."""
    made = {}
    for one in described(kind):
        if one.key in values:
            made[one.key] = _made(one, values[one.key])
    return kind(**made)


def _made(one: Described, value: Any) -> Any:
    if one.is_group and isinstance(value, Mapping):
        return _made_table(one, value)
    if one.look.parse is not None and isinstance(value, str):
        return one.look.parse(value)
    return tuple(value) if one.is_list else value


def made_group(kind: type, key: str, values: Mapping[str, Any]) -> Any:
    """One group of a dataclass of settings."""
    return _made_table(next(one for one in described(kind) if one.key == key), values)


def _made_table(group: Described, values: Mapping[str, Any]) -> Any:
    for one in described(group.type):
        if one.default is MISSING and one.key not in values:
            given = [other.option for other in described(group.type) if other.key in values] or [f"[{group.key}]"]
            raise OptionError(f"{given[0]} needs {one.option}: {one.meaning[:1].lower()}{one.meaning[1:]}")
    return make(group.type, values)


class SettingsFile:
    """Reads tables of settings from a file; a mistake is an error that names the file, the key, the value, a remedy."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def table(self, kind: type, data: Any, where: str = "") -> dict[str, Any]:
        """The values of a table by key, each of its setting's type."""
        known = {one.key: one for one in described(kind)}
        self.check_keys(data, tuple(known), where)
        return {key: self.value(known[key], value, where) for key, value in data.items()}

    def value(self, one: Described, given: Any, where: str = "") -> Any:
        """One value, checked against the type of its setting."""
        key = f"{where}{one.key}"
        if one.is_group:
            if not isinstance(given, Mapping):
                self.refuse(f"{key} is {given!r}; write a [{one.key}] table")
            return self.table(one.type, given, f"[{one.key}]: ")
        if one.is_list and one.look.parse is None:
            if not isinstance(given, list) or not given:
                self.refuse(f'{key} is {given!r}; a list is needed, such as ["{one.example}"]')
            return tuple(self._text(item, key, one) for item in given)
        if one.type is bool:
            return given if isinstance(given, bool) else self.refuse(f"{key} is {given!r}; write true or false")
        if one.type in {int, float}:
            return self._number(given, key, one)
        return self._text(given, key, one)

    def _number(self, given: Any, key: str, one: Described) -> float:
        wanted = int if one.type is int else (int, float)
        if isinstance(given, bool) or not isinstance(given, wanted) or not math.isfinite(given):
            example = one.example if isinstance(one.example, int | float) else 60
            kind = "a whole number" if one.type is int else "a number"
            self.refuse(f"{key} is {given!r}; {kind} is needed, such as {example:g}")
        number: float = one.type(given)
        return number

    def _text(self, given: Any, key: str, one: Described) -> str:
        if not isinstance(given, str) or not given.strip():
            self.refuse(f"{key} is {given!r}; text in quotes is needed")
        return self.file(given, key) if one.look.is_file else given

    def file(self, text: str, key: str) -> str:
        """The path of a file that is named relative to this one."""
        path = self.path.parent / text
        if not path.is_file():
            self.refuse(f'{key} is "{text}", but there is no file {path}; paths are relative to the experiment file')
        return str(path)

    def check_keys(self, data: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
        for key in data:
            if key not in known:
                hint = did_you_mean(key, known) or ";"
                self.refuse(f'{where}unknown key "{key}"{hint} keys are {", ".join(known)}')

    def refuse(self, message: str) -> NoReturn:
        raise InputError(message, path=self.path)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in {Union, UnionType}:
        left = [part for part in get_args(hint) if part is not NoneType]
        return left[0] if len(left) == 1 else hint
    return hint


def choices(one: Described) -> tuple[str, ...]:
    """The words that a setting may be; empty for any."""
    return get_args(one.type) if get_origin(one.type) is Literal else ()


def _meanings(kind: type) -> dict[str, str]:
    """The docstrings of a dataclass's fields, which Python itself does not keep."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            found |= _meanings_in(ast.parse(textwrap.dedent(inspect.getsource(base))).body[0])
    return found


def _meanings_in(body: ast.stmt) -> dict[str, str]:
    found: dict[str, str] = {}
    before: ast.stmt | None = None
    for statement in getattr(body, "body", ()):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[before.target.id] = " ".join(value.value.split())
        before = statement
    return found
