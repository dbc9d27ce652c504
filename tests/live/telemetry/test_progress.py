"""What is known of a job is what its last row said, however many ways rows came by and whatever else came with them."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.live.telemetry.reporting import NOW_S, Reporting

from foresail.core.control import ACCURACY, CPU_USED_S, LOSS, STEPS_DONE, STEPS_TOTAL
from foresail.live.telemetry.progress import Verdict

JOB = "team/train"


def row(time: float, step: int, note: str = "", **more: Any) -> dict[str, Any]:
    """A row of so many seconds ago, or to come."""
    return {"time": NOW_S + time, "step": step, "note": note, **more}


@pytest.fixture
def one() -> Reporting:
    reporting = Reporting()
    reporting.run("pod-1", job="train", began_s=NOW_S - 1000)
    return reporting


def told(one: Reporting, *rows: dict[str, Any], source: str = "csv") -> list[str]:
    return [str(one.store.offer(JOB, source, values)) for values in rows]


def readings(one: Reporting) -> list[float | None]:
    return [one.store.reading(JOB, name) for name in (STEPS_DONE, STEPS_TOTAL, LOSS, ACCURACY)]


# --- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        (row(-39, 101), "taken"),
        (row(-40, 101), "taken"),
        (row(-40, 100), "doubled"),
        (row(-10, 100), "doubled"),
        (row(-10, 100, loss=0.5), "taken"),
        (row(-10, 100, "checkpoint:x"), "taken"),
        (row(-41, 101), "late"),
        (row(-39, 99), "out_of_order"),
        (row(-39, 99, "checkpoint:x"), "out_of_order"),
        (row(-39, 50, "resume"), "taken"),
        (row(-100, 50, "resume"), "taken"),
        (row(-101, 50, "resume"), "late"),
        (row(60, 101), "taken"),
        (row(61, 101), "damaged"),
        (row(61, 50, "resume"), "damaged"),
        (row(-39, 1001), "damaged"),
        (row(-39, 1001, total=2000), "taken"),
        (row(-39, 101, total=100), "damaged"),
        (row(-39, 101, loss="nan"), "damaged"),
    ],
)
def test_a_row_after_step_100_of_40_seconds_ago(one, values, verdict):
    assert told(one, row(-40, 100, total=1000)) == ["taken"]
    # Whether a row is doubled must not hang on the total, which need not be said again.
    assert told(one, {"total": 1000, **values} if verdict == "doubled" else values) == [verdict]
    assert (one.step(JOB) == values["step"]) == (verdict == "taken" or values["step"] == 100)
    assert one.counted()["csv", verdict] == (2 if verdict == "taken" else 1)


def test_what_a_row_leaves_out_is_as_it_was(one):
    assert readings(one) == [None, None, None, None]
    told(one, row(-40, 1, total=10, loss=2.0), row(-30, 2, accuracy=0.5), row(-20, 3, "checkpoint:"))
    assert readings(one) == [3.0, 10.0, 2.0, 0.5]
    assert one.store.reading(JOB, CPU_USED_S) is None
    assert one.store.reading("team/other", STEPS_DONE) is None


def test_a_new_pod_and_a_finished_job_may_begin_anew_without_a_note(one):
    told(one, row(-100, 500))
    assert told(one, row(-90, 1)) == ["out_of_order"]
    one.run("pod-2", job="train", began_s=NOW_S - 80)
    assert told(one, row(-70, 1), row(-60, 11), row(-55, 2)) == ["taken", "taken", "out_of_order"]
    assert told(one, row(-50, 20, "done"), row(-40, 0), row(-30, 1)) == ["taken", "taken", "taken"]


def test_a_restart_that_two_ways_tell_of_happened_once(one):
    told(one, row(-50, 100), row(-40, 80, "resume"), row(-30, 90), source="http")
    late = [row(-39.9, 80, "resume"), row(-29.9, 90, loss=0.1), row(-20, 100)]
    assert told(one, *late, source="log") == ["doubled", "doubled", "taken"]
    assert told(one, row(-40, 80, "resume"), row(-45, 70, "resume"), source="csv") == ["doubled", "late"]
    assert one.step(JOB) == 100


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_checkpoints_count_however_late_one_hears_of_them_but_not_those_of_before_a_restart(one):
    told(one, row(-100, 50), row(-90, 100, "checkpoint:"))
    known = one.store.of(JOB)
    assert (known.checkpoint_step, known.confirmed) == (100, {})
    assert told(one, row(-95, 70, "checkpoint:early"), row(-90, 100, "checkpoint:")) == ["late", "doubled"]
    assert (known.checkpoint_step, known.confirmed) == (100, {"early": 70})
    assert told(one, row(-80, 120, "checkpoint:r1", loss="nan")) == ["damaged"]
    assert "r1" not in known.confirmed
    told(one, row(-80, 120, "checkpoint:r1"), row(-70, 110, "resume"))
    assert known.checkpoint_step is None, "it went on from an earlier one"
    assert told(one, row(-75, 115, "checkpoint:r2")) == ["late"]
    assert (known.checkpoint_step, "r2" in known.confirmed) == (None, False)
    told(one, row(-60, 110, "checkpoint:r1"))
    assert known.confirmed["r1"] == 120, "the first that answers a request"
    told(one, row(-50, 110, "resume"))
    assert known.checkpoint_step == 110


def test_of_confirmed_requests_the_last_few_are_known(one):
    told(one, *(row(-100 + n, n, f"checkpoint:{n}") for n in range(40)))
    assert list(one.store.of(JOB).confirmed) == [str(n) for n in range(24, 40)]


def test_where_a_new_pod_went_on_is_known_though_many_rows_have_come_since(one):
    told(one, *(row(-900 + n, n) for n in range(100)))
    one.run("pod-2", job="train", began_s=NOW_S - 700)
    told(one, *(row(-650 + n, 98 + n) for n in range(300)), row(-300, 200, "resume"), row(-299, 201))
    known = one.store.of(JOB)
    assert [known.first_step_since(NOW_S + at) for at in (-800, -700, -650, -301, -300, -299.5, -299, -298)] == [
        98, 98, 98, 200, 200, 201, 201, None,
    ]  # fmt: skip


# --- telling ---------------------------------------------------------------------------------------------------------


def test_what_is_skipped_is_told_once_a_minute_for_each_job_and_kind_with_row_and_reason(one):
    with structlog.testing.capture_logs() as logs:
        told(one, row(-40, 100), row(-50, 99), row(-51, 98), row(-52, 97), {"step": "x\0", "time": 1})
        one.store.offer("team/other", "csv", {"step": -1, "time": 1}, "1,-1,,,,")
        one.clock.advance_to(59.0)
        told(one, row(-53, 96))
        one.clock.advance_to(60.0)
        told(one, row(-54, 95))
    skipped = [(log["job"], log["row"], log["why"], log["unsaid_before"]) for log in logs]
    assert [log["event"] for log in logs] == ["progress_row_skipped"] * 4
    assert skipped == [
        (JOB, str(row(-50, 99)), "it is 10.000 s older than the last row, of step 100", 0),
        (JOB, r"{'step': 'x\x00', 'time': 1}", r"step is 'x\x00', which is no finite number", 0),
        ("team/other", "'1,-1,,,,'", "step is -1; it is a whole number of 0 or more, and at most 2⁵³", 0),
        (JOB, str(row(-54, 95)), "it is 14.000 s older than the last row, of step 100", 3),
    ]
    assert one.counted() == {("csv", "taken"): 1, ("csv", "late"): 5, ("csv", "damaged"): 2}


def test_a_second_way_that_repeats_the_first_is_counted_and_not_told(one):
    told(one, row(-40, 100), row(-30, 110), source="http")
    with structlog.testing.capture_logs() as logs:
        assert told(one, row(-40, 100), row(-30, 110)) == ["late", "doubled"]
        assert told(one, {"step": 1}) == ["damaged"]
    assert [log["why"] for log in logs] == ["time is missing"]
    assert one.counted()["csv", "late"] == one.counted()["csv", "doubled"] == 1


def test_many_jobs_that_write_nonsense_do_not_fill_the_log(one):
    with structlog.testing.capture_logs() as logs:
        for number in range(1000):
            one.store.offer(f"team/{number}", "csv", {})
    assert len(logs) == 100


# --- memory ----------------------------------------------------------------------------------------------------------


def test_a_job_is_forgotten_an_hour_after_its_last_pod_and_not_before(one):
    told(one, row(-40, 100))
    one.end("uid-team-pod-1")
    assert one.store.forget_gone() == []
    one.clock.advance_to(3599.0)
    assert one.store.forget_gone() == []
    successor = one.run("pod-2", job="train")
    assert one.store.forget_gone() == []
    one.clock.advance_to(8000.0)
    assert one.store.forget_gone() == []
    assert one.step(JOB) == 100
    one.end(successor)
    assert one.store.forget_gone() == []
    one.clock.advance_to(11_600.0)
    assert one.store.forget_gone() == [JOB]
    assert one.step(JOB) is None
    assert one.metrics.jobs._value.get() == 0


def test_no_more_jobs_are_known_than_memory_is_meant_for(one, monkeypatch):
    monkeypatch.setattr("foresail.live.telemetry.progress._MOST_JOBS", 3)
    for step, name in enumerate("abcad"):
        one.store.offer(f"team/{name}", "csv", row(step, step))
    assert [one.step(f"team/{name}") for name in "abcd"] == [3, None, 2, 4], "who was not heard of for longest goes"


# --- any history, any number of ways ---------------------------------------------------------------------------------


@st.composite
def histories(draw: Any) -> list[dict[str, Any]]:
    """Rows of a job in the order in which it wrote them: it gets on, saves itself, restarts from what it saved."""
    step = saved = 0
    time = -50_000.0
    rows = []
    for what in draw(st.lists(st.sampled_from(["step", "step", "step", "save", "restart"]), min_size=1, max_size=30)):
        time += draw(st.sampled_from([0.5, 3.0, 20.0]))
        if what == "restart":
            time += 6.0  # less than that no pod needs to start again
            step = saved
            rows.append(row(time, step, "resume"))
        elif what == "save":
            saved = step
            rows.append(row(time, step, f"checkpoint:{len(rows)}"))
        else:
            step += draw(st.integers(1, 5))
            rows.append(row(time, step, loss=1.0 / step))
    return rows


def in_some_order(draw: Any, streams: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    """What comes by several ways, each in its own order, in one order of all."""
    waiting = {source: list(rows) for source, rows in streams.items()}
    merged = []
    while any(waiting.values()):
        source = draw(st.sampled_from(sorted(name for name, rows in waiting.items() if rows)))
        merged.append((source, waiting[source].pop(0)))
    return merged


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_several_ways_in_any_order_end_where_the_job_is(data):
    history = data.draw(histories())
    sources = data.draw(st.sampled_from([["csv"], ["csv", "http"], ["csv", "http", "log"]]))
    one = Reporting()
    one.run("pod-1", job="train")
    for source, values in in_some_order(data.draw, dict.fromkeys(sources, history)):
        one.store.offer(JOB, source, values)
    known = one.store.of(JOB)
    assert known.row.step == history[-1]["step"]
    saved = [values["step"] for values in history if values["note"].startswith("checkpoint")]
    assert known.checkpoint_step == (saved[-1] if saved else None)
    assert sum(one.counted().values()) == len(sources) * len(history)
    assert not {verdict for _, verdict in one.counted()} & {"damaged", "out_of_order"}


@settings(max_examples=200, deadline=None)
@given(histories(), st.data())
def test_rows_that_come_again_and_nonsense_between_change_nothing(history, data):
    """The same rows, some of them once more later on, and rows that are none, give the state of the plain history."""
    plain, disturbed = Reporting(), Reporting()
    for number, values in enumerate(history):
        assert plain.store.offer(JOB, "csv", values) in {Verdict.TAKEN, Verdict.DOUBLED}
        disturbed.store.offer(JOB, "csv", values)
        resumes = [at for at, earlier in enumerate(history[: number + 1]) if earlier["note"] == "resume"]
        since = resumes[-1] if resumes else 0
        again = data.draw(st.sampled_from([None, *range(since, number + 1)]))
        if again is not None:
            assert disturbed.store.offer(JOB, "csv", history[again]) in {Verdict.DOUBLED, Verdict.LATE}
        bad = data.draw(st.sampled_from([None, {"step": -1}, {"total": 0}, {"loss": "nan"}, {"time": 1e12}]))
        if bad is not None:
            assert disturbed.store.offer(JOB, "csv", values | bad) is Verdict.DAMAGED
    assert disturbed.store.of(JOB) == plain.store.of(JOB)
