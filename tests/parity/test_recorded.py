"""What kube-scheduler really decided, decided again."""

import json

import pytest

from foresail.errors import InputError
from foresail.kube.objects.pod import pod_spec_of
from foresail.kube.objects.quantity import RequestError
from foresail.parity.compare import compare_file
from foresail.parity.recorded import counted_reasons
from foresail.policies.profiles.load import load_profile


@pytest.mark.parametrize(("name", "cases"), [("decisions.jsonl", 720), ("decisions-wide.jsonl", 960)])
def test_every_recorded_decision_comes_out_the_same(recorded_decisions, name, cases):
    result = compare_file(recorded_decisions / name, load_profile("kubernetes"))
    assert (result.cases, [str(difference) for difference in result.differences]) == (cases, [])
    assert result.scores > 10 * cases


def test_pods_that_ask_the_same_share_one_spec(recorded_decisions):
    with (recorded_decisions / "decisions.jsonl").open(encoding="utf-8") as file:
        pods = [json.loads(line)["pod"] for line in file]
    assert len({pod_spec_of(pod) for pod in pods}) < len(pods)
    assert all(pod_spec_of(pod) == pod_spec_of(json.loads(json.dumps(pod))) for pod in pods)


@pytest.mark.parametrize(
    ("message", "reasons"),
    [
        (
            "0/15 nodes are available: 1 Too many pods, 14 node(s) didn't satisfy plugin(s) [NodeAffinity]. x: y.",
            {"Too many pods": 1, "node(s) didn't satisfy plugin(s) [NodeAffinity]": 14},
        ),
        (
            '0/3 nodes are available: persistentvolumeclaim "c" not found. not found',
            {'persistentvolumeclaim "c" not found': 3},
        ),
        ("0/2 nodes are available: 2 Insufficient example.com/gpu.", {"Insufficient example.com/gpu": 2}),
    ],
)
def test_reasons_of_a_message_are_counted(message, reasons):
    assert counted_reasons(message) == reasons


def test_a_message_of_another_kind_is_refused():
    with pytest.raises(RequestError, match='it begins with "0/N nodes are available:"'):
        counted_reasons("no nodes")


def without_nodes(lines):
    lines[0]["nodes"] = None


def unknown_pod(lines):
    lines[1]["existing"][0]["pod"] = "p9"


def unknown_node(lines):
    lines[1]["existing"][0]["node"] = "z"


def no_pod(lines):
    del lines[1]["pod"]


def bad_quantity(lines):
    lines[1]["pod"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"


def other_counts(lines):
    lines[2]["failed"] = {"Insufficient cpu": 1}


def no_total(lines):
    del lines[0]["final"]["b"]


def score_in_words(lines):
    lines[0]["weighted_scores"]["b"]["ImageLocality"] = "none"


def failed_as_a_list(lines):
    lines[2]["failed"] = ["Insufficient cpu"]


@pytest.mark.parametrize(
    ("spoil", "line", "message"),
    [
        (without_nodes, 1, "seed 1 begins without nodes; its case 0 must list them"),
        (unknown_pod, 2, 'existing names pod "p9", which no earlier line of the seed has'),
        (unknown_node, 2, 'existing names node "z", which no earlier line of the seed has'),
        (no_pod, 2, r"is no recorded decision \(KeyError: 'pod'\); a line has seed, case"),
        (bad_quantity, 2, r'spec.containers\[0\].resources.requests.cpu is "many"'),
        (no_total, 1, r"weighted_scores are of \['a', 'b'\], final totals of \['a'\]"),
        (score_in_words, 1, r'weighted_scores.b is \{.*"ImageLocality": "none".*\}; write whole numbers by name'),
        (failed_as_a_list, 3, r'failed is \["Insufficient cpu"\]; write whole numbers by name'),
        (other_counts, 3, r"failed is \{'Insufficient cpu': 1\}, but the message counts \{'Insufficient cpu': 2\}"),
    ],
)
def test_a_bad_line_is_named(lines, write_lines, spoil, line, message):
    spoil(lines)
    path = write_lines(lines)
    with pytest.raises(InputError, match=f"^{path}:{line}: {message}"):
        compare_file(path, load_profile("kubernetes"))


def test_a_line_that_is_no_json_is_named(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text("\n{'a'}\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"^{path}:2: is no JSON"):
        compare_file(path, load_profile("kubernetes"))
