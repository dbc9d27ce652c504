"""What controllers did in a run, from its journal."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from foresail.core.journal import What
from foresail.results.folder import Run

ACTIONS: dict[str, str] = {
    What.MOVE.value: "moves",
    What.RESIZE.value: "resizes",
    What.HOLD.value: "holds",
    What.DECLINE.value: "declined",
}
"""What controllers can be seen to do, by the journal's words, as tables and plots call it."""


class Acted(NamedTuple):
    """One action, in words."""

    time_s: float
    what: str
    pod: str
    node: str
    detail: str
    by: str


def actions_of(run: Run) -> pl.DataFrame | None:
    """The records of the journal that a controller asked for, in their order; None for a run without controllers.

    A move for which the policy chose the node has that node.
    """
    journal = run.frame("journal")
    if journal is None or not run.controllers:
        return None
    started = (
        journal.filter(what=What.START).select("time_s", "pod", chosen="node").unique(["time_s", "pod"], keep="last")
    )
    asked = journal.filter(pl.col("by") != "", pl.col("what").is_in(list(ACTIONS))).join(
        started, on=["time_s", "pod"], how="left", maintain_order="left"
    )
    is_open = (pl.col("what") == What.MOVE) & (pl.col("node") == "")
    return asked.with_columns(node=pl.when(is_open).then("chosen").otherwise("node").fill_null("")).drop("chosen")


def counted(actions: pl.DataFrame) -> list[tuple[str, list[int]]]:
    """Each controller with how often it did what, in the order of `ACTIONS`; those that did most come first."""
    by: dict[str, list[int]] = {}
    for controller, what in actions.select("by", "what").iter_rows():
        counts = by.setdefault(controller, [0] * len(ACTIONS))
        counts[list(ACTIONS).index(what)] += 1
    return sorted(by.items(), key=lambda item: (-sum(item[1]), item[0]))


def first(actions: pl.DataFrame, most: int) -> list[Acted]:
    """The first actions of a run."""
    return [Acted(*row) for row in actions.select(Acted._fields).head(most).iter_rows()]
