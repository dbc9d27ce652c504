"""Differences between recorded and computed decisions."""

import pytest

from foresail.parity.compare import DECISION, FEASIBLE, FINAL, REASONS, compare_file
from foresail.policies.profiles.load import load_profile


def compare(path):
    return compare_file(path, load_profile("kubernetes"))


def test_a_recording_that_agrees_has_no_differences(lines, write_lines):
    result = compare(write_lines(lines))
    assert (result.cases, result.scores, result.differences, result.by_plugin) == (3, 8, [], {})


def a_score(lines):
    lines[0]["weighted_scores"]["a"]["NodeResourcesFit"] = 91


def an_unknown_plugin(lines):
    lines[0]["weighted_scores"]["a"]["Unheard"] = 1


def a_total(lines):
    lines[0]["final"]["b"] = 500


def the_node(lines):
    lines[1]["node"] = "b"


def a_count(lines):
    lines[2]["unschedulable"] = "0/2 nodes are available: 1 Insufficient cpu, 1 Too many pods."


def no_node(lines):
    lines[1] |= {"node": None, "unschedulable": "0/2 nodes are available: 2 Insufficient cpu."}


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (a_score, [("NodeResourcesFit", "a", "91", "90")]),
        (an_unknown_plugin, [("Unheard", "a", "1", "0")]),
        (a_total, [(FINAL, "b", "500", "435"), (DECISION, "", "500 on b", "465 on a")]),
        (the_node, [(FEASIBLE, "", "['b']", "['a']"), (DECISION, "", "['b']", "['a']")]),
        (
            a_count,
            [
                (REASONS, "", "{'Insufficient cpu': 1, 'Too many pods': 1}", "{'Insufficient cpu': 2}"),
                (DECISION, "", "{'Insufficient cpu': 1, 'Too many pods': 1}", "{'Insufficient cpu': 2}"),
            ],
        ),
        (
            no_node,
            [
                (FEASIBLE, "", "[]", "['a']"),
                (REASONS, "", "{'Insufficient cpu': 2}", "{'Insufficient cpu': 1}"),
                (DECISION, "", "[]", "['a']"),
            ],
        ),
    ],
)
def test_whatever_differs_is_told(lines, write_lines, spoil, found):
    spoil(lines)
    result = compare(write_lines(lines))
    assert [(one.what, one.node, one.recorded, one.computed) for one in result.differences] == found
    assert sum(result.by_plugin.values()) == len(found)


def test_pods_leave_and_end(lines, write_lines):
    lines[2] |= {
        "existing": [{"pod": "p1", "node": "b", "terminating": True}],
        "node": "a",
        "unschedulable": None,
    }
    assert compare(write_lines(lines)).differences == []


def test_a_difference_reads_as_a_sentence(lines, write_lines):
    a_score(lines)
    told = str(compare(write_lines(lines)).differences[0])
    assert told == ("decisions.jsonl:1 (seed 1, case 0, pod p0): NodeResourcesFit on a: recorded 91, computed 90")
