from __future__ import annotations

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from foresail.cli.trace_generate import generate
from foresail.errors import OptionError
from foresail.traces import kubernetes

app = typer.Typer()
app.command()(generate)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_generate_says_what_it_wrote_and_where(tmp_path):
    out = tmp_path / "new" / "demo"
    ran = run("--out", out, "--nodes", 10, "--pods", 50, "--seed", 1, "--gangs", 0.4, "--gang-sizes", "5")
    assert ran.exit_code == 0, ran.output
    first, second = ran.output.splitlines()
    assert first == f"wrote {out / 'nodes.csv'}: 10 nodes, 56 GPUs"
    assert second.startswith(f"wrote {out / 'pods.csv'}: 50 pods arriving over ")
    assert second.endswith(" 4 gangs")
    assert sorted(path.name for path in out.iterdir()) == ["nodes.csv", "pods.csv"]
    assert pl.read_csv(out / "pods.csv")["gang"].n_unique() == 5
    assert pl.read_csv(out / "nodes.csv")["gpu"].sum() == 56


@pytest.mark.parametrize("ending", ["csv", "parquet", "yaml"])
def test_the_same_options_write_the_same_bytes(tmp_path, ending):
    written = []
    for name in ("one", "two"):
        ran = run("--out", tmp_path / name, "--nodes", 4, "--pods", 30, "--format", ending, "--arrivals", "burst")
        assert ran.exit_code == 0, ran.output
        written.append([(tmp_path / name / f"{kind}.{ending}").read_bytes() for kind in ("nodes", "pods")])
    assert written[0] == written[1]


def test_yaml_holds_kubernetes_objects(tmp_path):
    ran = run("--out", tmp_path, "--nodes", 3, "--pods", 9, "--format", "yaml", "--priorities", "5:1", "--rate", 2)
    assert ran.exit_code == 0, ran.output
    assert len(kubernetes.read_nodes(tmp_path / "nodes.yaml")[0]) == 3
    assert kubernetes.read_pods(tmp_path / "pods.yaml")[0].priority.tolist() == [5] * 9


def test_files_are_overwritten_only_with_force(tmp_path):
    (tmp_path / "pods.csv").write_text("mine")
    ran = run("--out", tmp_path, "--pods", 5)
    assert isinstance(ran.exception, OptionError)
    assert "pods.csv would be overwritten; add --force" in str(ran.exception)
    assert (tmp_path / "pods.csv").read_text() == "mine"
    assert not (tmp_path / "nodes.csv").exists()
    assert run("--out", tmp_path, "--pods", 5, "--force").exit_code == 0
    assert pl.read_csv(tmp_path / "pods.csv").height == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "cvs"], '--format is "cvs"; write one of csv, parquet, yaml; did you mean "csv"?'),
        (["--rate", 1, "--load-factor", 2], "--rate 1 and --load-factor 2 both set the rate; give one of them"),
        (["--gang-sizes", "2,x"], '--gang-sizes is "2,x"; write whole numbers such as 2,4,8'),
        (["--priorities", "1"], '--priorities is "1"; write pairs such as 0:9,1000:1'),
        (["--pods", 0], "pods is 0; make 1 or more"),
        (["--gangs", 2], "gangs is 2.0; write a share from 0 to 1"),
        (
            ["--arrivals", "bursts"],
            'arrivals is bursts; write one of poisson, uniform, diurnal, burst; did you mean "burst"?',
        ),
    ],
)
def test_bad_options_are_refused_and_nothing_is_written(tmp_path, options, message):
    ran = run("--out", tmp_path / "out", *options)
    assert isinstance(ran.exception, OptionError)
    assert str(ran.exception) == message
    assert not (tmp_path / "out").exists()


def test_a_file_in_place_of_the_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    ran = run("--out", tmp_path / "file", "--pods", 5)
    assert isinstance(ran.exception, OptionError)
    assert "cannot be made" in str(ran.exception)
