"""`foresail parity` as a user runs it."""

import json

import pytest
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.errors import OptionError

NODE = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}}
LINE = {
    "seed": 1,
    "case": 0,
    "nodes": [NODE],
    "existing": [],
    "pod": {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}},
    "weighted_scores": {},
    "final": {},
    "node": None,
    "unschedulable": "0/1 nodes are available: 1 Insufficient cpu.",
}


@pytest.fixture
def write_line(tmp_path):
    def write(**changes):
        path = tmp_path / "decisions.jsonl"
        path.write_text(json.dumps(LINE | changes) + "\n", encoding="utf-8")
        return str(path)

    return write


def test_agreement_is_exit_0(write_line):
    result = CliRunner().invoke(app, ["parity", write_line()])
    assert result.exit_code == 0
    assert "│ decisions.jsonl │ 1     │ 0      │ 0           │" in result.output


def test_differences_are_counted_told_and_exit_1(write_line):
    result = CliRunner().invoke(app, ["parity", write_line(node="a", unschedulable=None), "--show", "1"])
    assert result.exit_code == 1
    assert result.output.splitlines()[-4:] == [
        "decisions.jsonl: 1 × feasible nodes",
        "decisions.jsonl: 1 × decision",
        "decisions.jsonl:1 (seed 1, case 0, pod p): feasible nodes: recorded ['a'], computed []",
        "… and 1 more; --show prints more of them, --json all",
    ]


def test_json_holds_every_difference(write_line):
    result = CliRunner().invoke(app, ["parity", write_line(node="a", unschedulable=None), "--json"])
    (told,) = json.loads(result.output)
    assert result.exit_code == 1
    assert (told["cases"], told["differences_by_plugin"]) == (1, {"feasible nodes": 1, "decision": 1})
    assert [difference["what"] for difference in told["differences"]] == ["feasible nodes", "decision"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no recording; name its file, or give --lab to make one"),
        (["d.jsonl", "--lab"], "--lab makes its own recording; leave d.jsonl out, or leave --lab out to compare it"),
        (["d.jsonl", "--seed", "0", "--keep"], "--seed, --keep means nothing without --lab"),
        (["--lab", "--pods", "3", "--clusters", "4"], "--clusters is 4; write 1 to 3, so that each gets a pod"),
    ],
)
def test_options_that_do_not_go_together_are_told(arguments, message):
    result = CliRunner().invoke(app, ["parity", *arguments])
    assert isinstance(result.exception, OptionError)
    assert str(result.exception) == message


def test_json_tells_what_was_exercised(write_line):
    (told,) = json.loads(CliRunner().invoke(app, ["parity", write_line(), "--json"]).output)
    assert (told["clusters"], told["schedulable"]) == (1, 0)
    assert told["refused_by_filter"]["kube-resources-fit"] == sum(told["refused_by_filter"].values()) == 1
    assert set(told["scores_by_plugin"].values()) == {0}
