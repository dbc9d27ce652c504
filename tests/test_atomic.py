from __future__ import annotations

import pytest

from foresail.atomic import replacing
from foresail.errors import InputError, ResultsError


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")
    with replacing(path) as part:
        part.write_text("ne")
        assert path.read_text() == "old"
        assert (part.parent, part.suffix) == (path.parent, ".csv")
        part.write_text("new")
    assert contents(tmp_path) == {"a.csv": "new"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a.csv"
    path.write_text("old")

    def write():
        with replacing(path) as part:
            part.write_text("ne")
            raise error

    with pytest.raises(error):
        write()
    assert contents(tmp_path) == {"a.csv": "old"}


def write_in(path, failed=None):
    with replacing(path, failed) as part:
        part.write_text("new")


def test_what_the_system_refuses_names_the_file_and_the_reason(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"none/a\.csv: cannot be written: No such file or directory"):
        write_in(tmp_path / "none" / "a.csv")
    with pytest.raises(InputError, match=r"file/a\.csv: cannot be written: Not a directory"):
        write_in(tmp_path / "file" / "a.csv")
    with pytest.raises(InputError, match=r"folder\.csv: cannot be written: Is a directory"):
        write_in(tmp_path / "folder.csv")
    with pytest.raises(ResultsError, match=r"^sorry: Not a directory$"):
        write_in(tmp_path / "file" / "a.csv", lambda why: ResultsError(f"sorry: {why}"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.csv"]
