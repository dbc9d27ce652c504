"""Stories of moves that go wrong, each by name and seed, and whose promise it is that no job comes to harm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.live.moves.faults import leaders, mishaps
from tests.live.moves.faults.movers import Nursery
from tests.live.moves.faults.scene import Figures

from foresail.lab import Lab

Story = Callable[[Lab, Nursery, int], Awaitable[Figures]]

STORIES: dict[str, tuple[Story, int]] = {
    "killed": (leaders.killed, len(leaders.KILLED)),
    "killed-undoing": (leaders.killed_undoing, 20),
    "target-lost": (mishaps.target_lost, 20),
    "target-refuses": (mishaps.target_refuses, 5),
    "full-volume": (mishaps.full_volume, 6),
    "ignores-sigterm": (mishaps.ignores_sigterm, 6),
    "slow-to-leave": (mishaps.slow_to_leave, 6),
    "corrupt-rows": (mishaps.corrupt_rows, 5),
    "owner-never-makes": (mishaps.never_made, 4),
    "backoff-limit": (mishaps.backoff_limit, 6),
    "two-leaders": (leaders.two_leaders, 24),
    "storm": (leaders.storm, 18),
    "late-eviction": (leaders.late_eviction, 5),
    "budget": (mishaps.budget, 10),
    "no-move": (mishaps.no_move, 5),
    "deleted": (mishaps.deleted_meanwhile, 5),
    "finishes": (mishaps.finishes, 3),
}
"""Every story, and how many seeds it has."""


async def tell(lab: Lab, nursery: Nursery, name: str, seed: int) -> Figures:
    """One run; an error says how to have it once more."""
    story, _ = STORIES[name]
    try:
        return await story(lab, nursery, seed)
    except BaseException as error:
        error.add_note(f"{name}, seed {seed}: {story.__doc__}\nonce more: python bench/moves.py --only {name}:{seed}")
        raise
