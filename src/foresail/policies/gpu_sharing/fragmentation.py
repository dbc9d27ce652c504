"""Where the kernels of fgd had the typical requests once.

Kernels compiled then may be on disk still, and numba looks the types in their index up by module and name before it
sees that they are out of date. The maths is in `foresail.forecast.fragmentation`.
"""

from __future__ import annotations

from foresail.forecast.fragmentation import Asks, TypicalRequests

__all__ = ["Asks", "TypicalRequests"]
