"""Profiles from a name, a mix of names, a TOML file or plain data."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from foresail.core.profile import Profile, UsedScore
from foresail.errors import ForesailError, InputError, OptionError, did_you_mean
from foresail.plugins.naming import parse_options
from foresail.plugins.options import converted
from foresail.policies import REGISTRY
from foresail.policies.kubernetes import kubernetes_profile
from foresail.policies.profiles.scheduler_configuration import ENDINGS, profile_data
from foresail.toml import read_toml

DEFAULT_FILTERS = ("schedulable", "taints", "node-selector", "fit")
DEFAULT_DEVICES = "least-sufficient"
LOWEST_RANK = "lowest-rank"
"""The tie rule that needs no score: the node of the lowest rank."""

PROFILES: dict[str, Callable[..., dict[str, Any]]] = {"kubernetes": kubernetes_profile}
"""Whole profiles by name: filters, scores and weights together."""

T = TypeVar("T")

_KEYS = ("name", "filters", "devices", "tie", "scores")
_TERM = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?:\((?P<options>.*)\))?(?::(?P<weight>[^:]*))?")
_EXAMPLES = "examples: fgd, power:100+fgd:900, dot-product(dimension=share,norm=node)"


def load_profile(source: str | Path | Mapping[str, Any], *, filters: Sequence[str] = DEFAULT_FILTERS) -> Profile:
    """A profile with plug-ins of its own; `filters` are those of a profile that names none.

    `source` is a policy (`fgd`), a mix (`power:100+fgd:900`), options in parentheses (`dot-product(norm=pod)`), a whole
    profile by name (`kubernetes`, `kubernetes(version=1.35)`), the path of a TOML file, the path of kube-scheduler's
    configuration (`kube.yaml`, or `kube.yaml#NAME` for the profile of that schedulerName), or the plain data that
    `Profile.description` holds.
    """
    if isinstance(source, Mapping):
        return _ProfileReader(None, filters).profile(source, str(source.get("name", "profile")))
    if isinstance(source, Path) or is_profile_file(source):
        path, scheduler_name = split_name(source)
        if path.suffix in ENDINGS:
            return _ProfileReader(path, filters).profile(profile_data(path, scheduler_name), path.stem)
        return _ProfileReader(path, filters).profile(
            read_toml(path, "a profile", "there is no such profile; give a TOML file or a policy's name"), path.stem
        )
    return _ProfileReader(None, filters).profile(_named_profile(source) or _parse_mix(source), "".join(source.split()))


def _named_profile(source: str) -> dict[str, Any] | None:
    """The plain data of a profile that has a name of its own; None for anything else."""
    terms = [_parse_term(term) for term in _split(source, "+")]
    named = next((term for term in terms if term[0] in PROFILES), None)
    if named is None:
        return None
    name, options, weight = named
    if weight is not None or len(terms) > 1:
        raise OptionError(f'"{name}" is a whole profile; it has no weight and does not mix with others')
    return PROFILES[name](**converted(name, PROFILES[name], options))


def is_profile_file(source: str) -> bool:
    """Whether a policy on the command line is meant as the path of a profile."""
    return split_name(source)[0].suffix in {".toml", *ENDINGS} or os.sep in source


def profile_path(source: str) -> str:
    """The file of a profile that is given as a path."""
    return str(split_name(source)[0])


def split_name(source: str | Path) -> tuple[Path, str]:
    """The path, and behind a # which profile of the file; a path that exists as it stands is one."""
    path, _, name = str(source).rpartition("#")
    if not path or Path(path).suffix not in ENDINGS:
        return Path(source), ""
    return Path(path), name


