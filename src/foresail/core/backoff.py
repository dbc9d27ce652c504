"""How long who fitted nowhere is left alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a lane that fitted nowhere stays away even if woken: doubling from `first_s` up to `most_s`."""

    first_s: float = 1.0
    most_s: float = 10.0

    def pause_s(self, failures: int) -> float:
        """How long after this many failures in a row."""
        return min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 60))


NO_BACKOFF = Backoff(0.0, 0.0)
