"""Options of a verb made from its dataclasses of settings, so that nothing about a setting is said twice."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from foresail.settings import Described, choices, nested, options


@dataclass(frozen=True, slots=True)
class OptionSource:
    """A dataclass of settings that a verb takes as options."""

    settings: type
    only: str = ""
    """When these settings count, where that is not always: `with --from-snapshot`."""


@dataclass(slots=True)
class Given:
    """The options that were given, by option."""

    values: dict[str, Any]

    def of(self, settings: type) -> dict[str, Any]:
        """Those that are settings of this dataclass, as `foresail.settings.make` takes them."""
        found = {keys: self.values[one.option] for keys, one in options(settings) if one.option in self.values}
        return nested(found)

    def besides(self, settings: type) -> list[str]:
        """Those that are no settings of this dataclass, by name."""
        own = {one.option for _, one in options(settings)}
        return sorted(option for option in self.values if option not in own)


def takes_options(*kinds: OptionSource, after: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a verb take the settings of these dataclasses as options; its parameter `given` holds those that were given.

    Options of two dataclasses that are called alike are one option; what the first says of it holds. They stand before
    the verb's own options, or `after` them.
    """

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        made = _parameters(kinds)
        own = [one for one in inspect.signature(verb, eval_str=True).parameters.values() if one.name != "given"]

        @functools.wraps(verb)
        def taking(**values: Any) -> None:
            told = {one: values.pop(name) for name, (one, _) in made.items()}
            given = {one.option: _value(one, value) for one, value in told.items() if _is_given(one, value)}
            verb(given=Given(given), **values)

        # Arguments of the verb first, then what is set, then its other options.
        first = [one for one in own if after or _comes_first(one)]
        last = [one for one in own if one not in first]
        everything = [*first, *(parameter for _, parameter in made.values()), *last]
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in everything]
        taking.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        taking.__annotations__ = {one.name: one.annotation for one in parameters}
        return taking

    return decorate


def _comes_first(parameter: inspect.Parameter) -> bool:
    told = getattr(parameter.annotation, "__metadata__", ())
    return parameter.annotation is typer.Context or any(isinstance(one, _FIRST) for one in told)


_FIRST = type(typer.Argument())
_GROUPS = {"clock": "Protocol clock: ", "training": "Training jobs: "}
"""What help says first of the settings of a group."""


def _parameters(kinds: tuple[OptionSource, ...]) -> dict[str, tuple[Described, inspect.Parameter]]:
    """The parameters by name, each with its setting."""
    found: dict[str, list[tuple[OptionSource, Described, str]]] = {}
    for kind in kinds:
        for keys, one in options(kind.settings):
            found.setdefault(one.option, []).append((kind, one, _GROUPS.get(keys[0], "")))
    made = {}
    for option, uses in found.items():
        name = option.removeprefix("--").replace("-", "_")
        made[name] = (uses[0][1], _parameter(name, option, uses))
    return made


def _parameter(name: str, option: str, uses: list[tuple[OptionSource, Described, str]]) -> inspect.Parameter:
    kind, one, group = uses[0]
    told = one.look.help or one.meaning
    prefix = f"{kind.only[:1].upper()}{kind.only[1:]}: " if kind.only and len(uses) == 1 else ""
    if prefix and group == "" and option == _names_kind(kind):
        prefix = ""
    help_text = f"{prefix}{group}{told[:1].lower() if prefix or group else told[:1]}{told[1:]}{_defaults(uses)}"
    names = [f"{option}/{one.look.off}" if one.look.off else option]
    told_typer = typer.Option(*names, metavar=one.metavar, help=help_text, show_default=False)
    annotation: Any = Annotated[_type(one), told_typer]
    default = False if annotation.__origin__ is bool else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _names_kind(kind: OptionSource) -> str:
    """The option that settings which only count sometimes are asked for with."""
    return kind.only.rpartition(" ")[2]


def _defaults(uses: list[tuple[OptionSource, Described, str]]) -> str:
    """The default as help shows it, where there is one to show; one for each dataclass where they differ."""
    shown: list[str] = []
    for kind, one, _ in uses:
        default = one.default
        if default in (None, MISSING, "", ()) or isinstance(default, bool) or one.look.write is not None:
            continue
        text = f"{default:g}" if isinstance(default, float) else str(default)
        if not shown or text not in shown[0]:
            shown.append(f"{kind.only}: {text}" if shown and kind.only else text)
    # Escaped, since help is read as markup.
    return f" \\[default: {'; '.join(shown)}]" if shown else ""


def _type(one: Described) -> Any:
    if one.type is bool:
        return bool | None if one.look.off else bool
    if one.look.parse is not None:
        return str | None
    inner = Path if one.look.is_file else str if one.is_list or (choices(one) == () and one.type is str) else one.type
    return list[inner] | None if one.is_list else inner | None  # type: ignore[valid-type]


def _is_given(one: Described, value: Any) -> bool:
    return value is not None and value != [] and (value is not False or bool(one.look.off))


def _value(one: Described, value: Any) -> Any:
    if one.look.negates:
        return not value
    return str(value) if isinstance(value, Path) else value
