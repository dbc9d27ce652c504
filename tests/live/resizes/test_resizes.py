"""Resizes of a node's pods: who goes first, what is undone, and who goes on after a crash."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.kube.scripted_server import run_virtual
from tests.live.resizes.kubelets import KubeletServer, Resizing, resizing

from foresail.live.actions.resizing import Cpu
from foresail.live.resizes.record import Batch, PodChange, to_give_back


def story(server: KubeletServer, tell: Any, **more: Any) -> Resizing:
    """What became of a story, told with resizes of this server's pods."""

    async def run() -> Resizing:
        async with resizing(server, **more) as one:
            await tell(one)
            await one.done()
            one.catch_up()
        assert server.over == []
        assert server.objects["configmaps"] == {}  # nothing is left to be gone on with
        return one

    return run_virtual(run())


# --- order -----------------------------------------------------------------------------------------------------------


def test_who_grows_waits_until_the_kubelet_has_set_less_aside_for_who_shrinks():
    server = KubeletServer(a=2000)
    server.pod("p", "1", "a")
    server.pod("q", "1", "a")

    async def tell(one: Resizing) -> None:
        assert one.ask(p=1700, q=300) == {}
        await server.wrote(1, "p/resize")
        assert server.has("q") == 300  # its kubelet was done with it before p asked

    one = story(server, tell)
    assert (server.asks("p"), server.asks("q")) == ((1700, 0), (300, 0))
    assert one.outcomes == ["done", "done"]
    assert [path for _, path in server.log if path.endswith("/resize")] == ["pods/q/resize", "pods/p/resize"]
    assert server.peaks == {"a": 2000}


def test_also_where_there_is_room_pods_never_request_more_than_before_or_after():
    server = KubeletServer(a=8000)
    server.pod("p", "1", "a")
    server.pod("q", "1", "a")

    async def tell(one: Resizing) -> None:
        assert one.ask(p=1700, q=500) == {}

    story(server, tell)
    assert server.peaks == {"a": 2200}


def test_nodes_do_not_wait_for_each_other():
    server = KubeletServer(a=2000, b=2000)
    for name, node in (("p", "a"), ("q", "a"), ("r", "b")):
        server.pod(name, "1", node)
    server.silent.add("q")

    async def tell(one: Resizing) -> None:
        assert one.ask(p=1500, q=500, r=1500) == {}
        while server.has("r") != 1500:
            await asyncio.sleep(0.1)
        assert server.asks("p") == (1000, 0)

    story(server, tell, within_s=5.0)


def test_what_the_node_does_not_have_is_refused_at_once_also_to_two_together():
    server = KubeletServer(a=4000)
    server.pod("p", "1", "a")
    server.pod("q", "1", "a")

    async def tell(one: Resizing) -> None:
        assert one.ask(p=2500, q=2500) == {"q": "a has 500 milli-CPU left, and it would take 1500 more"}

    story(server, tell)
    assert (server.asks("p"), server.asks("q")) == ((2500, 0), (1000, 0))


# --- the way back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("says", "outcome"), [("never", "infeasible"), ("later", "deferred"), ("silent", "deferred")])
def test_a_growth_that_its_kubelet_does_not_give_is_rolled_back_and_who_made_room_for_it_gets_it_again(says, outcome):
    server = KubeletServer(a=2000)
    server.pod("p", "1", "a", limit="1900m")
    server.pod("q", "1", "a")
    getattr(server, says).add("p")

    async def tell(one: Resizing) -> None:
        assert one.ask(p=1700, q=300) == {}

    one = story(server, tell, within_s=10.0)
    assert (server.asks("p"), server.asks("q")) == ((1000, 1900), (1000, 0))
    assert server.has("q") == 1000
    assert one.outcomes == sorted([outcome, "done", "given_back"])
    declined = {pod: detail for what, pod, detail in one.noted if what == "decline"}
    assert declined["q"] == "resize declined: it had only made room for one that came to nothing"
    assert {
        "never": "resize declined: infeasible: not so much",
        "later": "resize declined: deferred: not yet (for ",
        "silent": "resize declined: its kubelet does not answer (for ",
    }[says] in declined["p"]


def test_room_that_never_comes_is_not_waited_for_for_ever():
    server = KubeletServer(a=2000)
    server.pod("p", "1", "a")
    server.pod("q", "1", "a")
    server.silent.add("q")

    async def tell(one: Resizing) -> None:
        assert one.ask(p=1700, q=300) == {}

    one = story(server, tell, within_s=5.0)
    assert (server.asks("p"), server.asks("q")) == ((1000, 0), (1000, 0))
    assert one.outcomes == ["deferred", "no_room"]
    assert server.asked("PATCH", "p/resize") == []


