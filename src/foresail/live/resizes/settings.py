"""How pods are resized: settings of every program with controllers."""

from __future__ import annotations

from dataclasses import dataclass

from foresail.settings import setting


@dataclass(frozen=True, slots=True)
class ResizeSettings:
    """What is sent, how fast, and how long its effect is waited for."""

    within_s: float = setting(30.0, option="--resize-within")
    """A pod that its node has not given what it is to get within this time is given back what it had."""
    least_change: float = setting(0.01, option="--resize-least-change", metavar="PART")
    """Resizes that change a pod's CPU by less than this part of what it has are not sent."""
    most_a_second: float = setting(50.0, option="--resize-most-a-second", metavar="NUMBER")
    """Patches of pods that are sent at most in a second."""
    rest_s: float = setting(60.0, option="--resize-rest")
    """A pod whose resize came to nothing is left alone for so long."""
    restarts: bool = setting(default=False, option="--resize-restarts")
    """Resize containers, too, that their resizePolicy restarts when their CPU changes."""
