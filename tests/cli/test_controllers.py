"""`foresail controllers`."""

import json

import pytest
import typer
from typer.testing import CliRunner

from foresail.cli.controllers import controllers
from foresail.controllers import CONTROLLERS
from foresail.errors import OptionError

app = typer.Typer()
app.command()(controllers)


def run(*arguments):
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_the_list_has_every_name():
    rows = [line.split(maxsplit=1) for line in run().splitlines()[1:]]
    assert [row[0] for row in rows] == [*CONTROLLERS]
    said = {row[0]: " ".join(row[1].split()) for row in rows}
    assert said["equal-shares"] == "controller built-in Give the jobs of a node equal shares of its CPU"


def test_a_name_is_explained_with_its_options():
    text = run("equal-shares")
    assert text.startswith("equal-shares (controller, built-in)\n")
    assert "  every_s    a number (default 10.0)" in text
    assert text in run("--explain")


def test_json_is_for_programs():
    told = [(entry["name"], entry["kind"]) for entry in json.loads(run("--json"))]
    assert told == [(name, "controller") for name in CONTROLLERS]


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(OptionError, match=r'no controller "equal-share"; did you mean "equal-shares"\?'):
        run("equal-share")
