"""`foresail policies`."""

import json

import pytest
import typer
from typer.testing import CliRunner

from foresail.cli.policies import policies
from foresail.errors import OptionError
from foresail.policies import DEVICE_RULES, FILTERS, POLICIES

app = typer.Typer()
app.command()(policies)


def run(*arguments):
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_the_list_has_every_name_with_its_kind():
    rows = [line.split(maxsplit=1) for line in run().splitlines()[1:]]
    assert [row[0] for row in rows] == [*POLICIES, *FILTERS, *DEVICE_RULES]
    assert " ".join(rows[1][1].split()) == "policy built-in Place the pod where the least CPU and GPU is left over"


def test_a_name_is_explained_with_its_maths_and_options():
    text = run("dot-product")
    assert text.startswith("dot-product (policy, built-in)\n")
    assert "Score = trunc(100·(1 - x))." in text
    assert "  dimension  merge, share, divide, extend (default merge)" in text


def test_explain_explains_all():
    text = run("--explain")
    assert all(f"{name} (policy, built-in)" in text for name in POLICIES)


def test_json_is_for_programs():
    data = {(entry["kind"], entry["name"]): entry for entry in json.loads(run("--json"))}
    assert len(data) == len(POLICIES) + len(FILTERS) + len(DEVICE_RULES)
    assert data["policy", "fgd"]["options"][0] == {
        "name": "levels",
        "allowed": "a whole number",
        "required": False,
        "default": 100,
    }
    assert json.loads(run("--json", "fgd")) == [data["policy", "fgd"]]


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(OptionError, match=r'no policy "fdg"; did you mean "fgd"\? \(foresail policies lists all 40\)'):
        run("fdg")
