"""A registry: plug-ins of some kinds by name, our own and those that other packages declare as entry points."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foresail.errors import ForesailError, OptionError, did_you_mean
from foresail.plugins.options import converted

BUILT_IN = "built-in"


class NameClashWarning(UserWarning):
    """A package names a plug-in as another one is named already."""


@dataclass(frozen=True, slots=True)
class PluginKind:
    """Plug-ins of one kind."""

    name: str
    """In words, such as `device rule`."""
    built_in: Mapping[str, str]
    """Name to `module:Class`; as text, so that asking for help does not load compiled kernels."""
    methods: tuple[str, ...]
    """A plug-in of this kind has one of these."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered plug-in: what it is called and where it comes from."""

    name: str
    kind: str
    """A kind of the registry; empty for a plug-in that cannot be loaded."""
    origin: str
    """`built-in`, or the distribution with its version."""
    factory: Callable[..., Any] | None
    """The class; None for a plug-in that cannot be loaded."""
    error: str = ""
    """Why it cannot be loaded."""

    @property
    def summary(self) -> str:
        """The first sentence of the docstring, without its full stop."""
        first = self.explanation.split("\n\n")[0]
        return " ".join(first.split()).rstrip(".") or self.error

    @property
    def explanation(self) -> str:
        """The whole docstring: what the plug-in does, its maths and its options."""
        constructor = getattr(self.factory, "__init__", None) if isinstance(self.factory, type) else None
        told = [self.factory, constructor if constructor is not object.__init__ else None]
        return "\n\n".join(inspect.getdoc(part) or "" for part in told if part is not None and part.__doc__)

    def make(self, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """A fresh plug-in, and its options as they were understood.

        Options may be text, as on a command line; the constructor's annotations convert them.
        """
        if self.factory is None:
            raise OptionError(f'"{self.name}" of {self.origin} cannot be loaded: {self.error}')
        values = converted(self.name, self.factory, options)
        try:
            return self.factory(**values), values
        except ForesailError:
            raise
        except (TypeError, ValueError) as error:
            raise OptionError(f"{self.name}: {error}") from error
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise OptionError(f'"{self.name}" of {self.origin} cannot be made: {said}') from error


class Registry:
    """The plug-ins that share one entry point group and one verb that lists them."""

    def __init__(self, group: str, verb: str, kinds: Sequence[PluginKind]) -> None:
        """The first kind is what the group is mostly for, and what messages call a plug-in of it."""
        self.group = group
        """Entry point group in which other packages name theirs."""
        self.verb = verb
        """The command that lists them, for messages."""
        self._kinds = {kind.name: kind for kind in kinds}
        self.what = kinds[0].name

    def build(self, kind: str, name: str, options: Mapping[str, Any]) -> Any:
        """Make a fresh plug-in; options as in `Entry.make`."""
        return self.find(kind, name).make(options)[0]

    def find(self, kind: str, name: str) -> Entry:
        """The registered plug-in of a kind by its name."""
        if name in self._kinds[kind].built_in:
            return self._built_in(kind, name)
        foreign = self._foreign()
        if name in foreign:
            entry = self._loaded(name, foreign[name])
            if entry.kind in {kind, ""} or self._can_be(kind, entry.factory):
                return entry
        own = self._kinds[kind].built_in
        known = [*own, *(other for other in foreign if self._loaded(other, foreign[other]).kind == kind)]
        for other in self._kinds.values():
            if other.name != kind and name in other.built_in:
                raise OptionError(
                    f'"{name}" is a {other.name}, not a {kind}; a {kind} is one of {", ".join(sorted(known))}'
                )
        raise OptionError(self.unknown(kind, name, known))

    def unknown(self, what: str, name: str, known: Sequence[str]) -> str:
        """What is said of a name that nobody has."""
        return f'no {what} "{name}"{did_you_mean(name, known)} ({self.verb} lists all {len(known)})'

    def registered(self) -> list[Entry]:
        """Every plug-in: the built-in ones by kind and name, then those of other packages."""
        own = [self._built_in(kind.name, name) for kind in self._kinds.values() for name in kind.built_in]
        return own + [self._loaded(name, foreign) for name, foreign in sorted(self._foreign().items())]

    def _built_in(self, kind: str, name: str) -> Entry:
        module, _, attribute = self._kinds[kind].built_in[name].partition(":")
        return Entry(name, kind, BUILT_IN, getattr(importlib.import_module(module), attribute))

    def _foreign(self) -> dict[str, importlib.metadata.EntryPoint]:
        return _entry_points(
            self.group, self.what, tuple(name for kind in self._kinds.values() for name in kind.built_in)
        )

    def _loaded(self, name: str, point: importlib.metadata.EntryPoint) -> Entry:
        try:
            factory = point.load()
        except Exception as error:  # noqa: BLE001 - whatever a foreign package raises is its own, and reported by name
            return Entry(name, "", _origin(point), None, f"{type(error).__name__}: {error}")
        kind = next((kind for kind in self._kinds if self._can_be(kind, factory)), "")
        if not kind or not callable(factory):
            *others, last = [f"{method}()" for kind in self._kinds.values() for method in kind.methods]
            needed = f"{', '.join(others)} or {last}" if others else last
            return Entry(name, "", _origin(point), None, f"{point.value} has no {needed}")
        return Entry(name, kind, _origin(point), factory)

    def _can_be(self, kind: str, factory: Any) -> bool:
        return any(hasattr(factory, method) for method in self._kinds[kind].methods)


@functools.cache
def _entry_points(group: str, what: str, built_in: tuple[str, ...]) -> dict[str, importlib.metadata.EntryPoint]:
    """Entry points of other packages by name. Built-in names are taken; of two packages the first by name wins."""
    found: dict[str, importlib.metadata.EntryPoint] = {}
    taken = dict.fromkeys(built_in, BUILT_IN)
    for point in sorted(importlib.metadata.entry_points(group=group), key=_origin):
        known = found.get(point.name)
        if known is not None and known == point:
            continue  # the same package seen twice on the path
        if point.name in taken:
            warnings.warn(
                f'"{point.name}" of {_origin(point)} is ignored: {taken[point.name]} has a {what} of that name; '
                f"give the entry point another name",
                NameClashWarning,
                stacklevel=4,
            )
            continue
        found[point.name] = point
        taken[point.name] = _origin(point)
    return found


def forget_packages() -> None:
    """Look for entry points again the next time, after packages came or went."""
    _entry_points.cache_clear()


def _origin(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
