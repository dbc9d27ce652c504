"""What pods have used never becomes less, whoever says it, and another source takes over when one fails."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.live.telemetry.reporting import NOW_S, Reporting, counts

from foresail.core.control import CPU_USED_MILLI, CPU_USED_S, STEPS_DONE
from foresail.kube.api.errors import Unreachable
from foresail.live.telemetry.cpu import CpuBook, CpuSourceError, CpuUsed

UID = "uid"


def readings(book: CpuBook, uid: str = UID) -> tuple[float | None, ...]:
    return book.reading(uid, CPU_USED_MILLI), book.reading(uid, CPU_USED_S)


# --- the book --------------------------------------------------------------------------------------------------------


def test_containers_that_end_and_begin_are_counted_for_what_each_has_used():
    book = CpuBook()
    book.counted("x", UID, {"a1": 5.0, "b1": 1.0}, 100.0)
    assert readings(book) == (None, 6.0)
    book.counted("x", UID, {"a1": 7.0, "b1": 1.5}, 110.0)
    assert readings(book) == (250.0, 8.5)
    book.counted("x", UID, {"a2": 1.0, "b1": 1.5}, 120.0)
    assert readings(book) == (100.0, 9.5)
    book.counted("x", UID, {"a1": 7.0, "a2": 3.0, "b1": 1.5}, 130.0)
    assert readings(book) == (200.0, 11.5), "one that nobody told of for a while is not counted twice"
    book.counted("x", UID, {"a2": 99.0}, 130.0)
    assert readings(book) == (200.0, 11.5), "the same moment tells nothing new"
    assert book.reading(UID, STEPS_DONE) is None


def test_what_is_used_now_is_summed_up_and_the_time_before_counts_as_much():
    book = CpuBook()
    book.rated("x", UID, 500.0, 110.0, since_s=100.0)
    assert readings(book) == (500.0, 5.0)
    book.rated("x", UID, 1000.0, 115.0, since_s=100.0)
    book.rated("x", UID, 1000.0, 115.0, since_s=100.0)
    assert readings(book) == (1000.0, 10.0)


def test_another_source_goes_on_from_what_was_known():
    book = CpuBook()
    book.rated("api", UID, 500.0, 110.0, since_s=100.0)
    book.counted("kubelet", UID, {"pod": 3.0}, 120.0)
    assert readings(book) == (500.0, 5.0), "it knows less"
    book.counted("kubelet", UID, {"pod": 4.0}, 130.0)
    assert readings(book) == (100.0, 6.0)
    book.rated("api", UID, 200.0, 140.0, since_s=100.0)
    assert readings(book) == (200.0, 8.0)
    book.counted("kubelet", UID, {"pod": 20.0}, 150.0)
    assert readings(book) == (200.0, 20.0), "it knows better"


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_what_is_no_amount_is_passed_over(value):
    book = CpuBook()
    book.counted("x", UID, {"a": value}, 100.0)
    book.rated("x", UID, value, 100.0, since_s=0.0)
    assert readings(book) == (None, None)
    book.counted("x", UID, {"a": value, "b": 2.0}, 100.0)
    assert readings(book) == (None, 2.0)


def test_a_pod_that_is_gone_is_forgotten_and_its_successor_begins_at_nothing():
    book = CpuBook()
    book.counted("x", "old", {"a": 5.0}, 100.0)
    book.keep(["new"])
    assert readings(book, "old") == readings(book, "new") == (None, None)
    book.counted("x", "new", {"a": 1.0}, 110.0)
    assert readings(book, "new") == (None, 1.0)


LOOKS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),  # the source
        st.booleans(),  # whether it counts or rates
        st.floats(0.0, 30.0),  # seconds since the last look, by its own word
        st.dictionaries(st.sampled_from(["c1", "c2"]), st.floats(-1.0, 1e6) | st.just(math.nan), min_size=1),
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(LOOKS)
def test_whatever_sources_say_used_seconds_never_become_fewer(looks):
    book, at_s, before = CpuBook(), 1000.0, 0.0
    for source, counts_up, later_s, parts in looks:
        at_s += later_s
        if counts_up:
            book.counted(source, UID, parts, at_s)
        else:
            book.rated(source, UID, next(iter(parts.values())), at_s, since_s=990.0)
        milli, now = readings(book)
        assert now is None or math.isfinite(now)
        assert (now or 0.0) >= before
        assert milli is None or 0.0 <= milli < math.inf
        before = now or before


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["run", "look", "restart"]), st.floats(0.0, 4.0)), max_size=40))
def test_with_counters_the_sum_is_exact_however_often_containers_restart(story):
    """The oracle adds up what the pod does; counters of containers that have ended stay away."""
    book, at_s, container, used, total = CpuBook(), 1000.0, 0, 0.0, 0.0
    unseen = 0.0
    for what, amount in story:
        at_s += 5.0
        if what == "run":
            used += amount
            total += amount
            unseen += amount
        elif what == "restart":
            total -= unseen  # nobody looked at it any more
            container, used, unseen = container + 1, 0.0, 0.0
        else:
            book.counted("x", UID, {str(container): used}, at_s)
            unseen = 0.0
            assert book.reading(UID, CPU_USED_S) == pytest.approx(total)


# --- which source ----------------------------------------------------------------------------------------------------


class Source:
    """Counts one more second for each pod at each look, or fails."""

    def __init__(self, name: str, one: Reporting) -> None:
        self.name = name
        self.problem = ""
        self.error: Exception | None = None
        self.knows = True
        self.looks = 0
        self._one = one

    async def look(self, book: CpuBook) -> int:
        self.looks += 1
        if self.error is not None:
            raise self.error
        pods = self._one.jobs.pods() if self.knows else []
        for pod in pods:
            book.counted(self.name, pod.uid, {"pod": float(self.looks)}, NOW_S + 10.0 * self.looks)
        return len(pods)


@pytest.fixture
def one() -> Reporting:
    reporting = Reporting()
    reporting.uid = reporting.run("p", began_s=NOW_S - 1000)
    reporting.first, reporting.second = Source("first", reporting), Source("second", reporting)
    sources = [reporting.first, reporting.second]
    reporting.cpu = CpuUsed(sources, reporting.jobs, reporting.metrics, every_s=15.0, unix_s=lambda: reporting.now_s)
    return reporting


def look(one: Any, times: int = 1) -> list[dict[str, Any]]:
    async def looks() -> None:
        for _ in range(times):
            await one.cpu.look()

    with structlog.testing.capture_logs() as logs:
        asyncio.run(looks())
    return logs


def in_use(one: Any) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values()): sample.value for sample in one.metrics.cpu_source.collect()[0].samples}


def test_the_first_source_that_works_is_used_and_said(one):
    assert look(one, 3) == [{"event": "cpu_used_is_read", "log_level": "info", "source": "first", "instead_of": None}]
    assert (one.first.looks, one.second.looks, one.cpu.source) == (3, 0, "first")
    assert (one.cpu.reading(one.uid, CPU_USED_MILLI), one.cpu.reading(one.uid, CPU_USED_S)) == (100.0, 3.0)
    assert in_use(one) == {("first",): 1.0, ("second",): 0.0}
    assert one.metrics.cpu_pods._value.get() == 1


@pytest.mark.parametrize("error", [Unreachable("no answer"), CpuSourceError("no answer")])
def test_when_it_fails_the_next_is_read_at_once_and_the_first_is_tried_again_later(one, error):
    look(one, 2)
    one.first.error = error
    assert look(one, 3) == [
        {
            "event": "cpu_used_is_read",
            "log_level": "info",
            "source": "second",
            "instead_of": {"first": "no answer"},
        }
    ]
    assert (one.first.looks, one.second.looks) == (3, 3)
    assert one.cpu.reading(one.uid, CPU_USED_S) == 4.0, "two of the first, and two more since the second is read"
    assert counts(one.metrics.cpu_failures) == {("first",): 1}
    one.first.error = None
    assert [log["source"] for log in look(one, 15)] == ["first"]
    assert in_use(one) == {("first",): 1.0, ("second",): 0.0}


def test_when_all_fail_that_is_a_problem_said_once_until_one_works(one):
    one.first.error, one.second.error = Unreachable("not served"), CpuSourceError("forbidden")
    logs = look(one, 3)
    assert [log["event"] for log in logs] == ["cpu_used_is_unknown"]
    assert one.cpu.problem == "first: not served; second: forbidden"
    assert in_use(one) == {("first",): 0.0, ("second",): 0.0}
    one.second.error = None
    assert [log["source"] for log in look(one)] == ["second"]
    assert one.cpu.problem == ""


def test_what_a_source_cannot_read_in_part_is_said_once_and_is_no_problem(one):
    one.first.problem = "1 of 2 nodes: …"
    logs = look(one, 3)
    assert [(log["event"], log.get("why")) for log in logs[1:]] == [("cpu_used_is_partly_unknown", "1 of 2 nodes: …")]
    assert (one.cpu.problem, counts(one.metrics.cpu_failures)) == ("", {("first",): 3})


def test_a_source_that_knows_no_pod_is_none_unless_they_have_just_begun(one):
    one.first.knows = False
    look(one)
    assert one.cpu.source == "second"
    one.end(one.uid)
    one.run("q", began_s=NOW_S - 100)
    one.cpu.source = ""
    look(one)
    assert one.cpu.source == "first"


def test_pods_that_are_gone_are_forgotten(one):
    look(one, 2)
    one.end(one.uid)
    look(one)
    assert one.cpu.reading(one.uid, CPU_USED_S) is None
    assert (one.first.looks, len(one.cpu._book)) == (2, 0), "nobody is asked about nobody"
