"""The live scheduler against an API server that takes notes: whole histories of what was bound, and of what was not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from tests.live.cluster import make_node, make_pod

from foresail.core.backoff import Backoff
from foresail.kube.api.client import Object
from foresail.kube.objects.values import GANG, GANG_MIN, GPU_COUNT, GPU_DEVICES, GPU_MILLI
from foresail.live.scheduler.run import profile_for
from foresail.live.scheduler.scheduler import LiveScheduler

Word = int | Callable[[], int]


class Server:
    """Notes binds as pod and node; each is answered with the next status of the script, then with 201.

    A word of the script may be a function, which is called before and says the status.
    """

    def __init__(self, *script: Word) -> None:
        self.binds: list[tuple[str, str]] = []
        self.live: LiveScheduler
        self._script = list(script)
        self._version = 1

    async def __call__(self, request: web.Request) -> web.Response:
        name = request.path.split("/")[6] if "/pods/" in request.path else ""
        if request.method in {"GET", "PATCH"} and name:
            self._version += request.method == "PATCH"
            about = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self._version)}
            return web.json_response({"metadata": about, "spec": {}})
        if not request.path.endswith("/binding"):
            return web.json_response({})
        self.binds.append((name, (await request.json())["target"]["name"]))
        word = self._script.pop(0) if self._script else 201
        status = word() if callable(word) else word
        return web.json_response({"kind": "Status", "message": "as the script says"}, status=status)


class LoopClock:
    """The event loop's time, which a test lets pass as it likes."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()


@asynccontextmanager
async def deciding(
    server: Any, told: Server, *nodes: Object, policy: str = "kubernetes"
) -> AsyncIterator[LiveScheduler]:
    async with server(told) as api:
        live = told.live = LiveScheduler(api, profile_for(policy), backoff=Backoff(1.0, 1.0), clock=LoopClock())
        live.leads = True
        live.cache.handler("Node").replace(list(nodes))
        task = asyncio.create_task(live.run())
        yield live
        task.cancel()
        await asyncio.wait([task])


def put(live: LiveScheduler, *pods: Object) -> None:
    for pod in pods:
        live.cache.put_pod(pod)


async def quiet(live: LiveScheduler) -> None:
    """Until no bind is under way and no pod rests; in virtual time that is at once."""
    await asyncio.sleep(0.01)
    while live.cluster.binding or live.cluster.paused:
        await asyncio.sleep(0.01)


def test_a_pod_whose_resource_claims_nobody_allocates_is_not_bound_and_told_which(server, virtual):
    told = Server()

    async def story() -> None:
        async with deciding(server, told, make_node("a")) as live:
            put(live, make_pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "shared-gpu"}]))
            put(live, make_pod("q", node="a", resourceClaims=[{"name": "gpu", "resourceClaimName": "shared-gpu"}]))
            await asyncio.sleep(0.9)
            reason, message = live.cluster.conditions.told("uid-p")
            assert reason == "Unschedulable"
            assert 'waiting for resourceclaim "shared-gpu"' in message
            assert sorted(live.cache.table.placed) == ["uid-q"]

    virtual(story())
    assert told.binds == []


# --- nodes that others fill ------------------------------------------------------------------------------------------


def other(name: str, cpu: str = "1", node: str = "a", **more: Any) -> Object:
    """A pod that another scheduler has bound."""
    return make_pod(name, cpu, node, schedulerName="other", **more)


FILLED = "node a was filled by another scheduler before the pod was bound to it"


def filled(server: Any, virtual: Any, pod: Object, *fill: Object, node: Object | None = None) -> tuple[Server, list]:
    """A pod whose first bind is refused with 503, while others fill its node; what was asked and what it was told."""
    told = Server(lambda: put(told.live, *fill) or 503)
    reasons: list[object] = []

    async def story() -> None:
        async with deciding(server, told, node or make_node("a")) as live:
            put(live, pod)
            await asyncio.sleep(0.9)
            reasons.append(live.cluster.conditions.told(f"uid-{pod['metadata']['name']}"))
            await quiet(live)
            reasons.append(sorted(live.cache.table.placed))

    virtual(story())
    return told, reasons