def test_a_pod_whose_resize_came_to_nothing_is_left_alone_for_a_while_but_may_shrink():
    server = KubeletServer(a=4000)
    server.pod("p", "1", "a")
    server.never.add("p")

    async def tell(one: Resizing) -> None:
        one.ask(p=2000)
        await one.done()
        (said,) = one.ask(p=2000).values()
        assert said == "it is left alone for 60 s, as its last resize came to nothing: infeasible: not so much"
        assert one.ask(p=500) == {}
        await one.done()
        await asyncio.sleep(60)
        server.never.clear()
        assert one.ask(p=2000) == {}

    assert story(server, tell).outcomes == ["done", "done", "infeasible"]


# --- others do things meanwhile --------------------------------------------------------------------------------------


def test_who_was_resized_by_somebody_else_meanwhile_keeps_that():
    server = KubeletServer(a=4000)
    pod = server.pod("p", "1", "a")
    server.later.add("p")

    async def tell(one: Resizing) -> None:
        one.ask(p=2000)
        await server.wrote(1, "p/resize")
        server.later.clear()
        changed = {
            "metadata": {},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "700m"}}}]},
        }
        await one.api.patch(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/resize", changed)

    one = story(server, tell)
    assert (server.asks("p"), one.outcomes) == ((700, 0), ["changed"])


@pytest.mark.parametrize("who", ["p", "q"])
def test_a_pod_that_vanishes_midway_is_told_and_the_other_is_brought_to_an_end(who):
    server = KubeletServer(a=2000)
    server.pod("p", "1", "a")
    server.pod("q", "1", "a")
    server.allocate_s = 2.0

    async def tell(one: Resizing) -> None:
        one.ask(p=1700, q=300)
        await asyncio.sleep(1)
        server.drop("pods", who)

    one = story(server, tell)
    # Without p nobody needs what q gave; without q there is room for p.
    assert (server.asks("q") if who == "p" else server.asks("p")) == ((1000, 0) if who == "p" else (1700, 0))
    assert one.outcomes == (["done", "given_back", "gone"] if who == "p" else ["done", "gone"])


@pytest.mark.parametrize("status", [409, 429, 503])
def test_what_may_pass_is_asked_again_with_the_pod_as_it_is_then(status):
    refusals = [status, status]
    server = KubeletServer(lambda method, _path: refusals.pop() if method == "PATCH" and refusals else 0, a=4000)
    server.pod("p", "1", "a")

    async def tell(one: Resizing) -> None:
        one.ask(p=2000)

    assert story(server, tell).outcomes == ["done"]
    assert len(server.asked("PATCH", "pods/p/resize")) == 3


@pytest.mark.parametrize(("status", "attempts"), [(403, 1), (422, 1)])
def test_what_does_not_pass_is_told_in_the_servers_words(status, attempts):
    server = KubeletServer(lambda method, _path: status if method == "PATCH" else 0, a=4000)
    server.pod("p", "1", "a")

    async def tell(one: Resizing) -> None:
        one.ask(p=2000)

    one = story(server, tell)
    ((_, _, said),) = one.noted
    assert said.startswith(f"resize declined: PATCH /api/v1/namespaces/default/pods/p/resize: {status}")
    assert (one.outcomes, len(server.asked("PATCH"))) == (["refused"], attempts)


def test_what_cannot_be_written_down_is_not_begun():
    server = KubeletServer(lambda method, path: 403 if method == "POST" and path.endswith("configmaps") else 0, a=4000)
    server.pod("p", "1", "a")

    async def tell(one: Resizing) -> None:
        one.ask(p=2000)

    one = story(server, tell)
    assert server.asked("PATCH") == []
    assert "it cannot be written down: POST" in one.noted[0][2]


# --- merging ---------------------------------------------------------------------------------------------------------


def test_a_newer_amount_takes_the_place_of_one_that_waits_and_what_it_was_is_remembered():
    server = KubeletServer(a=4000)
    server.pod("p", "1", "a")
    server.later.add("p")

    async def tell(one: Resizing) -> None:
        one.ask(p=3000)
        await server.wrote(1, "p/resize")
        assert one.ask(p=3000) == {}  # that is under way
        for cpu_milli in (3100, 3200, 2500):
            assert one.ask(p=cpu_milli) == {}  # before anybody has looked at them

    one = story(server, tell, within_s=10.0)
    assert [path for _, path in server.log if path.endswith("/resize")] == ["pods/p/resize"] * 3  # there, over, back
    assert server.asks("p") == (1000, 0)
    assert one.outcomes == ["deferred", "replaced"]


def test_small_changes_are_not_sent_and_no_more_than_so_many_in_a_second():
    server = KubeletServer(a=9000)
    names = [f"p{number}" for number in range(6)]
    for name in names:
        server.pod(name, "1", "a")

    async def tell(one: Resizing) -> None:
        assert one.ask(p0=1010) == {"p0": "from 1000 milli-CPU that is a change of less than 5 %"}
        begun_s = asyncio.get_running_loop().time()
        assert one.ask(**dict.fromkeys(names, 1100)) == {}
        await server.wrote(6, "/resize")
        assert asyncio.get_running_loop().time() - begun_s >= 2.5

    story(server, tell, least_change=0.05, most_a_second=2.0)


# --- leaders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("says", ["", "never", "later"])
@pytest.mark.parametrize("after", range(9))
def test_whoever_leads_next_completes_what_was_begun_or_rolls_it_back(after, says):
    """The first leader is killed after so many of its writes, just before the next."""
    server = KubeletServer(a=2000)
    server.pod("p", "1", "a", limit="2")
    server.pod("q", "1", "a")
    if says:
        getattr(server, says).add("p")

    async def run() -> None:
        async with resizing(server, within_s=5.0) as first:
            first.ask(p=1700, q=300)
            reached = asyncio.create_task(server.wrote(after))
            await asyncio.wait([reached, *first.resizes.tasks.values()], return_when=asyncio.FIRST_COMPLETED)
            first.kill()
            reached.cancel()
            await asyncio.sleep(1)
            next_one = Resizing(server, first.api, within_s=5.0)
            next_one.catch_up()
            await next_one.resizes.take_over()
            await next_one.done()
            next_one.kill()

    run_virtual(run())
    ended = (server.asks("p")[0], server.asks("q")[0])
    assert server.objects["configmaps"] == {}
    assert server.over == []
    # A kill before anything was written down leaves all as it was.
    assert ended in {(1000, 1000), *([] if says else [(1700, 300)])}


def test_of_two_leaders_the_one_that_was_replaced_stops():
    server = KubeletServer(a=2000)
    server.pod("p", "1", "a")
    server.pod("q", "1", "a")
    server.never.add("p")

    async def run() -> None:
        async with resizing(server, within_s=5.0) as first:
            first.ask(p=1700, q=300)
            await server.wrote(1, "p/resize")
            second = Resizing(server, first.api, within_s=5.0)
            second.catch_up()
            await second.resizes.take_over()
            await first.done()
            await second.done()
            second.kill()
            assert "given_back" not in first.outcomes

    run_virtual(run())
    assert (server.asks("p"), server.asks("q"), server.objects["configmaps"]) == ((1000, 0), (1000, 0), {})
    assert server.over == []


def test_nothing_is_sent_while_another_may_lead():
    server = KubeletServer(a=4000)
    server.pod("p", "1", "a")

    async def tell(one: Resizing) -> None:
        one.leads = False
        one.ask(p=2000)
        await asyncio.sleep(20)
        assert server.asked("PATCH") == []
        one.leads = True

    assert story(server, tell).outcomes == ["done"]


# --- any batch -------------------------------------------------------------------------------------------------------

POD = st.tuples(
    st.integers(1, 40),  # of 100 milli-CPU: what it has
    st.integers(1, 40),  # what it is to have
    st.sampled_from(["", "", "", "never", "later", "silent", "vanishes", "tenant"]),
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(POD, min_size=1, max_size=6),
    st.integers(0, 20),
    st.lists(st.sampled_from([0, 0, 0, 409, 429, 503]), max_size=30),
)
@example([(1, 2, ""), (2, 1, "")], 0, [409, 0, 0, 0])
def test_any_batch_ends_in_what_was_asked_for_or_in_what_was_and_never_over_what_the_node_has(pods, spare, refusals):
    left = list(refusals)
    server = KubeletServer(
        lambda method, _path: left.pop() if method != "GET" and left else 0,
        a=100 * (sum(has for has, _, _ in pods) + spare),
    )
    for number, (has, _, fate) in enumerate(pods):
        server.pod(f"p{number}", f"{100 * has}m", "a")
        if fate in {"never", "later", "silent"}:
            getattr(server, fate).add(f"p{number}")
    before = server.total("a")
    aims = {f"p{number}": 100 * aim for number, (_, aim, _) in enumerate(pods)}

    async def tell(one: Resizing) -> None:
        declined = one.ask(**aims)
        for name in declined:
            aims[name] = server.asks(name)[0]
        await asyncio.sleep(0.4)
        for number, (_, _, fate) in enumerate(pods):
            if fate == "vanishes":
                server.drop("pods", f"p{number}")
            elif fate == "tenant":
                change = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "50m"}}}]}}
                left.clear()
                await one.api.patch(f"/api/v1/namespaces/default/pods/p{number}/resize", change)
        await one.done()
        await asyncio.sleep(2)  # the kubelets' last word

    story(server, tell, within_s=8.0)
    for number, (has, _, fate) in enumerate(pods):
        if fate == "vanishes":
            continue
        ended = server.asks(f"p{number}")[0]
        assert ended in {100 * has, aims[f"p{number}"], *([50] if fate == "tenant" else [])}, (number, fate)
        if fate != "silent":
            assert server.has(f"p{number}") == ended
    assert server.peaks["a"] <= max(before, sum(aims.values()))


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(POD, min_size=2, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 40), st.integers(0, 30)), max_size=6),
    st.integers(0, 12),
    st.booleans(),
)
def test_whatever_is_asked_anew_and_whoever_is_killed_no_node_is_over_and_every_pod_has_something_it_was_to_have(
    pods, newer, writes, other_lives_on
):
    """`newer` are a pod, an amount and tenths of a second; the first leader is killed after some writes, or goes on
    for a while beside the second.
    """
    server = KubeletServer(a=100 * (sum(has for has, _, _ in pods) + 5))
    allowed: dict[str, set[int]] = {}
    for number, (has, aim, fate) in enumerate(pods):
        server.pod(f"p{number}", f"{100 * has}m", "a")
        allowed[f"p{number}"] = {100 * has, 100 * aim}
        if fate in {"never", "later", "silent"}:
            getattr(server, fate).add(f"p{number}")

    async def ask_anew(one: Resizing) -> None:
        for number, aim, tenths in newer:
            await asyncio.sleep(tenths / 10)
            if number < len(pods):
                allowed[f"p{number}"].add(100 * aim)
                one.ask(**{f"p{number}": 100 * aim})

    async def run() -> None:
        async with resizing(server, within_s=6.0) as first:
            first.ask(**{f"p{number}": 100 * aim for number, (_, aim, _) in enumerate(pods)})
            asking = asyncio.create_task(ask_anew(first))
            reached = asyncio.create_task(server.wrote(writes))
            await asyncio.wait([reached, asking], return_when=asyncio.FIRST_COMPLETED)
            reached.cancel()
            if not other_lives_on:
                asking.cancel()
                first.kill()
            second = Resizing(server, first.api, within_s=6.0)
            await second.resizes.take_over()
            await second.done()
            await asyncio.wait([asking])
            await first.done()
            await second.resizes.take_over()
            await second.done()
            await asyncio.sleep(2)
            second.kill()

    run_virtual(run())
    assert server.over == []
    assert server.objects["configmaps"] == {}
    for number, (_, _, fate) in enumerate(pods):
        assert server.asks(f"p{number}")[0] in allowed[f"p{number}"]
        if fate != "silent":
            assert server.has(f"p{number}") == server.asks(f"p{number}")[0]


