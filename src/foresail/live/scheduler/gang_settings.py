"""How gangs wait on a real cluster: settings of `foresail run`."""

from __future__ import annotations

from dataclasses import dataclass

from foresail.errors import OptionError
from foresail.settings import setting


@dataclass(frozen=True, slots=True)
class GangWaitSettings:
    """When room is kept for a gang, and for how many."""

    reserve_after_s: float = setting(30.0, option="--gang-reserve-after")
    """How long a complete gang that does not fit waits before room is kept for it; "inf": none is."""
    reservations: int = setting(1, option="--gang-reservations", metavar="NUMBER")
    """How many gangs of one priority have room kept for them at a time, the first in line."""

    def __post_init__(self) -> None:
        if not self.reserve_after_s >= 0:
            raise OptionError(f"--gang-reserve-after is {self.reserve_after_s:g}; it is a time in seconds, 0 or more")
        if self.reservations < 1:
            raise OptionError(f"--gang-reservations is {self.reservations}; it is a number of gangs, 1 or more")
