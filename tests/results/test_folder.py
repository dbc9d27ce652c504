import errno
import hashlib
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.digest import sha256_of
from foresail.errors import ResultsError
from foresail.results.folder import read_run, write_run
from foresail.results.tables import table_named, to_frame

NAMES = st.text(
    st.one_of(
        st.sampled_from(",\"\n\r\t ;#'-<&\\\ufeff"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def write(folder, run, **options):
    write_run(folder, run, manifest_extra={}, **options)
    return folder


def test_a_run_comes_back_as_it_was_written(tmp_path, make_openb):
    run = make_openb()
    write_run(tmp_path / "run", run, manifest_extra={"command": ["foresail", "simulate"], "note": "x"})
    stored = read_run(tmp_path / "run")
    for table in ("placements", "timeline", "nodes", "by_load"):
        assert getattr(stored, table).equals(to_frame(table, getattr(run, table))), table
    assert stored.pods is None
    assert (stored.protocol, stored.policy, stored.trace, stored.seed, stored.load, stored.total_gpus) == (
        "openb",
        "fgd",
        "default",
        42,
        1.3,
        4,
    )
    assert stored.profile == {"score": [["fgd", 1.0]]}
    assert stored.summary == {"used_gpu_milli": 4000, "ratio": None}
    assert stored.manifest["command"] == ["foresail", "simulate"]
    assert stored.manifest["note"] == "x"
    assert stored.manifest["rows"] == {
        "placements.csv": 3,
        "timeline.parquet": 50,
        "nodes.parquet": 3,
        "by_load.csv": 131,
    }


def test_pods_come_back_with_null_where_nothing_started(tmp_path, make_clock):
    stored = read_run(write(tmp_path / "run", make_clock()))
    assert stored.by_load is None
    assert stored.pods is not None
    assert stored.pods["wait_s"].to_list() == [0.0, 10.0, 30.0, None]


@settings(max_examples=60, deadline=None)
@given(pods=st.lists(NAMES, min_size=1, max_size=6), node=NAMES)
def test_odd_names_survive_the_round_trip(pods, node):
    from foresail.results.result import RunResult  # noqa: PLC0415 - hypothesis cannot take function-scoped fixtures

    with tempfile.TemporaryDirectory() as parent:
        names = [*pods, "last"]
        tables = _tables_for(names, node)
        run = RunResult("openb", "p", "t", 1, 1.0, 4, tables, summary={})
        stored = read_run(write(Path(parent) / "run", run))
        assert stored.placements["pod"].to_list() == names
        assert stored.placements["node"].to_list() == [node] * len(pods) + [""]


def _tables_for(names, node):
    count = len(names)
    placements = {
        "order": np.arange(count),
        "pod": names,
        "node": [node] * (count - 1) + [""],
        "devices": ["0"] * count,
        "time_s": np.zeros(count),
    }
    return {"placements": placements, "timeline": _empty("timeline"), "nodes": _empty("nodes")}


def _empty(table):
    return {name: np.empty(0) for name in table_named(table).schema}


def test_the_same_run_writes_the_same_bytes_twice(tmp_path, make_openb, make_clock):
    for name, make in (("openb", make_openb), ("clock", make_clock)):
        first = contents(write(tmp_path / f"{name}-1", make()))
        assert contents(write(tmp_path / f"{name}-2", make())) == first


def test_placements_are_written_to_the_letter(tmp_path, make_openb):
    run = make_openb(pod_names=("a", 'x,"y"', "c", "d"))
    write(tmp_path / "run", run)
    assert (tmp_path / "run/placements.csv").read_text() == (
        'order,pod,node,devices,time_s\n0,a,n0,0-1,0\n1,"x,""y""",n0,0-1,0.5\n2,c,n0,0-1,1\n3,d,,,1.5\n'
    )
    lines = (tmp_path / "run/by_load.csv").read_text().splitlines()
    assert lines[0] == "load,allocation_pct,fragmentation_pct,fragmentation_ratio_pct"
    assert lines[1] == "0,0.0,14.0,99.5"
    assert lines[-1] == "130,95.25,4.5,99.5"


def test_the_manifest_hashes_every_other_file_and_names_no_host(tmp_path, make_openb):
    write(tmp_path / "run", make_openb())
    files = contents(tmp_path / "run")
    manifest = json.loads(files.pop("manifest.json"))
    assert manifest["files"] == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    assert set(manifest["versions"]) == {"foresail", "python", "numba", "numpy", "polars"}
    assert os.uname().nodename not in json.dumps(manifest)


def test_extra_fields_may_not_hide_the_runs_own(tmp_path, make_openb):
    with pytest.raises(ValueError, match="manifest_extra may not set seed"):
        write_run(tmp_path / "run", make_openb(), manifest_extra={"seed": 1})
    assert not list(tmp_path.iterdir())


def test_inputs_are_hashed(tmp_path):
    (tmp_path / "pods.csv").write_bytes(b"abc")
    path = tmp_path / "pods.csv"
    assert {str(path): sha256_of(path)} == {str(path): hashlib.sha256(b"abc").hexdigest()}


@pytest.mark.parametrize("nth_write", [1, 3, 6])
def test_a_full_disk_leaves_nothing_behind(tmp_path, make_openb, monkeypatch, nth_write):
    calls = iter(range(1, 100))
    sync = os.fsync

    def full(handle):
        if next(calls) == nth_write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultsError, match=r"run: no space left on the disk, nothing was written; free some space"):
        write(tmp_path / "run", make_openb())
    assert not list(tmp_path.iterdir())


def test_a_full_disk_keeps_the_earlier_results(tmp_path, make_openb, monkeypatch):
    before = contents(write(tmp_path / "run", make_openb()))

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultsError, match="no space left"):
        write(tmp_path / "run", make_openb(seed=43), overwrite=True)
    assert contents(tmp_path / "run") == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_existing_folder_is_only_replaced_when_asked(tmp_path, make_openb):
    write(tmp_path / "run", make_openb())
    with pytest.raises(ResultsError, match="exists already; name another folder, or replace it with --overwrite"):
        write(tmp_path / "run", make_openb(seed=43))
    write(tmp_path / "run", make_openb(seed=43), overwrite=True)
    assert read_run(tmp_path / "run").seed == 43
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_of_something_else_is_never_replaced(tmp_path, make_openb):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter1.tex").write_text("x")
    with pytest.raises(ResultsError, match=r"will not overwrite .*thesis: holds no manifest.json"):
        write(tmp_path / "thesis", make_openb(), overwrite=True)
    write(tmp_path / "run", make_openb())
    (tmp_path / "run/notes.txt").write_text("mine")
    with pytest.raises(ResultsError, match=r"notes.txt is not part of the results; move it elsewhere"):
        write(tmp_path / "run", make_openb(), overwrite=True)
    assert (tmp_path / "run/notes.txt").read_text() == "mine"


def test_a_report_kept_with_the_results_does_not_block_replacing_them(tmp_path, make_openb):
    write(tmp_path / "run", make_openb())
    (tmp_path / "run/report.html").write_text("x")
    write(tmp_path / "run", make_openb(seed=7), overwrite=True)
    assert "report.html" not in contents(tmp_path / "run")


def test_a_harmed_folder_is_refused_with_its_name_and_a_remedy(tmp_path, make_openb):
    def fresh():
        return write(tmp_path / "run", make_openb(), overwrite=(tmp_path / "run").exists())

    with pytest.raises(ResultsError, match=r"nowhere: does not exist; name a results folder"):
        read_run(tmp_path / "nowhere")
    folder = fresh()
    (folder / "nodes.parquet").write_bytes(b"PAR1")
    with pytest.raises(ResultsError, match=r"nodes.parquet: changed since it was written .*run it again"):
        read_run(folder)
    folder = fresh()
    (folder / "placements.csv").unlink()
    with pytest.raises(ResultsError, match=r"placements.csv: missing, though the manifest lists it"):
        read_run(folder)
    folder = fresh()
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"format_version": 99}))
    with pytest.raises(ResultsError, match=r"format version 99, but foresail .* reads up to 1; upgrade foresail"):
        read_run(folder)
    (folder / "manifest.json").write_text(json.dumps(manifest | {"files": manifest["files"] | {"../x": "0"}}))
    with pytest.raises(ResultsError, match=r"lacks a table for \.\./x"):
        read_run(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(ResultsError, match=r"manifest.json: cannot be read as JSON"):
        read_run(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(ResultsError, match=r"holds no manifest.json, so it is no complete results folder"):
        read_run(folder)


def test_fractions_in_a_column_of_whole_numbers_are_refused(make_openb):
    nodes = make_openb().nodes | {"pods": np.array([1.5, 2.0, 3.0])}
    with pytest.raises(ValueError, match="table nodes, column pods: holds fractions"):
        to_frame("nodes", nodes)


def test_further_columns_are_kept_behind_the_documented_ones(tmp_path, make_openb):
    nodes = make_openb().nodes | {"zone": ["a", "b", "c"]}
    stored = read_run(write(tmp_path / "run", make_openb(nodes=nodes)))
    assert stored.nodes.columns[-1] == "zone"
    assert stored.nodes["zone"].to_list() == ["a", "b", "c"]
    assert stored.nodes.schema["gpu_free_milli"] == pl.Int64


def test_a_table_says_which_columns_it_has(tmp_path, make_openb):
    nodes = read_run(write(tmp_path / "run", make_openb())).columns("nodes")
    assert "node" in nodes
    assert "target_s" not in nodes
