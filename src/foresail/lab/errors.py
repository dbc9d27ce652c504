"""What can go wrong with a lab."""

from __future__ import annotations

from foresail.errors import ForesailError


class LabError(ForesailError):
    """A lab that cannot be built, started, found or removed; the message says why and what to do."""
