"""Reading an object part by part: for a file the first bad part is an error, for a running cluster the rest counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from foresail.kube.objects.quantity import NANO_PER_MILLI, NANO_PER_UNIT, Amounts, RequestError

MALFORMED = (ValueError, TypeError, AttributeError, KeyError)
"""What reading an object raises that is not as Kubernetes writes it."""

MOST_HELD = 2**52
"""Milli-CPU, bytes or units that one pod of a cluster counts for at most. No node has as much, and a node's sum stays
within 64 bits whatever its pods claim to need."""

Request = tuple[int, int]
"""Milli-CPU and bytes."""

T = TypeVar("T")
D = TypeVar("D")


class PartReader(Protocol):
    """Reads one part of an object."""

    def __call__(self, read: Callable[..., T], otherwise: D, *about: object) -> T | D:
        """What `read(*about)` gives; `otherwise` if that cannot be read and need not be."""


class Parts(Protocol):
    """How the parts of an object are read."""

    @property
    def part(self) -> PartReader: ...

    def bounded(self, requested: Amounts) -> Amounts:
        """Amounts that a node's books can take."""

    def claimed(self, enforced: Request, stated: Request | None) -> Request:
        """What a pod counts for that states another request than its containers do; None if it states none."""


class Whole:
    """Every part must be readable: the first that is not raises."""

    def part(self, read: Callable[..., T], _otherwise: D, *about: object) -> T | D:
        return read(*about)

    def bounded(self, requested: Amounts) -> Amounts:
        return requested

    def claimed(self, enforced: Request, stated: Request | None) -> Request:
        return stated or enforced


class Lenient:
    """A part that cannot be read is left out, and the others count all the same."""

    def __init__(self) -> None:
        self.why = ""
        """What was wrong with the first part that could not be read; empty if all could."""

    def part(self, read: Callable[..., T], otherwise: D, *about: object) -> T | D:
        try:
            return read(*about)
        except MALFORMED as error:
            self.note(error)
            return otherwise

    def bounded(self, requested: Amounts) -> Amounts:
        return {
            name: min(amount, MOST_HELD * (NANO_PER_MILLI if name == "cpu" else NANO_PER_UNIT))
            for name, amount in requested.items()
        }

    def claimed(self, enforced: Request, stated: Request | None) -> Request:
        # Whoever may edit a pod may state what he likes: that adds to what its containers request, and never lowers it.
        return enforced if stated is None else (max(enforced[0], stated[0]), max(enforced[1], stated[1]))

    def note(self, error: Exception) -> None:
        if not self.why:
            self.why = str(error) if isinstance(error, RequestError) else f"{type(error).__name__}: {error}"


WHOLE = Whole()
