"""Scalars of TensorBoard's events, read from their protocol buffers by hand: only the few fields that hold them.

Event    1 wall_time double · 2 step int64 · 5 summary
Summary  1 value, repeated: 1 tag · 2 simple_value float · 8 tensor
Tensor   1 dtype · 4 content · 5 float · 6 double · 7 int · 10 int64 · 13 half
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT, _DOUBLE, _INT32, _INT64, _BFLOAT16, _HALF = 1, 2, 3, 9, 14, 19
_CONTENT = {_FLOAT: "<f", _DOUBLE: "<d", _INT32: "<i", _INT64: "<q", _HALF: "<e"}
_MOST_VALUES = 1000


class Scalar(NamedTuple):
    """One value of one tag."""

    time_s: float
    step: int
    tag: str
    value: float


class BadEvent(ValueError):  # noqa: N818 - an event is bad; the error is whoever's wrote it
    """Bytes that are no event."""


def scalars_in(data: bytes) -> list[Scalar]:
    """The scalars of an event; BadEvent if it is none."""
    time_s, step, summaries = 0.0, 0, []
    for number, kind, value in _fields(data):
        if number == 1 and kind == _FIXED64:
            (time_s,) = struct.unpack("<d", value)
        elif number == 2 and kind == _VARINT:
            step = _signed(value)
        elif number == 5 and kind == _BYTES:
            summaries.append(value)
    found: list[Scalar] = []
    for summary in summaries:
        for number, kind, value in _fields(summary):
            if number == 1 and kind == _BYTES and len(found) < _MOST_VALUES:
                tag, scalar = _value(value)
                if tag and scalar is not None:
                    found.append(Scalar(time_s, step, tag, scalar))
    return found


def _value(data: bytes) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, kind, value in _fields(data):
        if number == 1 and kind == _BYTES:
            tag = value.decode("utf-8", "replace")
        elif number == 2 and kind == _FIXED32:
            (scalar,) = struct.unpack("<f", value)
        elif number == 8 and kind == _BYTES:
            scalar = _tensor(value)
    return tag, scalar


def _tensor(data: bytes) -> float | None:
    """The value of a tensor that holds one, None for any other."""
    dtype, content, values = 0, b"", []
    for number, kind, value in _fields(data):
        if number == 1 and kind == _VARINT:
            dtype = value
        elif number == 4 and kind == _BYTES:
            content = value
        elif number in _READ_VALUES:
            values += _READ_VALUES[number](kind, value)
    if content:
        return _of_content(dtype, content)
    if len(values) != 1:
        return None
    return _of_half(dtype, int(values[0])) if dtype in {_HALF, _BFLOAT16} else float(values[0])


def _of_content(dtype: int, content: bytes) -> float | None:
    if dtype == _BFLOAT16 and len(content) == 2:
        return _of_half(dtype, int.from_bytes(content, "little"))
    layout = _CONTENT.get(dtype)
    if layout is None or struct.calcsize(layout) != len(content):
        return None
    return float(struct.unpack(layout, content)[0])


def _of_half(dtype: int, bits: int) -> float:
    bits &= 0xFFFF
    if dtype == _HALF:
        return float(struct.unpack("<e", struct.pack("<H", bits))[0])
    return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])


def _floats(kind: int, value: bytes) -> list[float]:
    return list(_unpacked("<f", 4, value)) if kind in {_BYTES, _FIXED32} else []


def _doubles(kind: int, value: bytes) -> list[float]:
    return list(_unpacked("<d", 8, value)) if kind in {_BYTES, _FIXED64} else []


def _whole(kind: int, value: bytes | int) -> list[float]:
    if kind == _VARINT and isinstance(value, int):
        return [float(_signed(value))]
    found: list[float] = []
    at = 0
    while isinstance(value, bytes) and at < len(value) and len(found) < 2:
        number, at = _varint(value, at)
        found.append(float(_signed(number)))
    return found


def _unpacked(layout: str, size: int, value: bytes) -> Iterator[float]:
    for at in range(0, min(len(value), 2 * size) - size + 1, size):  # a third would change nothing
        yield struct.unpack_from(layout, value, at)[0]


_READ_VALUES = {5: _floats, 6: _doubles, 7: _whole, 10: _whole, 13: _whole}


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Number, kind and value of each field: an int for kind 0, else bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        if kind == _BYTES:
            length, at = _varint(data, at)
        elif kind in {_FIXED64, _FIXED32}:
            length = 8 if kind == _FIXED64 else 4
        else:
            raise BadEvent(f"field {number} has the unknown kind {kind}")
        if length > len(data) - at:
            raise BadEvent(f"field {number} is longer than what is left")
        yield number, kind, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise BadEvent("a number does not end")


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
