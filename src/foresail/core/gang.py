"""All or nothing: place the members of a gang together, or none of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from foresail.core.asking import looks_at_other_nodes
from foresail.core.model import Declined, NoFit, Placement, Pod, Shape
from foresail.core.profile import Profile
from foresail.core.table import NodeTable

Placements = list[tuple[Pod, Placement]]
Decide = Callable[[Pod, NodeTable, Profile], Placement | NoFit]
"""`decide`, or something that answers in its place, such as one that writes every answer down."""
Result = TypeVar("Result")
Questions = Generator[Pod, Placement | NoFit, Result]
"""A loop that stops at each pod that is to be decided, and goes on with the answer."""


def place_gang(
    members: Sequence[Pod],
    table: NodeTable,
    profile: Profile,
    *,
    missing: int,
) -> Questions[tuple[Placements, NoFit | None]]:
    """Assume as many members as fit, if they are at least `missing`; else assume none. Also say why one did not fit,
    first of all that it was declined.

    Each member sees the ones before it, so a policy can bring them close together. With fewer placed than are missing,
    the table is left as it was found.
    """
    placed: Placements = []
    refusal: NoFit | None = None
    refused: set[Shape] = set()
    left_out = 0
    # Room only shrinks while the gang is placed: once one of a shape fits nowhere, the rest of them do not either. A
    # filter that looks at other nodes may see it otherwise: a pod can be what another of the gang waits for.
    only_shrinks = not looks_at_other_nodes(profile)
    for pod in members:
        try:
            outcome = None if pod.shape in refused else (yield pod)
        except BaseException:
            _take_back(placed, table)
            raise
        if isinstance(outcome, Placement):
            table.assume(pod, outcome)
            placed.append((pod, outcome))
            continue
        if outcome is not None:
            if refusal is None or isinstance(outcome, Declined):
                refusal = outcome
            if only_shrinks:
                refused.add(pod.shape)
        left_out += 1
        if len(members) - left_out < missing:
            break
    if len(placed) >= missing:
        return placed, refusal
    _take_back(placed, table)
    return [], refusal


def answered(questions: Questions[Result], answer: Callable[[Pod], Placement | NoFit]) -> Result:
    """Go through a loop that asks; what an answer raises is raised in the loop, which puts its books in order."""
    try:
        pod = next(questions)
        while True:
            try:
                outcome = answer(pod)
            except BaseException as error:  # noqa: BLE001 - the loop raises it again
                pod = questions.throw(error)
            else:
                pod = questions.send(outcome)
    except StopIteration as end:
        result: Result = end.value
        return result


def _take_back(placed: Placements, table: NodeTable) -> None:
    for pod, _ in reversed(placed):
        table.forget(pod.uid)
