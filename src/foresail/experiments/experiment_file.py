"""Experiments from a TOML file, from options, or from a file with options that override it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from foresail.errors import InputError, OptionError, did_you_mean
from foresail.experiments.experiment import Experiment, TraceFiles, parse_seeds, traces_of
from foresail.experiments.run import CLOCK_OPTIONS, RunRequest, parse_backoff
from foresail.policies.profiles.scheduler_configuration import ENDINGS
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.toml import read_toml
from foresail.traces.trace import trace_name

KEYS = (
    "title",
    "nodes",
    "traces",
    "policies",
    "seeds",
    "protocol",
    "load",
    "faults",
    "clock",
    "skip_bad_rows",
    "baseline",
    "metrics",
)
TRACE_KEYS = ("name", "nodes", "pods")
_CLOCK_TEXTS = ("after_failure", "gang_restart", "backoff", "work")
_CLOCK_FLAGS = ("fail_impossible", "preemption")

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
    if "clock" in file.values and "clock" in given:
        merged["clock"] = {**file.values["clock"], **given["clock"]}
    if isinstance(merged.get("seeds"), str):
        merged["seeds"] = parse_seeds(merged["seeds"])
    file.blame({"load", "protocol"} - given.keys(), lambda: _check_load(merged))
    traces = _traces(file, given)
    values = {key: value for key, value in merged.items() if key not in {"nodes", "pods", "traces", "clock"}}
    clock = file.blame(merged.get("clock", {}).keys() - given.get("clock", {}).keys(), lambda: _clock(merged))
    made = Experiment(traces=traces, policies=tuple(values.pop("policies", ())), clock=clock, **values)
    _check_values(file, given, made)
    return made


def _check_values(file: _File, given: Mapping[str, Any], made: Experiment) -> None:
    """Have the request judge its values one by one, so that a mistake is laid at the door of who made it."""
    file.blame({"protocol"} - given.keys(), lambda: RunRequest("", "", "", protocol=made.protocol))
    file.blame({"load"} - given.keys(), lambda: RunRequest("", "", "", load=made.load))
    file.blame({"faults"} - given.keys(), lambda: RunRequest("", "", "", protocol=made.protocol, faults=made.faults))


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


def _clock(merged: Mapping[str, Any]) -> ClockSettings:
    given = dict(merged.get("clock", {}))
    if "backoff" in given:
        given["backoff"] = parse_backoff(given["backoff"])
    return ClockSettings(**given)


class _File:
    """An experiment file: its values with paths made relative to where we are, and the blame for its mistakes."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.values: dict[str, Any] = {}
        if path is not None:
            self._read(read_toml(path, "an experiment", "there is no such experiment file; name a TOML file"))

    def blame(self, keys: set[str], call: Callable[[], T]) -> T:
        """The call's result; its error names the file if the file gave any of these keys."""
        try:
            return call()
        except OptionError as error:
            if self._path is None or not keys & (self.values.keys() | self.values.get("clock", {}).keys()):
                raise
            # The message speaks to whoever gave an option; here a key was given.
            raise InputError(str(error).removeprefix("--"), path=self._path) from error

    def _read(self, data: Mapping[str, Any]) -> None:
        self._check_keys(data, KEYS, "")
        values = self.values
        for key in ("title", "protocol", "baseline"):
            if key in data:
                values[key] = self._text(data[key], key)
        for key in ("nodes", "faults"):
            if key in data:
                values[key] = self._file(data[key], key)
        if "policies" in data:
            values["policies"] = [self._policy(text) for text in self._texts(data["policies"], "policies", "fgd")]
        if "metrics" in data:
            values["metrics"] = tuple(self._texts(data["metrics"], "metrics", "failed_pods"))
        if "load" in data:
            values["load"] = self._number(data["load"], "load", 1.3)
        if "skip_bad_rows" in data:
            values["skip_bad_rows"] = self._flag(data["skip_bad_rows"], "skip_bad_rows")
        if "seeds" in data:
            values["seeds"] = self._seeds(data["seeds"])
        if "traces" in data:
            values["traces"] = self._trace_tables(data["traces"])
        if "clock" in data:
            values["clock"] = self._clock_table(data["clock"])

    def _trace_tables(self, given: Any) -> list[dict[str, str]]:
        if not isinstance(given, list) or not given or not all(isinstance(table, Mapping) for table in given):
            self._refuse(f"traces is {given!r}; write one [[traces]] table for each trace")
        tables = []
        for number, table in enumerate(given, start=1):
            where = f"[[traces]] number {number}: "
            self._check_keys(table, TRACE_KEYS, where)
            if "pods" not in table:
                self._refuse(f'{where}pods is missing; name a pod list, such as pods = "pods.csv"')
            read = {"pods": self._file(table["pods"], f"{where}pods")}
            if "nodes" in table:
                read["nodes"] = self._file(table["nodes"], f"{where}nodes")
            elif "nodes" not in self.values:
                self._refuse(f"{where}nodes is missing; name a node list here, or at the top for all traces")
            if "name" in table:
                read["name"] = self._text(table["name"], f"{where}name")
            tables.append(read)
        return tables

    def _clock_table(self, given: Any) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            self._refuse(f"clock is {given!r}; write a [clock] table")
        self._check_keys(given, tuple(CLOCK_OPTIONS), "[clock]: ")
        read: dict[str, Any] = {}
        for key, value in given.items():
            if key in _CLOCK_TEXTS:
                read[key] = self._text(value, f"[clock]: {key}")
            elif key in _CLOCK_FLAGS:
                read[key] = self._flag(value, f"[clock]: {key}")
            else:
                read[key] = self._number(value, f"[clock]: {key}", 60.0)
        return read

    def _seeds(self, given: Any) -> tuple[int, ...]:
        if isinstance(given, str):
            try:
                return parse_seeds(given)
            except OptionError as error:
                self._refuse(str(error))
        seeds = given if isinstance(given, list) else [given]
        for seed in seeds:
            if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
                self._refuse(f'seeds has {seed!r}; write whole numbers, 0 or more, as in [42, 43], or "42-46"')
        if not seeds:
            self._refuse('seeds is empty; write whole numbers, as in [42, 43], or "42-46"')
        return tuple(seeds)

    def _policy(self, text: str) -> str:
        return self._file(text, "policies") if text.endswith((".toml", *ENDINGS)) else text

    def _file(self, given: Any, key: str) -> str:
        text = self._text(given, key)
        assert self._path is not None  # noqa: S101 - only a file's values come here; this tells the type checker
        path = self._path.parent / text
        if not path.is_file():
            self._refuse(f'{key} is "{text}", but there is no file {path}; paths are relative to the experiment file')
        return str(path)

    def _text(self, given: Any, key: str) -> str:
        if not isinstance(given, str) or not given.strip():
            self._refuse(f"{key} is {given!r}; text in quotes is needed")
        return given

    def _texts(self, given: Any, key: str, example: str) -> list[str]:
        if not isinstance(given, list) or not given:
            self._refuse(f'{key} is {given!r}; a list is needed, such as ["{example}"]')
        return [self._text(text, key) for text in given]

    def _number(self, given: Any, key: str, example: float) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
            self._refuse(f"{key} is {given!r}; a number is needed, such as {example:g}")
        return float(given)

    def _flag(self, given: Any, key: str) -> bool:
        if not isinstance(given, bool):
            self._refuse(f"{key} is {given!r}; write true or false")
        return given

    def _check_keys(self, data: Mapping[str, Any], known: Sequence[str], where: str) -> None:
        for key in data:
            if key not in known:
                hint = did_you_mean(key, known) or ";"
                self._refuse(f'{where}unknown key "{key}"{hint} keys are {", ".join(known)}')

    def _refuse(self, message: str) -> NoReturn:
        raise InputError(message, path=self._path)