class _ProfileReader:
    """Turns plain data into a profile, and says of every mistake in which file and under which key it stands."""

    def __init__(self, path: Path | None, filters: Sequence[str]) -> None:
        self._path = path
        self._default_filters = list(filters)

    def profile(self, data: Mapping[str, Any], default_name: str) -> Profile:
        for key in data:
            if key not in _KEYS:
                self._refuse(f'unknown key "{key}"{did_you_mean(key, _KEYS) or ";"} keys are {", ".join(_KEYS)}')
        name = self._text(data, "name", default_name)
        filters, filter_names = self._filters(data.get("filters", self._default_filters))
        scores, score_tables = self._scores(data.get("scores", []))
        description: dict[str, Any] = {"name": name, "filters": filter_names}
        devices, devices_text = self._plugin("device rule", "devices", self._text(data, "devices", DEFAULT_DEVICES))
        if "devices" in data:
            description["devices"] = devices_text
        tie_text = self._text(data, "tie", LOWEST_RANK)
        tie = None
        if tie_text != LOWEST_RANK:
            plugin, tie_text = self._plugin("policy", "tie", tie_text)
            tie = UsedScore(tie_text, plugin)
        description |= {"tie": tie_text, "scores": score_tables}
        return self._named(
            "",
            lambda: Profile(
                name,
                filters=filters,
                scores=scores,
                devices=devices,
                devices_given="devices" in data,
                tie=tie,
                description=description,
            ),
        )

    def _filters(self, given: Any) -> tuple[list[tuple[str, Any]], list[str | dict[str, Any]]]:
        if not isinstance(given, list) or not all(isinstance(one, str | Mapping) for one in given):
            self._refuse(f"filters is {given!r}; a list of names is needed, such as {list(DEFAULT_FILTERS)}")
        filters: list[tuple[str, Any]] = []
        shown: list[str | dict[str, Any]] = []
        for one in given:
            if isinstance(one, str):
                plugin, text = self._plugin("filter", "filters", one)
                filters.append((text, plugin))
                shown.append(text)
                continue
            name, options = one.get("filter"), {key: value for key, value in one.items() if key != "filter"}
            if not isinstance(name, str):
                self._refuse(f'filters has {dict(one)!r}; a table names its filter, as in filter = "fit"')
            plugin, values = self._named("filters", lambda: REGISTRY.find("filter", name).make(options))  # noqa: B023 - called at once
            filters.append((name, plugin))
            shown.append({"filter": name, **values})
        return filters, shown

    def _scores(self, given: Any) -> tuple[list[UsedScore], list[dict[str, Any]]]:
        if not isinstance(given, list) or not all(isinstance(table, Mapping) for table in given):
            self._refuse(f"scores is {given!r}; write one [[scores]] table for each policy")
        used, tables = [], []
        for number, table in enumerate(given, start=1):
            where = f"[[scores]] number {number}" if self._path or len(given) > 1 else ""
            name = table.get("policy")
            if not isinstance(name, str):
                self._refuse(f'{where or "[[scores]]"} has policy {name!r}; name one, such as policy = "fgd"')
            weight = table.get("weight", 1.0)
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                self._refuse(f"{where or name}: weight is {weight!r}; a weight is a number above 0")
            options = {key: value for key, value in table.items() if key not in {"policy", "weight"}}
            plugin, values = self._named(where, lambda: REGISTRY.find("policy", name).make(options))  # noqa: B023 - called at once
            score = self._named(where, lambda: UsedScore(name, plugin, float(weight)))  # noqa: B023 - called at once
            used.append(score)
            tables.append({"policy": name, "weight": float(weight), **values})
        return used, tables

    def _plugin(self, kind: str, key: str, text: str) -> tuple[Any, str]:
        """A plug-in from `name` or `name(option=value)`, and that text in its normal form."""

        def read() -> tuple[Any, str]:
            name, options, weight = _parse_term(text)
            if weight is not None:
                raise OptionError(f'"{text}" has a weight; only scores have weights')
            plugin, values = REGISTRY.find(kind, name).make(options)
            shown = ",".join(f"{option}={value}" for option, value in values.items())
            return plugin, f"{name}({shown})" if shown else name

        return self._named(key, read)

    def _text(self, data: Mapping[str, Any], key: str, default: str) -> str:
        value = data.get(key, default)
        if not isinstance(value, str) or not value:
            self._refuse(f'{key} is {value!r}; text is needed, such as {key} = "{default}"')
        return value

    def _named(self, where: str, call: Callable[[], T]) -> T:
        """The call's result; an error says in which file and under which key."""
        try:
            return call()
        except ForesailError as error:
            self._refuse(f"{where}: {error}" if where and self._path else str(error), error)

    def _refuse(self, message: str, cause: Exception | None = None) -> NoReturn:
        if self._path is not None:
            raise InputError(message, path=self._path) from cause
        raise OptionError(message) from cause


def _parse_mix(text: str) -> dict[str, Any]:
    """`power:100+fgd(levels=50):900` as plain data."""
    scores = []
    for term in _split(text, "+"):
        name, options, weight = _parse_term(term)
        table: dict[str, Any] = {"policy": name}
        if weight is not None:
            try:
                table["weight"] = float(weight)
            except ValueError:
                raise OptionError(
                    f'the weight of "{name}" is "{weight}"; a weight is a number above 0, as in {name}:100'
                ) from None
        for option, value in options.items():
            if option in {"policy", "weight"}:
                raise OptionError(
                    f'"{option}" is no option of {name}; a weight stands behind a colon, as in {name}:100'
                )
            table[option] = value
        scores.append(table)
    return {"scores": scores}


def _parse_term(text: str) -> tuple[str, dict[str, str], str | None]:
    """Name, options and weight of one term."""
    matched = _TERM.fullmatch("".join(text.split()))
    if matched is None:
        raise OptionError(f'"{text}" is no policy; {_EXAMPLES}')
    pairs = _split(matched["options"], ",") if matched["options"] else []
    return matched["name"], parse_options(pairs, text, _EXAMPLES), matched["weight"]


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators that stand outside parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
