"""Node failures, repairs and cordons: read from a file, or drawn at random with a seed."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from foresail.atomic import replacing
from foresail.core.spec import NodeSpec
from foresail.errors import InputError, OptionError, did_you_mean

FAIL, REPAIR, CORDON, UNCORDON = "fail", "repair", "cordon", "uncordon"
EVENTS = (FAIL, REPAIR, CORDON, UNCORDON)
COLUMNS = ("time_s", "node", "event")

_STREAM = 0xFA117
"""Keeps the draws of faults apart from other draws under the same seed."""
_NEEDS: dict[str, tuple[str, bool, str]] = {
    FAIL: ("down", False, "is down already; repair it first"),
    REPAIR: ("down", True, "is up; only a node that has failed can be repaired"),
    CORDON: ("cordoned", False, "is cordoned already; uncordon it first"),
    UNCORDON: ("cordoned", True, "is not cordoned; cordon it first"),
}


_HEADER = ",".join(COLUMNS)
_TIME_RULE = "a time is in seconds from the start of the trace, 0 or more"


class Fault(NamedTuple):
    """One thing that happens to a node. `line` is where a file says so, 0 if none does."""

    time_s: float
    node: str
    event: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Faults:
    """What happens to nodes during a run, in order of time; what shares an instant keeps the order it was given in."""

    faults: tuple[Fault, ...] = ()
    source: str | None = None
    """The file they were read from."""

    @classmethod
    def of(cls, faults: Iterable[Fault], nodes: Sequence[NodeSpec], *, source: str | None = None) -> Faults:
        """Sort by time and check every event against what the node would be at that time."""
        ordered = tuple(sorted(faults, key=lambda fault: fault.time_s))
        known = {node.name for node in nodes}
        state = {"down": set[str](), "cordoned": {node.name for node in nodes if node.unschedulable}}
        for fault in ordered:
            wrong = _what_is_wrong(fault, known, state)
            if wrong:
                raise InputError(wrong, path=source, line=fault.line or None)
            which, was, _ = _NEEDS[fault.event]
            (state[which].discard if was else state[which].add)(fault.node)
        return cls(ordered, source)

    @classmethod
    def read(cls, path: str | Path, nodes: Sequence[NodeSpec]) -> Faults:
        """Read a CSV file with the columns time_s, node and event; rows may stand in any order."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
            raise InputError(f"cannot read the faults: {why}; give a CSV file with {_HEADER}", path=path) from error
        reader = csv.DictReader(text.splitlines())
        header = [name.strip() for name in reader.fieldnames or []]
        for column in COLUMNS:
            if column not in header:
                hint = did_you_mean(column, header) or f"; the first line must be {_HEADER}"
                raise InputError(f'no column "{column}"{hint}', path=path, line=1)
        reader.fieldnames = header
        return cls.of([_fault(row, path, reader.line_num) for row in reader], nodes, source=str(path))

    @classmethod
    def random(cls, nodes: Sequence[NodeSpec], *, mttf_s: float, mttr_s: float, until_s: float, seed: int) -> Faults:
        """Every node fails and is repaired by itself, after exponential times with these means.

        No node fails after `until_s`; the repair of the last failure may come later. What a node draws depends on the
        seed and on its place among the names alone.
        """
        for name, value in (("mttf_s", mttf_s), ("mttr_s", mttr_s), ("until_s", until_s)):
            if not 0 < value < math.inf:
                raise OptionError(f"{name} is {value:g}; it is a time in seconds, above 0 and finite")
        if seed < 0:
            raise OptionError(f"the seed of the faults is {seed}; it is a whole number, 0 or more")
        faults = []
        for place, name in enumerate(sorted(node.name for node in nodes)):
            random = np.random.default_rng([seed, _STREAM, place])
            time_s = float(random.exponential(mttf_s))
            while time_s < until_s:
                faults.append(Fault(time_s, name, FAIL))
                time_s += float(random.exponential(mttr_s))
                faults.append(Fault(time_s, name, REPAIR))
                time_s += float(random.exponential(mttf_s))
        return cls.of(faults, nodes)

    def write(self, path: str | Path) -> None:
        """Write the faults as a file that `read` takes."""
        with replacing(Path(path)) as part, part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows((repr(fault.time_s), fault.node, fault.event) for fault in self.faults)

    def uncordoned(self, nodes: Sequence[NodeSpec]) -> list[NodeSpec]:
        """The nodes as they are at their best: not cordoned if they are ever uncordoned."""
        freed = {fault.node for fault in self.faults if fault.event == UNCORDON}
        return [replace(node, unschedulable=False) if node.name in freed else node for node in nodes]


def _what_is_wrong(fault: Fault, known: set[str], state: dict[str, set[str]]) -> str:
    """Why the fault cannot happen, empty if it can."""
    if fault.event not in _NEEDS:
        hint = did_you_mean(fault.event, EVENTS) or f"; it is one of {', '.join(EVENTS)}"
        return f'event is "{fault.event}"{hint}'
    if not 0 <= fault.time_s < math.inf:
        return f"time_s is {fault.time_s:g}; {_TIME_RULE}"
    if fault.node not in known:
        hint = did_you_mean(fault.node, sorted(known)) or f"; the trace has {len(known)} other nodes"
        return f'there is no node "{fault.node}"{hint}'
    which, must_be, otherwise = _NEEDS[fault.event]
    if (fault.node in state[which]) == must_be:
        return ""
    return f'event is "{fault.event}" at {fault.time_s:g} s, but node "{fault.node}" {otherwise}'


def _fault(row: dict[str, str | None], path: str | Path, line: int) -> Fault:
    cells = {name: (row.get(name) or "").strip() for name in COLUMNS}
    for name, cell in cells.items():
        if not cell:
            raise InputError(f"{name} is empty; every row needs {_HEADER}", path=path, line=line)
    try:
        time_s = float(cells["time_s"])
    except ValueError:
        raise InputError(f'time_s is "{cells["time_s"]}"; {_TIME_RULE}', path=path, line=line) from None
    return Fault(time_s, cells["node"], cells["event"], line)