@pytest.mark.parametrize(
    ("pod", "fill", "node"),
    [
        (make_pod("p", "2"), [other("o", "3")], make_node("a")),
        (make_pod("p"), [other("o")], make_node("a", allocatable={"pods": "1"})),
        (
            make_pod("p", annotations={GPU_COUNT: "1", GPU_MILLI: "700"}),
            [other("o", annotations={GPU_COUNT: "1", GPU_MILLI: "500", GPU_DEVICES: "0"})],
            make_node("a", gpus=1),
        ),
    ],
    ids=["cpu", "pods", "gpu"],
)
def test_a_bind_is_not_repeated_on_a_node_that_another_scheduler_has_filled(server, virtual, pod, fill, node):
    told, (reason, placed) = filled(server, virtual, pod, *fill, node=node)
    assert told.binds == [("p", "a")]
    assert reason == ("SchedulerError", FILLED)
    assert placed == ["uid-o"]


def test_a_bind_is_repeated_where_others_leave_enough_of_what_the_pod_asks(server, virtual):
    # Memory is short by now, but the pod asks for none.
    hungry = other("o", "1")
    hungry["spec"]["containers"][0]["resources"]["requests"]["memory"] = "9Gi"
    told, (_, placed) = filled(server, virtual, make_pod("p", "2"), hungry)
    assert told.binds == [("p", "a")] * 2
    assert placed == ["uid-o", "uid-p"]


def test_a_pod_that_cannot_have_a_filled_node_gets_another(server, virtual):
    told = Server(lambda: put(told.live, other("o", "4", node=told.binds[0][1])) or 503)

    async def story() -> None:
        async with deciding(server, told, make_node("a"), make_node("b")) as live:
            put(live, make_pod("p", "2"))
            await quiet(live)

    virtual(story())
    (_, first), (_, second) = told.binds
    assert {first, second} == {"a", "b"}


def test_of_two_pods_on_a_filled_node_one_goes_on(server, virtual):
    told = Server(lambda: put(told.live, other("o", "2")) or 503, 503)

    async def story() -> list[object]:
        async with deciding(server, told, make_node("a")) as live:
            put(live, make_pod("p", "2"), make_pod("q", "2"))
            await asyncio.sleep(0.9)
            return sorted(live.cache.table.placed)

    placed = virtual(story())
    assert len(told.binds) == 3
    assert placed in (["uid-o", "uid-p"], ["uid-o", "uid-q"])


def test_nothing_is_asked_when_the_node_is_filled_between_the_decision_and_the_bind(server, virtual):
    told = Server()

    async def story() -> None:
        async with deciding(server, told, make_node("a")) as live:
            await asyncio.sleep(0.1)
            put(live, make_pod("p", "2"))
            assert live.core.answer(live.core.turn())  # decides; the bind has its turn after this
            put(live, other("o", "3"))
            await asyncio.sleep(0.1)
            assert live.cluster.conditions.told("uid-p") == ("SchedulerError", FILLED)

    virtual(story())
    assert told.binds == []


def test_a_node_that_shrank_gets_no_pod_that_it_has_no_room_for(server, virtual):
    told = Server(lambda: told.live.cache.put_nodes([make_node("a", "1")]) or 503)

    async def story() -> object:
        async with deciding(server, told, make_node("a"), make_node("b", "1")) as live:
            put(live, make_pod("p", "2"))
            await quiet(live)
            await asyncio.sleep(5)
            return live.cluster.conditions.told("uid-p")

    assert virtual(story()) == ("Unschedulable", "0/2 nodes are available: 2 Insufficient cpu.")
    assert told.binds == [("p", "a")]


def test_a_profile_that_counts_no_room_is_taken_at_its_word(server, virtual):
    told = Server(503)

    async def story() -> None:
        async with deciding(server, told, make_node("a")) as live:
            profile = live.core.profile
            profile.filters = [used for used in profile.filters if used.name != "kube-resources-fit"]
            put(live, other("o", "4"), make_pod("p", "2"))
            await quiet(live)

    virtual(story())
    assert told.binds == [("p", "a")] * 2


