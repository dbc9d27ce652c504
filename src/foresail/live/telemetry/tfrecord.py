"""Records of TensorFlow's files, from bytes that come in pieces: length, its checksum, data, the data's checksum."""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEAD = struct.Struct("<QI")
_TAIL_BYTES = 4
_MOST_BYTES = 1 << 16
"""Longer records hold pictures, graphs and the like; they are passed over, and nobody keeps them."""
_ABSURD_BYTES = 1 << 32
_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8


def _table() -> tuple[int, ...]:
    found = []
    for value in range(256):
        rest = value
        for _ in range(8):
            rest = (rest >> 1) ^ (_POLYNOMIAL if rest & 1 else 0)
        found.append(rest)
    return tuple(found)


_TABLE = _table()


def masked_crc(data: bytes) -> int:
    """CRC-32C, turned and shifted as these files have it."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest = _TABLE[(rest ^ byte) & 0xFF] ^ (rest >> 8)
    rest ^= 0xFFFFFFFF
    return (((rest >> 15) | (rest << 17)) + _MASK_DELTA) & 0xFFFFFFFF


class TfRecord(NamedTuple):
    """What stands at one place of a file."""

    data: bytes
    offset: int
    damage: str = ""
    """Why the data is not to be used; empty if it is as it was written."""


class TfRecords:
    """Reads records as their bytes come. Where a length is damaged nobody knows where the next record begins, and the
    rest of the file is lost.
    """

    def __init__(self) -> None:
        self.is_lost = False
        self._begun = bytearray()
        self._offset = 0
        """Where in the file `_begun` begins."""
        self._passing = 0
        """Bytes yet to come of a record that nobody reads."""

    def feed(self, data: bytes) -> list[TfRecord]:
        """The records that end in `data`."""
        if self.is_lost:
            return []
        passed = min(self._passing, len(data))
        self._passing -= passed
        self._offset += passed
        self._begun += data[passed:]
        found = []
        while not self._passing and len(self._begun) >= _HEAD.size and not self.is_lost:
            length, checksum = _HEAD.unpack_from(self._begun)
            if masked_crc(bytes(self._begun[:8])) != checksum or length > _ABSURD_BYTES:
                self.is_lost = True
                self._begun.clear()
                found.append(TfRecord(b"", self._offset, "the length of a record is damaged; the rest is not read"))
                break
            whole = _HEAD.size + length + _TAIL_BYTES
            if length > _MOST_BYTES:
                self._pass_over(whole)
                continue
            if len(self._begun) < whole:
                break
            found.append(self._record(length))
            del self._begun[:whole]
            self._offset += whole
        return found

    def _pass_over(self, whole: int) -> None:
        here = min(whole, len(self._begun))
        del self._begun[:here]
        self._offset += here
        self._passing = whole - here

    def _record(self, length: int) -> TfRecord:
        data = bytes(self._begun[_HEAD.size : _HEAD.size + length])
        (checksum,) = struct.unpack_from("<I", self._begun, _HEAD.size + length)
        is_sound = masked_crc(data) == checksum
        return TfRecord(data, self._offset, "" if is_sound else "the record is damaged: its checksum is another")
