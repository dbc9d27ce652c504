"""A file that grows is read once, in order, whatever happens to it; and nothing but a file of the folder is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.live.telemetry.tailing import Lines, Piece, Tail, open_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job").mkdir()
    return tmp_path


def tail_of(folder: Path, **more: object) -> Tail:
    return Tail(folder, "job", "rows", **{"most_bytes": 100, **more})


def append(folder: Path, data: bytes) -> None:
    with (folder / "job/rows").open("ab") as file:
        file.write(data)


def test_each_look_gives_what_came_since(folder):
    tail = tail_of(folder)
    assert tail.read() == []
    append(folder, b"one")
    assert tail.read() == [Piece(b"one")]
    assert tail.read() == []
    append(folder, b"two")
    append(folder, b"three")
    assert tail.read() == [Piece(b"twothree")]
    assert tail.head(5) == b"onetw"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"one", "it was cut short"),
        (b"", "it was cut short"),
        (b"ONE,two,three,four", "it was written anew"),
        (b"one,two,thre", "it was cut short"),
        (b"one,two,three,four", ""),
    ],
)
def test_a_file_that_is_not_what_it_was_is_read_from_its_beginning(folder, content, why):
    append(folder, b"one,two,three")
    tail = tail_of(folder)
    tail.read()
    (folder / "job/rows").write_bytes(content)
    assert tail.read() == [Piece(content, why) if why else Piece(b",four")]
    assert tail.read() == []


def test_of_a_rotated_file_the_rest_is_read_first(folder):
    append(folder, b"one")
    tail = tail_of(folder)
    tail.read()
    append(folder, b"two")
    (folder / "job/rows").rename(folder / "job/rows.1")
    append(folder, b"three")
    assert tail.read() == [Piece(b"two"), Piece(b"three", "it was replaced by another file")]
    (folder / "job/rows").rename(folder / "job/elsewhere")
    assert tail.read() == []
    (folder / "job/rows.1").unlink()
    append(folder, b"four")
    assert tail.read() == [Piece(b"four", "it was replaced by another file")]


def test_a_file_that_is_away_for_a_while_is_gone_on_with(folder):
    append(folder, b"one")
    tail = tail_of(folder)
    tail.read()
    (folder / "job").rename(folder / "away")
    assert tail.read() == []
    (folder / "away").rename(folder / "job")
    append(folder, b"two")
    assert tail.read() == [Piece(b"two")]


def test_no_look_reads_more_than_it_is_told(folder):
    append(folder, bytes(range(250)))
    assert tail_of(folder).read() == [Piece(bytes(range(150, 250)), "", 150)]
    tail = tail_of(folder, skips=False)
    assert [tail.read() for _ in range(4)] == [
        [Piece(bytes(range(100)))],
        [Piece(bytes(range(100, 200)))],
        [Piece(bytes(range(200, 250)))],
        [],
    ]


def test_links_pipes_and_folders_are_not_read(folder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    rows = folder / "job/rows"
    rows.symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"):
        tail_of(folder).read()
    rows.unlink()
    os.mkfifo(rows)
    with pytest.raises(OSError, match="no regular file"):
        tail_of(folder).read()
    rows.unlink()
    rows.mkdir()
    with pytest.raises(OSError, match="no regular file"):
        tail_of(folder).read()
    (folder / "linked").symlink_to(folder / "job")
    with pytest.raises(NotADirectoryError):
        Tail(folder, "linked", "rows", most_bytes=9).read()
    for name in ("..", ".", "", "a/b", "a\0b"):
        with pytest.raises(FileNotFoundError, match="names no folder"):
            open_folder(folder, [name])


def test_the_folder_itself_may_be_a_link(folder, tmp_path_factory):
    link = tmp_path_factory.mktemp("other") / "link"
    link.symlink_to(folder)
    append(folder, b"one")
    assert Tail(link, "job", "rows", most_bytes=9).read() == [Piece(b"one")]


def test_no_descriptor_is_left_open(folder):
    append(folder, b"one")
    (folder / "job/pipe").symlink_to("nowhere")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        tail_of(folder).read()
        tail_of(folder).head(3)
        Tail(folder, "none", "rows", most_bytes=9).read()
        with pytest.raises(OSError, match="symbolic links"):
            Tail(folder, "job", "pipe", most_bytes=9).read()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# --- lines -----------------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab\r\n", max_size=60).map(str.encode), st.data())
def test_lines_are_the_same_however_they_are_cut(data, draw):
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    lines = Lines(longest=4)
    found = [
        line for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) for line in lines.feed(data[start:end])
    ]
    whole = data.split(b"\n")[:-1]
    assert found == [(one[:4].removesuffix(b"\r"), len(one) <= 4) for one in whole]


def test_a_line_without_end_takes_no_memory():
    lines = Lines(longest=10)
    for _ in range(100):
        assert lines.feed(b"x" * 1_000_000) == []
    assert len(lines._begun) == 10
    assert lines.feed(b"\nnext\n") == [(b"x" * 10, False), (b"next", True)]