def test_a_pod_that_was_deleted_while_its_bind_failed_leaves_nothing_behind(server, virtual):
    told = Server(lambda: told.live.cache.remove_nodes(["a"]) or told.live.cache.drop_pod("uid-p") or 503)

    async def story() -> tuple[str, bool]:
        async with deciding(server, told, make_node("a")) as live:
            put(live, make_pod("p"))
            await quiet(live)
            return live.cluster.bind_error, "uid-p" in live.cluster.paused

    assert virtual(story()) == ("", False)


# --- gangs -----------------------------------------------------------------------------------------------------------


def member(number: int, node: str = "") -> Object:
    return make_pod(f"g-{number}", node=node, labels={GANG: "g"}, annotations={GANG_MIN: "3"})


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (1, 2, 0)])
def test_members_that_have_their_node_count_wherever_a_list_names_them(server, virtual, order):
    told = Server()
    found = [member(0), member(1, "a"), member(2, "a")]

    async def story() -> None:
        async with deciding(server, told, make_node("a")) as live:
            live.cache.handler("Pod").replace([found[at] for at in order])
            await quiet(live)

    virtual(story())
    assert told.binds == [("g-0", "a")]


def test_a_member_that_comes_while_the_others_are_being_bound_follows_them(server, virtual):
    told = Server(lambda: put(told.live, member(3)) or 201)

    async def story() -> None:
        async with deciding(server, told, make_node("a", "8")) as live:
            put(live, member(0), member(1), member(2))
            await quiet(live)

    virtual(story())
    assert sorted(told.binds) == [(f"g-{number}", "a") for number in range(4)]


def test_a_member_whose_bind_failed_follows_the_others(server, virtual):
    told = Server(422)

    async def story() -> None:
        async with deciding(server, told, make_node("a", "8")) as live:
            put(live, member(0), member(1), member(2))
            await quiet(live)

    virtual(story())
    assert len(told.binds) == 4
    assert set(told.binds) == {(f"g-{number}", "a") for number in range(3)}


def test_a_gang_whose_members_are_gone_must_find_room_together_again(server, virtual):
    told = Server()

    async def story() -> int:
        async with deciding(server, told, make_node("a", "8")) as live:
            put(live, *(member(number) for number in range(3)))
            await quiet(live)
            for number in range(3):
                live.cache.drop_pod(f"uid-g-{number}")
            put(live, make_pod("g-3", labels={GANG: "g"}, annotations={GANG_MIN: "3"}))
            await asyncio.sleep(5)
            return len(live.queue)

    assert virtual(story()) == 1
    assert len(told.binds) == 3


async def told_after(live: LiveScheduler, pause_s: float, *names: str) -> list[str]:
    await asyncio.sleep(pause_s)
    said = [live.cluster.conditions.told(f"uid-{name}") for name in names]
    return ["" if one is None else one[1] for one in said]


def test_members_of_an_incomplete_gang_are_told_for_how_many_more_they_wait(server, virtual):
    two, one = (f"waiting for {more} more of the 3 pods of gang default/g" for more in (2, 1))

    async def story() -> None:
        async with deciding(server, Server(), make_node("a")) as live:
            put(live, member(0))
            assert await told_after(live, 0.9, "g-0") == [""]
            assert await told_after(live, 0.2, "g-0") == [two]
            put(live, member(1))
            assert await told_after(live, 2.1, "g-0", "g-1") == [one, one]
            live.cache.drop_pod("uid-g-0")
            assert await told_after(live, 4.1, "g-1") == [two]
            events = [(event.pod.name, event.reason, event.note) for event in live.events._waiting]
            assert events == [
                ("g-0", "FailedScheduling", two),
                ("g-0", "FailedScheduling", one),
                ("g-1", "FailedScheduling", one),
                ("g-1", "FailedScheduling", two),
            ]

    virtual(story())


