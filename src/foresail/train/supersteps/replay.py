"""What was seen, done and earned, as far back as there is room: what a network is trained with again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Batch = tuple[npt.NDArray[Any], ...]


class Replay:
    """A ring of supersteps in their order; what was seen after one is what was seen before the next."""

    def __init__(self, room: int, seen: int) -> None:
        self._seen = np.zeros((room, seen), np.float32)
        self._actions = np.zeros(room, np.int32)
        self._rewards = np.zeros(room, np.float32)
        self._ended = np.zeros(room, np.float32)
        self._total = 0

    def add(self, seen: npt.NDArray[np.float32], action: int, reward: float, *, ended: bool) -> None:
        at = self._total % len(self._seen)
        self._seen[at], self._actions[at] = seen.reshape(-1), action
        self._rewards[at], self._ended[at] = reward, ended
        self._total += 1

    def draw(self, count: int, rng: np.random.Generator) -> Batch:
        """Seen, action, reward, seen next, ended. The newest one is left out: what comes after it is not known yet."""
        room = len(self._seen)
        kept = min(self._total, room)
        at = (self._total - kept + rng.integers(kept - 1, size=count)) % room
        after = (at + 1) % room
        return self._seen[at], self._actions[at], self._rewards[at], self._seen[after], self._ended[at]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        kept = min(self._total, len(self._seen))
        return {
            "seen": self._seen[:kept],
            "actions": self._actions[:kept],
            "rewards": self._rewards[:kept],
            "ended": self._ended[:kept],
            "total": np.array(self._total),
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        kept = len(arrays["seen"])
        self._seen[:kept], self._actions[:kept] = arrays["seen"], arrays["actions"]
        self._rewards[:kept], self._ended[:kept] = arrays["rewards"], arrays["ended"]
        self._total = int(arrays["total"])
