"""What stands on a board is read as it was written, and whatever else somebody writes there is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foresail.workloads.supersteps.records import (
    KEPT_RESULTS,
    LONGEST_RECORD,
    BadRecordError,
    JobRecord,
    StepResult,
    TaskRecord,
    job_text,
    read_job,
    read_task,
    task_text,
)

NUMBERS = st.floats(0, 1e300, allow_nan=False)
STEPS = st.integers(0, 2**53 - 1)
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
RESULTS = st.builds(
    StepResult, st.just("a"), STEPS, NUMBERS, STEPS, NUMBERS, NUMBERS, st.text(max_size=40), st.integers(0, 99)
)
GOOD = {
    "run": "r",
    "pod_uid": "u",
    "attempt": 1,
    "results": [{"step": 3, "seconds": 1.5, "ops": 7, "started_s": 1.0, "ended_s": 2.0, "pod_uid": "u", "attempt": 1}],
}


@given(st.builds(JobRecord, st.text(max_size=20), STEPS, st.dictionaries(NAMES, NUMBERS, max_size=5), NUMBERS))
def test_a_jobs_record_comes_back_to_the_last_digit(job):
    assert read_job(job_text(job)) == job


@given(st.lists(RESULTS, max_size=9, unique_by=lambda one: one.step))
def test_of_a_tasks_results_the_newest_come_back(results):
    results.sort(key=lambda one: one.step)
    record = TaskRecord("r", "u", 2, tuple(results))
    assert read_task("a", task_text(record)).results == tuple(results[-KEPT_RESULTS:])


def test_the_good_record_that_the_bad_ones_are_made_of_is_good():
    assert read_task("a", json.dumps(GOOD)).result(3) == StepResult("a", 3, 1.5, 7, 1.0, 2.0, "u", 1)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("seconds", float("nan"), "no JSON (NaN is no number)"),
        ("seconds", float("inf"), "no JSON (Infinity is no number)"),
        ("seconds", -1, "seconds is -1"),
        ("seconds", "1", "seconds is '1'"),
        ("seconds", True, "seconds is True"),
        ("seconds", 10**400, "seconds is a number of 1329 bits"),
        ("started_s", None, "started_s is None"),
        ("step", 3.0, "step is 3.0"),
        ("step", -1, "step is -1"),
        ("step", 2**53, "step is 9007199254740992"),
        ("ops", 10**30, "ops is a number of 100 bits"),
        ("pod_uid", 7, "pod_uid is 7"),
        ("pod_uid", "u" * 2001, "at most 2000 characters"),
        ("attempt", [], "attempt is []"),
    ],
)
def test_a_result_with_a_hostile_value_is_refused_and_named(place, value, said):
    bad = {**GOOD, "results": [{**GOOD["results"][0], place: value}]}
    with pytest.raises(BadRecordError) as error:
        read_task("a", json.dumps(bad))
    assert said in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no JSON"),
        ("[]", "no JSON object"),
        ("[" * 100_000, "no JSON"),
        ("1" * 5000, "no JSON"),
        (" " * (LONGEST_RECORD + 1), f"at most {LONGEST_RECORD}"),
        (json.dumps({**GOOD, "results": GOOD["results"] * 2}), "order of their steps"),
        (json.dumps({**GOOD, "results": [{**GOOD["results"][0], "step": at} for at in range(5)]}), "at most 4"),
        (json.dumps({**GOOD, "results": [3]}), "no mapping"),
        (json.dumps({**GOOD, "results": None}), "no list"),
        (json.dumps({**GOOD, "run": None}), "run is None"),
    ],
)
def test_what_is_no_record_is_refused(text, said):
    with pytest.raises(BadRecordError) as error:
        read_task("a", text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("works", "said"),
    [
        ({"a": float("nan")}, "finite number"),
        ({"a": -1.0}, "finite number"),
        ({"A_b": 1.0}, 'called "A_b"'),
        ({"a" * 64: 1.0}, "up to 63"),
        ({f"task-{number:05}": 1.0 for number in range(20_000)}, "does not fit a board"),
    ],
)
def test_a_job_that_nobody_could_read_is_not_written(works, said):
    with pytest.raises(BadRecordError, match=said):
        job_text(JobRecord("r", 1, works, 0.0))


def test_a_thousand_tasks_fit():
    works = {f"task-{number:05}": number / 3 for number in range(1000)}
    assert read_job(job_text(JobRecord("r", 1, works, 0.0))).works == works
