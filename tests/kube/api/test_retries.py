"""One rule of what is asked again and when."""

import asyncio

import pytest

from foresail.kube.api.errors import ClusterError, Unreachable, api_error
from foresail.kube.api.retries import (
    ATTEMPTS,
    WatchPauses,
    busy_pause_s,
    is_nobodys_fault,
    list_pause_s,
    may_arrive,
    may_pass,
    pause_s,
    until_done,
)


def error(status: int, retry_after_s: float | None = None):
    return api_error(status, "GET", "/x", {}, retry_after_s)


@pytest.mark.parametrize(
    ("failure", "passes", "arrives"),
    [
        (Unreachable("no answer"), True, True),
        (error(409), True, False),
        (error(429), True, False),
        (error(500), True, True),
        (error(503), True, True),
        (error(504), True, True),
        (error(400), False, False),
        (error(401), False, False),
        (error(403), False, False),
        (error(404), False, False),
        (error(422), False, False),
        (ClusterError("an answer that is no JSON"), False, True),
    ],
)
def test_what_may_pass_and_what_may_have_an_effect_yet(failure, passes, arrives):
    assert (may_pass(failure), may_arrive(failure)) == (passes, arrives)


def test_pauses_double_to_a_limit_and_what_the_server_asks_for_is_kept():
    lost = Unreachable("no answer")
    for failures, longest_s in enumerate([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]):
        assert longest_s / 2 <= pause_s(failures, lost) <= longest_s
    assert pause_s(0, error(503, 20.0)) == 20.0
    assert pause_s(1000, lost) <= 5.0
    assert [busy_pause_s(error(429, told)) for told in (None, 0.0, 3.0, 60.0)] == [1.0, 0.0, 3.0, 10.0]


def test_a_watch_comes_back_within_three_seconds_whatever_it_is_told():
    pauses = WatchPauses()
    waits = [pauses.next_s(error(503, 60.0) if at == 3 else None) for at in range(8)]
    assert waits[3] == 3.0
    assert all(wait_s <= longest_s for wait_s, longest_s in zip(waits[:3], [0.1, 0.2, 0.4], strict=True))
    assert max(waits) <= 3.0
    assert pauses.failures == 8
    pauses.reset()
    assert pauses.next_s() <= 0.1


@pytest.mark.parametrize(
    ("failure", "is_nobodys", "longest_s"),
    [
        (Unreachable("no answer"), True, 1.0),
        (ClusterError("the token file is empty"), True, 1.0),
        (error(401), True, 5.0),
        (error(403), False, 5.0),
        (error(409), False, 1.0),
        (error(422), False, 1.0),
        (error(429, 3.0), True, 3.0),
        (error(500), False, 1.0),
        (error(503, 60.0), True, 10.0),
        (error(503, 0.1), True, 1.0),
    ],
)
def test_whose_fault_a_failure_is_and_how_long_a_whole_list_waits_after_it(failure, is_nobodys, longest_s):
    assert (is_nobodys_fault(failure), list_pause_s(failure)) == (is_nobodys, longest_s)


def sent(*answers, **options):
    """How often a write was sent, the pauses between, and what came of it."""
    left, pauses, times = list(answers), [], 0

    async def send():
        nonlocal times
        times += 1
        answer = left.pop(0) if left else answers[-1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(pause_s):
        pauses.append(pause_s)

    try:
        done = asyncio.run(until_done(send, sleep=sleep, **options))
    except ClusterError as failed:
        done = failed
    return times, len(pauses), done


def test_a_write_is_sent_again_as_long_as_it_may_pass_and_no_longer():
    lost, refused = Unreachable("no answer"), error(403)
    assert sent("done") == (1, 0, "done")
    assert sent(lost, error(409), "done") == (3, 2, "done")
    assert sent(lost, refused, "done") == (2, 1, refused)
    assert sent(lost) == (ATTEMPTS, ATTEMPTS - 1, lost)


def test_without_a_number_of_attempts_a_request_is_sent_until_there_is_an_answer():
    lost, many = Unreachable("no answer"), ATTEMPTS * 3
    assert sent(*[lost] * many, "done", attempts=None) == (many + 1, many, "done")
    refused = error(403)
    assert sent(lost, refused, "done", attempts=None) == (2, 1, refused)
