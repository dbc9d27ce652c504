import numpy as np
import polars as pl
import pytest

from foresail.core.journal import Journal, What
from foresail.results import tables as registry
from foresail.results.folder import read_run, write_run
from foresail.results.tables import ColumnSpec, TableSpec, journal_columns, register, table_named, tables, to_frame

WIRES = TableSpec(
    "wires",
    "wires.csv",
    "one a wire",
    (
        ColumnSpec("wire", pl.String, "", "name"),
        ColumnSpec("used_bit_per_s", pl.Int64, "bit/s", "what flows now"),
        ColumnSpec("used:<resource>", pl.Int64, "units", "one for each resource", optional=True),
    ),
    present="runs with wires",
)


class At:
    """A clock that stands where it is put."""

    now_s = 0.0

    def now(self):
        return self.now_s


@pytest.fixture
def wires(monkeypatch):
    """A table that a package has registered for this test."""
    monkeypatch.setattr(registry, "_TABLES", dict(registry._TABLES))
    return register(WIRES)


def test_every_column_says_what_it_is():
    for table in tables():
        assert table.rows
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names)
        assert all(column.meaning for column in table.columns), table.name


def test_a_table_of_a_package_is_written_and_read_like_the_others(tmp_path, make_openb, wires):
    columns = {"used:b/x": np.array([1.0]), "used_bit_per_s": np.array([7.0]), "wire": ["eth0"], "used:a/x": [2]}
    write_run(tmp_path / "run", make_openb(wires=columns), manifest_extra={})
    assert (tmp_path / "run/wires.csv").read_text() == "wire,used_bit_per_s,used:a/x,used:b/x\neth0,7,2,1\n"
    stored = read_run(tmp_path / "run")
    assert stored.frame("wires").schema["used_bit_per_s"] == pl.Int64
    assert stored.manifest["rows"]["wires.csv"] == 1


def test_a_folder_is_read_without_the_package_that_knows_its_table(tmp_path, make_openb, wires, monkeypatch):
    write_run(tmp_path / "run", make_openb(wires={"wire": ["eth0"], "used_bit_per_s": [7]}), manifest_extra={})
    monkeypatch.setattr(registry, "_TABLES", {name: one for name, one in registry._TABLES.items() if one != wires})
    assert read_run(tmp_path / "run").frame("wires").rows() == [("eth0", 7)]
    with pytest.raises(ValueError, match='no table "wires"; there are placements'):
        to_frame("wires", {})


def test_names_and_files_are_taken_once(wires):
    assert register(wires) is wires  # a module may be imported twice
    for other in (TableSpec("wires", "more.csv", "one", ()), TableSpec("more", "pods.parquet", "one", ())):
        with pytest.raises(ValueError, match=r"there is table .* already"):
            register(other)
    with pytest.raises(ValueError, match=r"is no file name that ends in \.csv or \.parquet"):
        register(TableSpec("x", "../x.csv", "one", ()))


def test_a_run_without_a_table_that_every_run_has_is_refused(tmp_path, make_openb):
    with pytest.raises(ValueError, match="the run lacks the table nodes, which every run has"):
        write_run(tmp_path / "run", make_openb(nodes=None), manifest_extra={})


def test_the_journal_comes_back_in_the_order_in_which_things_happened(tmp_path, make_clock):
    clock, records = At(), []
    journal = Journal(clock)
    journal.listen(records.append)
    journal.note(What.ARRIVE, pod="a")
    clock.now_s = 2.5
    journal.note(What.MOVE, pod="a", node="n1", detail="n0 is full", by="spread")
    write_run(tmp_path / "run", make_clock(journal=journal_columns(records)), manifest_extra={})
    assert read_run(tmp_path / "run").frame("journal").rows() == [
        (0.0, "arrive", "a", "", "", ""),
        (2.5, "move", "a", "n1", "n0 is full", "spread"),
    ]


def test_the_journal_names_everything_that_can_happen():
    meaning = table_named("journal").spec_of("what").meaning
    assert [what for what in What if f"`{what}`" not in meaning] == []


def test_an_empty_journal_is_a_table_without_rows(tmp_path, make_clock):
    write_run(tmp_path / "run", make_clock(journal=journal_columns([])), manifest_extra={})
    assert read_run(tmp_path / "run").frame("journal").schema == table_named("journal").schema
