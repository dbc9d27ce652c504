"""Experiments from a TOML file, from options, or from a file with options that override it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from foresail.errors import InputError, OptionError
from foresail.experiments.experiment import Experiment, TraceFiles, seeds_of, traces_of
from foresail.experiments.request import RunConditions, check_controllers
from foresail.policies.profiles.scheduler_configuration import ENDINGS
from foresail.settings import SettingsFile, described, made_group, make
from foresail.toml import read_toml
from foresail.traces.trace import trace_name

KEYS = ("title", "nodes", *(one.key for one in described(Experiment) if one.key != "title"))
"""The keys of an experiment file: the settings of an experiment, and `nodes` for every trace that names none."""

GROUPS = tuple(one.key for one in described(Experiment) if one.is_group)
"""Those of them that are tables: `clock` and `training`."""

T = TypeVar("T")


def load_experiment(path: Path | None = None, options: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of a file, of options, or of both; an option wins over the file's key.

    `options` has keys as the file has them, only `pods` (paths, one trace each) instead of `traces`; what is left out
    or None is not given. `seeds` may be text, and `clock` is a mapping.
    """
    given = {key: value for key, value in (options or {}).items() if value not in (None, [], (), {})}
    for key in given:
        if key not in {*KEYS, "pods"}:
            raise ValueError(f"no option {key}")
    file = _File(path)
    merged = {**file.values, **given}
    for group in GROUPS:
        if group in file.values and group in given:
            merged[group] = {**file.values[group], **given[group]}
    file.blame({"load", "protocol"} - given.keys(), lambda: _check_load(merged))
    traces = _traces(file, given)
    groups = {
        group: file.blame(
            merged[group].keys() - given.get(group, {}).keys(),
            lambda: made_group(Experiment, group, merged[group]),  # noqa: B023 - called at once
        )
        for group in GROUPS
        if group in merged
    }
    _check_values(file, given, merged)
    values = {key: value for key, value in merged.items() if key not in {"nodes", "pods", "traces"}}
    wanted = {"policies": (), **values, "traces": traces, **groups}
    return file.blame({"training"}, lambda: make(Experiment, wanted))


def _check_values(file: _File, given: Mapping[str, Any], merged: Mapping[str, Any]) -> None:
    """Judge values one by one, so that a mistake is laid at the door of who made it."""
    protocol, asked = merged.get("protocol", "openb"), tuple(merged.get("controllers", ()))
    file.blame({"protocol"} - given.keys(), lambda: RunConditions(protocol=protocol))
    file.blame({"load"} - given.keys(), lambda: RunConditions(load=merged.get("load", 1.0)))
    file.blame({"faults"} - given.keys(), lambda: RunConditions(protocol=protocol, faults=merged.get("faults")))
    file.blame({"controllers"} - given.keys(), lambda: check_controllers(asked, protocol))


def _check_load(merged: Mapping[str, Any]) -> None:
    if merged.get("protocol") == "clock" and "load" in merged:
        raise OptionError("--load goes with protocol openb; in protocol clock pods arrive when the trace says")


def _traces(file: _File, given: Mapping[str, Any]) -> tuple[TraceFiles, ...]:
    tables: Sequence[Mapping[str, str]] = file.values.get("traces", ())
    shared = given.get("nodes", file.values.get("nodes"))
    if "pods" in given:
        named = {shared} if shared is not None else {table["nodes"] for table in tables}
        if len(named) != 1:
            raise OptionError("--pods is given without a node list; add --nodes")
        return traces_of(named.pop(), given["pods"])
    if "nodes" in given and not tables:
        raise OptionError(f"--nodes is {shared}, but there are no pods; add --pods")
    return tuple(
        TraceFiles(
            name=table.get("name", trace_name(table["pods"])),
            # --nodes serves every trace; the file's own nodes serve those that name none.
            nodes=given.get("nodes") or table.get("nodes") or file.values["nodes"],
            pods=table["pods"],
        )
        for table in tables
    )


class _File:
    """An experiment file: its values with paths made relative to where we are, and the blame for its mistakes."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.values: dict[str, Any] = {}
        if path is not None:
            missing = "there is no such experiment file; name a TOML file"
            self._read(SettingsFile(path), read_toml(path, "an experiment", missing))

    def blame(self, keys: set[str], call: Callable[[], T]) -> T:
        """The call's result; its error names the file if the file gave any of these keys."""
        try:
            return call()
        except OptionError as error:
            known = {*self.values, *(key for group in GROUPS for key in self.values.get(group, ()))}
            if self._path is None or not keys & known:
                raise
            # The message speaks to whoever gave an option; here a key was given.
            raise InputError(str(error).removeprefix("--"), path=self._path) from error

    def _read(self, file: SettingsFile, data: Mapping[str, Any]) -> None:
        file.check_keys(data, KEYS, "")
        by_key = {one.key: one for one in described(Experiment)}
        by_key["nodes"] = next(one for one in described(TraceFiles) if one.key == "nodes")
        # Traces last: those that name no nodes need the file's.
        for key in sorted(data, key=lambda key: key == "traces"):
            if key == "traces":
                self.values[key] = [self._trace(file, *one) for one in enumerate(_tables(file, data[key]), start=1)]
            elif key == "seeds":
                try:
                    self.values[key] = seeds_of(data[key])
                except OptionError as error:
                    file.refuse(str(error))
            else:
                self.values[key] = file.value(by_key[key], data[key])
        if "policies" in data:
            self.values["policies"] = tuple(
                file.file(text, "policies") if text.endswith((".toml", *ENDINGS)) else text
                for text in self.values["policies"]
            )

    def _trace(self, file: SettingsFile, number: int, table: Mapping[str, Any]) -> dict[str, Any]:
        where = f"[[traces]] number {number}: "
        file.check_keys(table, tuple(one.key for one in described(TraceFiles)), where)
        if "pods" not in table:
            file.refuse(f'{where}pods is missing; name a pod list, such as pods = "pods.csv"')
        if "nodes" not in table and "nodes" not in self.values:
            file.refuse(f"{where}nodes is missing; name a node list here, or at the top for all traces")
        return file.table(TraceFiles, table, where)


def _tables(file: SettingsFile, given: Any) -> list[Mapping[str, Any]]:
    if not isinstance(given, list) or not given or not all(isinstance(table, Mapping) for table in given):
        file.refuse(f"traces is {given!r}; write one [[traces]] table for each trace")
    return given
