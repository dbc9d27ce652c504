import json

import pytest
from typer.testing import CliRunner

from foresail.cli.trace import app
from foresail.errors import InputError, OptionError
from foresail.traces.check.explanations import EXPLANATIONS

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn,8000,1024,2,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,500\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    return str(tmp_path / "nodes.csv"), str(tmp_path / "pods.csv")


def run(*arguments):
    return CliRunner().invoke(app, arguments)


def test_a_sound_trace_ends_with_0(files):
    result = run("check", *files)
    assert (result.exit_code, result.output) == (0, "0 errors, 0 warnings, 0 notes: the trace can be used\n")


def test_warnings_are_listed_and_end_with_0(files, tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES + "[bold]m,1,1,1,\n")
    result = run("check", *files)
    assert result.exit_code == 0
    assert "0 errors, 1 warning, 0 notes: the trace can be used" in result.output
    assert "FS309" in result.output
    assert "[bold]m" in result.output


def test_errors_are_numbered_and_end_with_2(files, tmp_path):
    (tmp_path / "pods.csv").write_text(PODS + "b,-1,1,0,0\nc,1,1,2,500\n")
    result = run("check", "--pods", files[1])
    assert result.exit_code == 2
    lines = result.output.splitlines()
    assert [line.split()[:3] for line in lines[1:3]] == [["1", "FS202", "error"], ["2", "FS209", "error"]]
    assert "2 errors, 0 warnings, 0 notes: the trace cannot be used as it is" in result.output


def test_findings_as_json(files, tmp_path):
    (tmp_path / "pods.csv").write_text(PODS + "b,-1,1,0,0\n")
    result = run("check", *files, "--json")
    assert result.exit_code == 2
    assert json.loads(result.output) == {
        "errors": 1,
        "warnings": 0,
        "notes": 0,
        "findings": [
            {
                "code": "FS202",
                "severity": "error",
                "path": files[1],
                "line": 3,
                "message": 'cpu_milli is "-1"; CPU is a whole number of milli-cores, 0 or more',
            }
        ],
    }


def test_a_node_list_alone(files):
    assert run("check", "--nodes", files[0]).exit_code == 0
    assert run("check", files[0]).exit_code == 0


@pytest.mark.parametrize("code", EXPLANATIONS)
def test_every_code_is_explained_without_files(code):
    result = run("check", "--explain", code.lower())
    assert result.exit_code == 0
    assert result.output.startswith(f"{code} ({EXPLANATIONS[code].severity}): {EXPLANATIONS[code].title}\n")


def test_an_explanation_as_json():
    explained = json.loads(run("check", "--explain", "FS211", "--json").output)
    assert (explained["code"], explained["severity"]) == ("FS211", "error")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check",), "nothing to check; name a node list and a pod list"),
        (("check", "a.csv", "--nodes", "b.csv"), "NODES is given twice: a.csv and --nodes b.csv"),
        (("check", "--explain", "FS999"), r'no finding "FS999".*the codes go from FS100 to FS309'),
        (("get", "openbb"), r'no public trace "openbb"; did you mean "openb"\?'),
        (("get", "openb", "--mirror", "http://x", "--from", "."), "--mirror and --from name two sources"),
        (("get", "openb", "--from", "/no/such/folder"), "there is no such folder"),
        (("get", "openb", "--only", "defualt"), r'no openb trace "defualt"; did you mean "default"\?'),
    ],
)
def test_wrong_options_say_what_to_do(arguments, message):
    with pytest.raises(OptionError, match=message):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_every_verb_has_help_with_examples():
    for verb in ("check", "get", "generate"):
        assert f"foresail trace {verb}" in run(verb, "--help").output


@pytest.mark.data
def test_get_copies_from_a_folder_and_checks_it(openb_csv, tmp_path):
    to = tmp_path / "to"
    arguments = ("get", "openb", "--from", str(openb_csv), "--to", str(to), "--only", "default")
    assert "(3 fetched, 0 there already), all sums right" in run(*arguments).output
    assert "(0 fetched, 3 there already), all sums right" in run(*arguments).output
    assert {path.name: path.read_bytes() for path in to.iterdir()} == {
        name: (openb_csv / name).read_bytes()
        for name in ("openb_node_list_all_node.csv", "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv")
    }


def test_get_refuses_other_bytes(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "openb_node_list_all_node.csv").write_bytes(b"x" * 60_000)
    arguments = ("get", "openb", "--from", str(source), "--to", str(tmp_path / "to"))
    with pytest.raises(InputError, match=r"the SHA-256 of .* is .*, it should be "):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert list((tmp_path / "to").iterdir()) == []
