"""Why a pod of a stored run got its node: the run is repeated up to that decision, which is then shown in full.

Where controllers changed pods while they ran, the journal has each pod's story with the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from foresail.core.decide import decide
from foresail.core.explain import Explanation, explain
from foresail.core.gang import Decide
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.profile import Profile
from foresail.core.table import NodeTable
from foresail.errors import InputError, OptionError, ResultsError, did_you_mean
from foresail.experiments.inputs import input_hashes
from foresail.experiments.request import RunRequest, WhatIfRequest
from foresail.experiments.run import run
from foresail.experiments.what_if import what_if
from foresail.results.folder import StoredRun
from foresail.settings import from_plain
from foresail.sim.protocols.snapshot import PROTOCOL as SNAPSHOT


@dataclass(frozen=True, slots=True)
class Explained:
    """A decision of a stored run, shown in full."""

    order: int
    """Row of placements.csv."""
    attempts: int
    """How often the pod had been looked at, this time included."""
    recorded_node: str
    """Where the stored run put the pod; empty for nowhere."""
    decision: Explanation
    story: list[dict[str, Any]]
    """The records of the journal, if the run kept one, that are about the pod, or about pods of its name."""


class _DecisionFound(Exception):  # noqa: N818 - ends a repeated run early; it is no error
    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation


def explain_stored(stored: StoredRun, pod: str, *, top: int = 5) -> Explained:
    """`pod` is a name, or `#12` for the row of that order where several pods bear one name."""
    rerun = _rerun(stored)
    order = _find(stored, pod)
    name = str(stored.placements["pod"][order])
    node = str(stored.placements["node"][order])
    if stored.protocol == "openb":
        return Explained(order, 1, node, _repeat(rerun, _answers(stored, order, top)), [])
    # A waiting pod is looked at again and again: find the look that settled it first, then stop there.
    attempts = 0

    def count(asked: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
        nonlocal attempts
        attempts += asked.name == name
        return decide(asked, table, profile)

    rerun(count)
    if not attempts:
        reasons = [] if stored.pods is None else stored.pods.filter(stored.pods["pod"] == name)["reason"].to_list()
        raise ResultsError(
            f'"{name}" never came to a decision{": " + str(reasons[0]) if reasons and reasons[0] else ""}'
        )
    last, seen = attempts, 0

    def show_last(asked: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
        nonlocal seen
        seen += asked.name == name
        if asked.name == name and seen == last:
            raise _DecisionFound(explain(asked, table, profile, top=top))
        return decide(asked, table, profile)

    return Explained(order, attempts, node, _repeat(rerun, show_last), _story(stored, name))


def _story(stored: StoredRun, pod: str) -> list[dict[str, Any]]:
    journal = stored.frame("journal")
    return [] if journal is None else journal.filter(pod=pod).to_dicts()


def _rerun(stored: StoredRun) -> Callable[[Decide], object]:
    """What repeats the run with another `decide`."""
    plain = stored.manifest.get("request")
    if plain is None:
        raise ResultsError(f"{stored.folder}: the manifest has no request, so the run cannot be repeated; run it again")
    try:
        if stored.protocol == SNAPSHOT:
            asked = from_plain(WhatIfRequest, plain)
            _check_inputs(stored, input_hashes(asked))
            return lambda watch: what_if(asked, decide=watch)
        request = from_plain(RunRequest, plain)
        _check_inputs(stored, input_hashes(request))
    except OSError as error:
        raise InputError(f"cannot be read any more ({error.strerror}); put it back", path=error.filename) from error
    return lambda watch: run(request, decide=watch)


def _check_inputs(stored: StoredRun, found: dict[str, str]) -> None:
    for path, expected in stored.manifest["inputs"].items():
        if found.get(path) != expected:
            raise InputError("has changed since the run, so its decisions cannot be repeated; run it again", path=path)


def _find(stored: StoredRun, pod: str) -> int:
    """The row of placements.csv that is meant."""
    names = stored.placements["pod"].to_list()
    if pod.startswith("#"):
        if not pod[1:].isdecimal() or int(pod[1:]) >= len(names):
            raise OptionError(f'there is no order "{pod}"; placements.csv has #0 to #{len(names) - 1}')
        return int(pod[1:])
    rows = [row for row, name in enumerate(names) if name == pod]
    if not rows:
        near = did_you_mean(pod, dict.fromkeys(names))
        raise OptionError(f'no pod "{pod}" in {stored.folder}{near or "; placements.csv lists all"}')
    if len(rows) > 1:
        shown = ", ".join(f"#{row}" for row in rows[:8])
        raise OptionError(f'{len(rows)} pods are called "{pod}"; say which by its order: {shown}')
    return rows[0]


def _answers(stored: StoredRun, order: int, top: int) -> Decide:
    """A `decide` that reads the earlier answers from the stored run, and shows the one that is asked for."""
    nodes = stored.placements["node"].to_list()
    devices = stored.placements["devices"].to_list()

    def answer(pod: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
        at = int(str(pod.uid))
        if at == order:
            raise _DecisionFound(explain(pod, table, profile, top=top))
        if not nodes[at]:
            return NoFit(pod.name, table.count, {})
        chosen = tuple(map(int, devices[at].split("-"))) if devices[at] else ()
        return Placement(table.row_of[nodes[at]], nodes[at], chosen)

    return answer


def _repeat(rerun: Callable[[Decide], object], watch: Decide) -> Explanation:
    try:
        rerun(watch)
    except _DecisionFound as found:
        return found.explanation
    raise ResultsError(
        "the repeated run did not come to this decision; the results are of another version, run it again"
    )