CHANGE = st.tuples(st.integers(1, 50), st.integers(1, 50), st.booleans())


@settings(max_examples=500)
@example([(60, 30, True), (40, 20, True), (10, 35, True), (10, 20, False)], 0)
@given(st.lists(CHANGE, max_size=7), st.integers(0, 60))
def test_given_back_is_what_failed_growths_alone_had_needed(changes, free):
    made = tuple(
        PodChange(namespace="n", name=str(at), uid=str(at), container="c", was=Cpu(was), to=Cpu(to))
        for at, (was, to, _) in enumerate(changes)
    )
    well = {str(at) for at, (_, _, went_well) in enumerate(changes) if went_well}
    back = to_give_back(Batch(node="a", changes=made, free_milli=free), well, well)
    grown = sum(to - was for was, to, ok in changes if ok and to > was)
    failed = sum(to - was for was, to, ok in changes if not ok and to > was)
    gave = {str(at): was - to for at, (was, to, ok) in enumerate(changes) if ok and to < was}
    kept = sum(milli for uid, milli in gave.items() if uid not in back)
    assert back <= set(gave)
    if sum(gave.values()) + free >= grown:
        assert kept + free >= grown  # those that went well keep what they have
    if not failed or failed + grown <= free:
        assert back == set()  # nobody had to shrink for anybody who failed
    if failed and not grown and failed - free >= sum(gave.values()):
        assert back == set(gave)  # all of it was for them
