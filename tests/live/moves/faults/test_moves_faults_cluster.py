"""Whatever happens in the middle of a move, no job is lost, none trains twice at once, and none loses what is on disk.

A handful of runs, all at once; `bench/moves.py` has all of them.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from tests.live.moves.faults.leaders import BESIDE_ITS_POD, FORWARD, KILLED, Point
from tests.live.moves.faults.movers import nursery
from tests.live.moves.faults.stories import STORIES, tell
from tests.live.moves.faults.work import Kind

from foresail.lab import Lab

pytestmark = pytest.mark.cluster

_FLAGS = ("--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",)


def _killed(kind: Kind, point: Point, *, has_effect: bool) -> tuple[str, int]:
    return ("killed", KILLED.index((kind, point, has_effect)))


RUNS = [
    _killed(Kind.BARE, Point("make"), has_effect=True),
    _killed(Kind.STATEFUL_SET, Point("evict"), has_effect=True),
    _killed(Kind.SURGED, Point("scale"), has_effect=True),
    ("killed-undoing", 4),
    ("slow-to-leave", 3),
    ("ignores-sigterm", 0),
]


def test_every_write_of_a_move_has_a_run_that_is_killed_at_it():
    assert {point for _, point, _ in KILLED} == {*FORWARD, *BESIDE_ITS_POD}
    assert sum(count for _, count in STORIES.values()) >= 150


def test_moves_that_go_wrong_harm_no_job() -> None:
    async def all_of_them(lab: Lab) -> None:
        async with nursery() as where:
            ended = await asyncio.gather(*(tell(lab, where, name, seed) for name, seed in RUNS), return_exceptions=True)
        errors = [error for error in ended if isinstance(error, BaseException)]
        if errors:
            raise BaseExceptionGroup(f"{len(errors)} of {len(RUNS)} runs are not as promised", errors)

    with tempfile.TemporaryDirectory(prefix="fs-") as folder, Lab(base=Path(folder), apiserver_flags=_FLAGS) as lab:
        asyncio.run(all_of_them(lab))
