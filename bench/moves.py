"""Moves that go wrong, on one real API server: the whole campaign, several runs side by side, and a table of it.

    python bench/moves.py --runs 150
    python bench/moves.py --only killed:7

Every run is one of `tests/live/moves/faults/stories.py`, judged at its end; a run that is not as promised is told, and
the command fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.live.moves.faults.movers import Nursery, nursery  # noqa: E402 - the tests are no package
from tests.live.moves.faults.stories import STORIES, tell  # noqa: E402

from foresail.lab import Lab  # noqa: E402

FLAGS = ("--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",)
Result = dict[str, Any]


def plan(runs: int, only: Sequence[str]) -> list[tuple[str, int]]:
    """Which stories with which seeds: so many, of every story alike; all of them without a number."""
    if only:
        named = [one.partition(":") for one in only]
        return [(story, at) for story, _, seed in named for at in ([int(seed)] if seed else range(STORIES[story][1]))]
    # A story's seeds go through all that it is about: those taken stand at equal distances, beginning anywhere.
    everything = [
        ((seed * 7 % count + 0.5) / count, story, seed)
        for story, (_, count) in STORIES.items()
        for seed in range(count)
    ]
    ordered = [(story, seed) for _, story, seed in sorted(everything)]
    return ordered[: runs or None]


async def campaign(lab: Lab, runs: Sequence[tuple[str, int]], at_once: int, out: Path | None) -> list[Result]:
    waiting = list(reversed(runs))
    results: list[Result] = []

    async def work(where: Nursery) -> None:
        while waiting:
            story, seed = waiting.pop()
            begun_s = time.monotonic()
            result: Result = {"story": story, "seed": seed}
            try:
                result |= await tell(lab, where, story, seed)
            except Exception as error:  # noqa: BLE001 - the others go on, and this one is told
                traceback.print_exception(error)
                result["failed"] = str(error)
            result["took_s"] = round(time.monotonic() - begun_s, 1)
            results.append(result)
            if out is not None:
                out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            how = "NOT AS PROMISED" if "failed" in result else "ok"
            print(f"{len(results)}/{len(runs)} {story}:{seed} {result.get('what', '')}: {how}, {result['took_s']} s")
            sys.stdout.flush()

    async with nursery() as where:
        await asyncio.gather(*(work(where) for _ in range(at_once)))
    return sorted(results, key=lambda one: (list(STORIES).index(one["story"]), one["seed"]))


def table(results: Sequence[Result]) -> str:
    """Of each story, what came of it."""
    columns = (
        "story",
        "runs",
        "not as promised",
        "moves finished",
        "undone",
        "steps lost a move: mean (most)",
        "lost beyond the last checkpoint",
        "two at once, at most",
    )
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    rows = [(name, [one for one in results if one["story"] == name]) for name in STORIES]
    for name, own in [*rows, ("**all**", list(results))]:
        good = [one for one in own if "failed" not in one]
        if not own:
            continue
        lost = [steps for one in good for steps in one["steps_lost"]]
        finished, undone, beyond = (sum(one[what] for one in good) for what in ("moved", "undone", "beyond_checkpoint"))
        overlap_s = max((one["overlap_s"] for one in good), default=0.0)
        lines.append(
            f"| {name} | {len(own)} | {len(own) - len(good)} | {finished} | {undone} "
            f"| {sum(lost) / max(1, len(lost)):.1f} ({max(lost, default=0)}) | {beyond} | {overlap_s:.1f} s |"
        )
    return "\n".join(lines)


def main() -> int:
    said = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    said.add_argument("--runs", type=int, default=0, help="so many, of every story; by default all")
    said.add_argument("--only", action="append", default=[], metavar="STORY[:SEED]")
    said.add_argument("--at-once", type=int, default=8, help="runs side by side (8)")
    said.add_argument("--out", type=Path, help="a file for the results, as JSON")
    options = said.parse_args()
    with tempfile.TemporaryDirectory(prefix="fs-") as folder, Lab(base=Path(folder), apiserver_flags=FLAGS) as lab:
        results = asyncio.run(campaign(lab, plan(options.runs, options.only), options.at_once, options.out))
    print(table(results))
    return 1 if any("failed" in one for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
