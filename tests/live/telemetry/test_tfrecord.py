"""Records and scalars of event files, against bytes written by hand and by another library."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboardX import crc32c
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.proto.tensor_pb2 import TensorProto
from tensorboardX.record_writer import RecordWriter

from foresail.live.telemetry.scalars import BadEvent, Scalar, scalars_in
from foresail.live.telemetry.tfrecord import TfRecord, TfRecords, masked_crc

CHECK = 0xE3069283
"""CRC-32C of the nine digits, as every table of checksums has it."""
BY_HAND = bytes.fromhex(
    "09 000000000000f83f"  # wall_time 1.5
    "10 0c"  # step 12
    "2a 0d"  # summary, 13 bytes
    "0a 0b"  # a value, 11 bytes
    "0a 04 6c6f7373"  # tag "loss"
    "15 0000803e"  # simple_value 0.25
)


def framed(data: bytes) -> bytes:
    """A record as another library writes it."""
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", _masked(head)) + data + struct.pack("<I", _masked(data))


def _masked(data: bytes) -> int:
    crc = crc32c._crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read(*pieces: bytes) -> list[TfRecord]:
    records = TfRecords()
    return [record for piece in pieces for record in records.feed(piece)]


# --- records ---------------------------------------------------------------------------------------------------------


def test_the_checksum_is_the_one_of_the_tables():
    assert masked_crc(b"123456789") == ((CHECK >> 15 | CHECK << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_a_file_of_another_writer_is_read_record_by_record(tmp_path):
    path = tmp_path / "records"
    writer = RecordWriter(str(path))
    for data in (b"one", b"", b"three" * 100):
        writer.write(data)
    writer.close()
    assert read(path.read_bytes()) == [TfRecord(b"one", 0), TfRecord(b"", 19), TfRecord(b"three" * 100, 35)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([b"", b"a", b"bc" * 9, b"x" * 70_000]), max_size=5), st.data())
def test_records_are_the_same_however_they_are_cut(payloads, draw):
    data = b"".join(map(framed, payloads))
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    found = read(*(data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)))
    assert [record.data for record in found] == [one for one in payloads if len(one) < 70_000]
    assert [record.damage for record in found] == [""] * len(found)
    assert [framed(one.data) == data[one.offset : one.offset + len(one.data) + 16] for one in found] == [True] * len(
        found
    )


def test_a_record_that_has_not_ended_is_none_yet():
    records = TfRecords()
    assert records.feed(framed(b"one")[:-1]) == []
    assert records.feed(framed(b"one")[-1:]) == [TfRecord(b"one", 0)]


def test_a_damaged_record_is_told_and_the_next_is_read():
    data = bytearray(framed(b"one") + framed(b"two") + framed(b"three"))
    data[19 + 13] ^= 1
    damaged = TfRecord(b"tvo", 19, "the record is damaged: its checksum is another")
    assert read(bytes(data)) == [TfRecord(b"one", 0), damaged, TfRecord(b"three", 38)]


@pytest.mark.parametrize("byte", range(12))
def test_a_damaged_length_ends_the_file(byte):
    data = bytearray(framed(b"one") + framed(b"two"))
    data[19 + byte] ^= 0x40
    why = "the length of a record is damaged; the rest is not read"
    assert read(bytes(data), framed(b"three")) == [TfRecord(b"one", 0), TfRecord(b"", 19, why)]


def test_a_length_without_end_is_damage():
    head = struct.pack("<Q", 2**60)
    assert read(head + struct.pack("<I", _masked(head)))[0].damage.startswith("the length")


def test_a_long_record_takes_no_memory():
    records = TfRecords()
    long = framed(b"x" * 1_000_000)
    for start in range(0, len(long), 1000):
        assert records.feed(long[start : start + 1000]) == []
        assert len(records._begun) < 2000
    assert records.feed(framed(b"next")) == [TfRecord(b"next", len(long))]


# --- events ----------------------------------------------------------------------------------------------------------


def test_an_event_written_by_hand_is_read():
    assert scalars_in(BY_HAND) == [Scalar(1.5, 12, "loss", 0.25)]
    assert Event.FromString(BY_HAND).summary.value[0].tag == "loss", "the bytes are what they should be"


@settings(max_examples=200, deadline=None)
@given(
    st.floats(0, 2e9),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(st.tuples(st.sampled_from(["loss", "a/b", "é"]), st.floats(width=32)), max_size=4),
)
def test_simple_values_are_what_another_library_wrote(time_s, step, values):
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values])
    data = Event(wall_time=time_s, step=step, summary=summary).SerializeToString()
    found = scalars_in(data)
    assert [(one.time_s, one.step, one.tag) for one in found] == [(time_s, step, tag) for tag, _ in values]
    for one, (_, value) in zip(found, values, strict=True):
        assert one.value == value or (math.isnan(one.value) and math.isnan(value))


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        ({"dtype": 1, "float_val": [0.5]}, 0.5),
        ({"dtype": 2, "double_val": [0.1]}, 0.1),
        ({"dtype": 3, "int_val": [-7]}, -7.0),
        ({"dtype": 9, "int64_val": [2**40]}, 2.0**40),
        ({"dtype": 19, "half_val": [0x3800]}, 0.5),
        ({"dtype": 14, "half_val": [0x3F00]}, 0.5),
        ({"dtype": 1, "tensor_content": struct.pack("<f", 0.5)}, 0.5),
        ({"dtype": 2, "tensor_content": struct.pack("<d", 0.1)}, 0.1),
        ({"dtype": 3, "tensor_content": struct.pack("<i", -7)}, -7.0),
        ({"dtype": 9, "tensor_content": struct.pack("<q", -(2**40))}, -(2.0**40)),
        ({"dtype": 19, "tensor_content": b"\x00\x38"}, 0.5),
        ({"dtype": 14, "tensor_content": b"\x00\x3f"}, 0.5),
        ({"dtype": 1, "float_val": [0.5, 0.25]}, None),
        ({"dtype": 1, "float_val": []}, None),
        ({"dtype": 1, "tensor_content": struct.pack("<ff", 1, 2)}, None),
        ({"dtype": 7, "string_val": [b"text"]}, None),
        ({"dtype": 7, "tensor_content": b"text"}, None),
    ],
)
def test_tensors_with_one_number_are_scalars_too(tensor, value):
    summary = Summary(value=[Summary.Value(tag="loss", tensor=TensorProto(**tensor))])
    found = scalars_in(Event(wall_time=1.0, step=2, summary=summary).SerializeToString())
    assert [one.value for one in found] == ([] if value is None else [value])


def test_other_events_have_no_scalars():
    assert scalars_in(Event(wall_time=1.0, file_version="brain.Event:2").SerializeToString()) == []
    assert scalars_in(Event(wall_time=1.0, graph_def=b"graph").SerializeToString()) == []
    assert scalars_in(b"") == []


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=60) | st.integers(0, len(BY_HAND)).map(lambda end: BY_HAND[:end]))
def test_any_bytes_are_scalars_or_a_bad_event(data):
    try:
        found = scalars_in(data)
    except BadEvent:
        return
    assert all(isinstance(one, Scalar) for one in found)