def test_only_the_leader_tells_of_incomplete_gangs(server, virtual):
    async def story() -> None:
        async with deciding(server, Server(), make_node("a")) as live:
            live.leads = False
            put(live, member(0))
            assert await told_after(live, 100, "g-0") == [""]
            live.leads = True
            live.anything_changed()
            assert await told_after(live, 0.1, "g-0") == ["waiting for 2 more of the 3 pods of gang default/g"]

    virtual(story())


def test_a_member_that_completes_a_gang_is_not_told_that_it_waits_for_others(server, virtual):
    async def story() -> None:
        async with deciding(server, Server(), make_node("a", "2")) as live:
            put(live, member(0), member(1), member(2))
            full = "0/1 nodes are available: 1 Insufficient cpu."
            assert await told_after(live, 0.1, "g-0", "g-1", "g-2") == [full] * 3
            live.cache.drop_pod("uid-g-2")
            one = "waiting for 1 more of the 3 pods of gang default/g"
            assert await told_after(live, 1.1, "g-0", "g-1") == [one] * 2
            put(live, member(3))
            assert await told_after(live, 0.1, "g-0", "g-1", "g-3") == [full] * 3

    virtual(story())


# --- where each pod is -----------------------------------------------------------------------------------------------


def test_a_pod_is_in_one_place_from_the_first_word_to_the_last(server, virtual):
    told = Server(422)
    seen: list[object] = []

    async def story() -> None:
        async with deciding(server, told, make_node("a")) as live:
            note = lambda: seen.append(live.lives.of("uid-p"))  # noqa: E731 - said in one line
            note()
            put(live, make_pod("p", "8"))
            note()
            live.cache.drop_pod("uid-p")
            note()
            put(live, make_pod("p", "2"))
            assert live.core.answer(live.core.turn())
            note()
            await asyncio.sleep(0.5)
            note()
            assert live.misplaced() == set()
            await quiet(live)
            note()
            put(live, make_pod("p", "2", "a", phase="Succeeded"))
            note()
            assert (len(live.lives), live.mend()) == (0, 0)

    virtual(story())
    assert seen == ["gone", "waiting", "gone", "binding", "resting", "running", "gone"]


def test_a_pod_that_another_binds_or_that_goes_while_it_rests_or_is_bound_leaves_no_trace(server, virtual):
    told = Server(422, 422, lambda: told.live.cache.drop_pod("uid-r") or 422)

    async def story() -> dict[str, object]:
        async with deciding(server, told, make_node("a")) as live:
            put(live, make_pod("p"), make_pod("q"))
            await asyncio.sleep(0.5)
            assert [live.lives.of(f"uid-{name}") for name in "pq"] == ["resting", "resting"]
            put(live, make_pod("p", node="a"))
            live.cache.drop_pod("uid-q")
            put(live, make_pod("r"))
            await quiet(live)
            return {name: live.lives.of(f"uid-{name}") for name in "pqr"}

    assert virtual(story()) == {"p": "running", "q": "gone", "r": "gone"}


def test_a_pod_that_dropped_out_is_put_back_when_it_is_missed_twice(server, virtual):
    told = Server()

    async def story() -> None:
        async with deciding(server, told, make_node("a")) as live:
            live.leads = False
            put(live, make_pod("p"))
            live.queue.remove("uid-p")
            assert (live.misplaced(), live.mend(), told.binds) == ({"uid-p"}, 0, [])
            live.leads = True
            assert live.mend() == 1
            live.anything_changed()
            await quiet(live)
            assert (live.misplaced(), live.mend()) == (set(), 0)

    virtual(story())
    assert told.binds == [("p", "a")]


# --- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(5))
def test_a_loop_that_is_cancelled_together_with_news_ends(server, virtual, turns):
    async def story() -> bool:
        async with server(Server()) as api:
            live = LiveScheduler(api, profile_for("kubernetes"))
            task = asyncio.create_task(live.run())
            await asyncio.sleep(0.01)
            live.room_freed(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=60)
            return task.cancelled()

    assert virtual(story())
