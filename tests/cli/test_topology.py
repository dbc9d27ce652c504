from __future__ import annotations

from typer.testing import CliRunner

from foresail.cli.topology import app
from foresail.errors import OptionError


def test_label_says_what_it_wrote_and_where(tmp_path):
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("sn\na\nb\nc\n")
    ran = CliRunner().invoke(app, ["label", str(nodes), "--servers-per-rack", "2"])
    assert (ran.exit_code, ran.output) == (0, f"wrote {tmp_path / 'nodes-hier.csv'}: 3 nodes in 2 racks\n")
    assert (tmp_path / "nodes-hier.csv").read_text().splitlines()[-1] == "c,rack-1,srv-0"


def test_four_servers_fill_a_rack_unless_told_otherwise(tmp_path):
    (tmp_path / "nodes.csv").write_text("sn\n" + "".join(f"n{index}\n" for index in range(4)))
    ran = CliRunner().invoke(app, ["label", str(tmp_path)])
    assert ran.output.endswith("4 nodes in 1 rack\n")


def test_an_empty_rack_is_refused(tmp_path):
    ran = CliRunner().invoke(app, ["label", str(tmp_path), "--servers-per-rack", "0"])
    assert isinstance(ran.exception, OptionError)


def test_help_shows_an_example():
    ran = CliRunner().invoke(app, ["label", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert "foresail topology label nodes.csv" in ran.output
