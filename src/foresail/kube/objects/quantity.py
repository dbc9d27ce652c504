"""Kubernetes quantities ("100m", "1Gi", "2e3") as exact integers, alone and in maps of resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

NANO_PER_UNIT = 10**9
NANO_PER_MILLI = 10**6
LARGEST = 2**63 - 1
"""The largest value a column can hold; Kubernetes stops at the same number."""

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SHAPE = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,9}|)"
)
_LONGEST = 100
"""Longer texts are no quantities but mistakes, and turning them into integers would take long."""

Amounts = dict[str, int]
"""Resource name to amount, in nano units: sums stay exact and are rounded once, at the end."""


class QuantityError(ValueError):
    """A text that is no quantity; the message gives the value and the remedy but not the place."""


class RequestError(ValueError):
    """A bad value below a pod's spec; the message begins with the field."""


def nano(value: object) -> int:
    """The quantity in billionths of a unit; finer fractions are rounded away from zero, as Kubernetes does."""
    text = _text(value)
    match = _SHAPE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match["whole"] or match["part"]):
        raise QuantityError(f'is "{text[:_LONGEST]}"; write a Kubernetes quantity such as "500m", "2", "1.5" or "16Gi"')
    part = match["part"] or ""
    digits = int((match["whole"] or "0") + part)
    suffix = match["suffix"]
    if suffix in _BINARY:
        size = _scaled(digits * _BINARY[suffix], 9 - len(part))
    else:
        exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        size = _scaled(digits, 9 + exponent - len(part))
    return -size if match["sign"] == "-" else size


def milli(value: object) -> int:
    """The quantity in thousandths, rounded away from zero: the unit of CPU."""
    return rounded(nano(value), NANO_PER_MILLI)


def units(value: object) -> int:
    """The quantity in whole units, rounded away from zero: bytes, devices, pods."""
    return rounded(nano(value), NANO_PER_UNIT)


def rounded(amount: int, divisor: int) -> int:
    """`amount / divisor`, rounded away from zero."""
    return -(-amount // divisor) if amount >= 0 else amount // divisor


def amounts(resources: object, field: str) -> Amounts:
    """A `requests`, `limits`, `allocatable` or `overhead` map in nano units; negative values are refused."""
    found: Amounts = {}
    for name, value in mapping(resources, field).items():
        try:
            amount = nano(value)
        except QuantityError as error:
            raise RequestError(f"{field}.{name} {error}") from None
        if amount < 0:
            raise RequestError(f'{field}.{name} is "{value}"; write 0 or more')
        if amount > LARGEST * NANO_PER_UNIT:
            raise RequestError(f'{field}.{name} is "{value}"; the largest quantity is {LARGEST}')
        found[str(name)] = amount
    return found


def mapping(value: object, field: str) -> Mapping[str, Any]:
    """`value` as a mapping, empty if it is missing; anything else is refused by field name."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RequestError(f"{field} is {_seen(value)}; write a mapping of names to values")
    return value


def sequence(value: object, field: str) -> list[Any]:
    """`value` as a list, empty if it is missing; anything else is refused by field name."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise RequestError(f"{field} is {_seen(value)}; write a list")
    return value


def _seen(value: object) -> str:
    return f'"{value}"' if isinstance(value, str | int | float) else f"a {type(value).__name__}"


def _text(value: object) -> str:
    # YAML and JSON turn unquoted quantities into numbers; Decimal writes 1e-7 as Kubernetes would read it.
    if isinstance(value, float):
        return str(Decimal(repr(value)))
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else repr(value)


def _scaled(digits: int, exponent: int) -> int:
    if not digits:
        return 0
    if exponent > 2 * _LONGEST:
        raise QuantityError(f"is far too large; the largest quantity is {LARGEST}")
    # More than 200 places below a nano leave 1 nano of any number that passed the length check.
    factor: int = 10 ** min(abs(exponent), 2 * _LONGEST)
    return digits * factor if exponent >= 0 else -(-digits // factor)
