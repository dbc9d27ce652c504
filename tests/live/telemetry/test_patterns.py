"""Lines of logs tell progress by the reporter's line or by a pattern, and no pattern keeps anybody busy."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.live.telemetry.patterns import Pattern, PatternError, patterns_in, reported_in


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("foresail progress step=120 total=1000 loss=0.42 accuracy=0.9", ("120", "1000", "0.42", "0.9", None)),
        ("12:00 INFO foresail progress step=7 note=checkpoint:abc", ("7", None, None, None, "checkpoint:abc")),
        ("foresail progress loss=nan step=7 other=3 word", ("7", None, "nan", None, None)),
        ("foresail progress step=7 note=two words", ("7", None, None, None, "two words")),
        ("foresail progress ", (None, None, None, None, None)),
    ],
)
def test_the_reporters_line_is_pairs_in_any_order(line, values):
    found = reported_in(line)
    assert found is not None
    assert tuple(found.get(name) for name in ("step", "total", "loss", "accuracy", "note")) == values


def test_another_line_tells_nothing():
    assert reported_in("progress step=3") is None
    assert reported_in("") is None


@pytest.mark.parametrize(
    ("pattern", "line", "values"),
    [
        ("Epoch {step}/{total}", "Epoch 3/10", {"step": "3", "total": "10"}),
        ("Epoch {step}/{total}", "  12:00:01 Epoch 3/10 done", {"step": "3", "total": "10"}),
        ("Epoch {step}/{total}", "Epoch 3 of 10", None),
        ("Epoch {step}/{total}", "Epoch x/10, Epoch 4/10", {"step": "4", "total": "10"}),
        ("step {step} * loss: {loss}", "step 5 | lr 0.1 | loss: 2.5e-3,", {"step": "5", "loss": "2.5e-3"}),
        ("step {step} * loss: {loss}", "loss: 1 step 5", None),
        ("{step} * {loss}", "[12] took 3s", {"step": "12", "loss": "3"}),
        ("loss {loss}", "loss   -0.5", {"loss": "-0.5"}),
        ("loss {loss}", "loss\t.5.", {"loss": ".5"}),
        ("loss{loss}", "loss 1", None),
        ("loss: {loss}", "loss: nan", {"loss": "nan"}),
        ("loss: {loss}", "loss: +Inf", {"loss": "+Inf"}),
        ("{loss}", "info nancy infinite 7", {"loss": "7"}),
        ("100%** {step} {{x}}", "100%* 5 {x}", {"step": "5"}),
        ("* {step}/{total} *", "at 1/2", {"step": "1", "total": "2"}),
        ("acc={accuracy}%", "acc=93.5%", {"accuracy": "93.5"}),
        ("step={step},", "step=1.5,", {"step": "1.5"}),
    ],
)
def test_a_pattern_is_the_line_with_names_for_numbers(pattern, line, values):
    assert Pattern(pattern).match(line) == values


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no {step}"),
        ("no value", "it has no {step}"),
        ("{step} {step}", "or one of them twice"),
        ("{epoch}", "{epoch} is none of {step}, {total}, {loss}, {accuracy}; write {{ or }} for the sign itself"),
        ("{step", "{ is none of"),
        ("step}", "} is none of"),
        ("x" * 513, "it is longer than 512 letters"),
        ("{step}" + "*a" * 40, "it has more than 32 pieces"),
    ],
)
def test_what_is_no_pattern_says_why(text, why):
    with pytest.raises(PatternError, match=re.escape(why)):
        Pattern(text)


def test_an_annotation_has_a_pattern_a_line():
    first, second = patterns_in("Epoch {step}/{total}\n\n loss: {loss}\n")
    assert (first.match("Epoch 1/2"), second.match("loss: 3")) == ({"step": "1", "total": "2"}, {"loss": "3"})
    with pytest.raises(PatternError, match=r"'\{x\}': \{x\} is none of"):
        patterns_in("{step}\n{x}")
    with pytest.raises(PatternError, match="there are 9 patterns; write at most 8"):
        patterns_in("{step}\n" * 9)
    with pytest.raises(PatternError, match="longer than 4096"):
        patterns_in("{step}\n" + "\n" * 5000)


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.sampled_from(["*", " ", "a", "b:", "{step}", "{loss}"]), min_size=1, max_size=7),
    st.text(alphabet="ab: 12.", max_size=24),
)
def test_a_line_matches_if_an_expression_finds_it(pieces, line):
    """The oracle is Python's own matcher, for patterns and lines so short that it cannot be kept busy."""
    text = "".join(pieces)
    if "**" in text or not 0 < text.count("{step}") + text.count("{loss}") == len(set(re.findall("{.*?}", text))):
        return
    number = r"(?>[+-]?(?:\d+(?:\.\d+)?|\.\d+))"
    inside = {" ": r"(?>\s+)", "{step}": number, "{loss}": number}
    parts = [re.findall(r" |{.*?}|[^ {]+", re.sub(" +", " ", part.strip())) for part in text.split("*")]
    expression = ".*?".join("".join(inside.get(one) or re.escape(one) for one in part) for part in parts)
    assert (Pattern(text).match(line) is None) == (re.search(expression, line) is None)


def test_no_pattern_and_no_line_keep_the_matcher_busy():
    """What takes an expression years: many wildcards, a line that almost fits."""
    pattern = Pattern("*".join(["a a"] * 10) + "*{step}")
    line = "a " * 2048
    started_s = time.process_time()
    assert pattern.match(line) is None
    assert time.process_time() - started_s < 1.0
