"""What a controller weighed in a turn: asked for, checked, and told with what became of it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from numbers import Real
from typing import Any

from foresail.core.control import Candidate, Considering, RunningPod, View
from foresail.core.journal import Considered, Weighed
from foresail.core.model import Pod
from foresail.errors import ControllerError


def candidates_of(by: str, controller: Any, view: View) -> list[Candidate]:
    """The moves that a controller weighed in the turn that it has just had; none for one that does not tell."""
    if not isinstance(controller, Considering):
        return []
    try:
        told: Any = controller.considered()
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ControllerError(f'controller "{by}": considered() raised {said} at {view.now_s:g} s') from error
    if not isinstance(told, Sequence) or isinstance(told, str | bytes):
        raise ControllerError(f'controller "{by}": considered() is {told!r:.200}; it is a list of Candidate')
    for one in told:
        if not isinstance(one, Candidate):
            raise ControllerError(f'controller "{by}": considered() has {one!r:.200}; it is a list of Candidate')
        wrong = _wrong(one, view)
        if wrong:
            name = one.pod.name if isinstance(one.pod, Pod) else repr(one.pod)
            raise ControllerError(f'controller "{by}": Candidate of {name:.200}: {wrong}')
    return list(told)


def _wrong(one: Candidate, view: View) -> str:
    if not isinstance(one.pod, Pod):
        return f"pod is a {type(one.pod).__name__}, not a Pod"
    if one.pod.uid not in view.running:
        return "it is not running; weigh moves of the pods in view.running"
    if not isinstance(one.node, str) or (one.node and one.node not in view.table.row_of):
        return f"there is no node {one.node!r}; the nodes are those in view.table.names"
    if not isinstance(one.why, str) or not one.why.strip():
        return f"why is {one.why!r}; say in words why"
    for name, value in (("gain", one.gain), ("cost", one.cost)):
        if not isinstance(value, Real) or isinstance(value, bool) or math.isinf(value):
            return f"{name} is {value!r}; it is a finite number, or NaN where nobody reckons"
    return ""


def weighed(
    by: str, candidates: Sequence[Candidate], outcome_of: Mapping[tuple[Hashable, str], Weighed], view: View
) -> list[Considered]:
    """The candidates with what became of them; `outcome_of` has the moves that were asked for, by uid and target."""
    return [
        Considered(
            view.now_s,
            by,
            one.pod.name,
            _job_name(view.running[one.pod.uid]),
            view.running[one.pod.uid].node,
            one.node,
            float(one.gain),
            float(one.cost),
            one.unit,
            outcome_of.get((one.pod.uid, one.node), Weighed.KEPT),
            one.why,
        )
        for one in candidates
    ]


def _job_name(running: RunningPod) -> str:
    return running.pod.name if running.stable_id is None else str(running.stable_id)
