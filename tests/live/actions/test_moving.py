"""Making a pod go: once, only that pod, as budgets allow, and never after all once it counts as staying."""

from __future__ import annotations

from typing import Any

import pytest
from tests.live.api_server import ApiServer
from tests.live.cluster import make_pod

from foresail.kube.api.errors import ClusterError
from foresail.live.actions.moving import Leaving, PodMover
from foresail.live.cache.pods import PodReader


def evict(server: Any, virtual: Any, told: ApiServer, *, pod: Any = None, dry_run: bool = False) -> Any:
    async def story() -> Any:
        async with server(told) as api:
            return await PodMover(api).evict(PodReader().read(pod or make_pod("p", node="a")), dry_run=dry_run)

    return virtual(story())


def with_pod(script: Any = lambda _method, _path: 0, **more: Any) -> ApiServer:
    told = ApiServer(script)
    told.put("pods", make_pod("p", node="a", **more))
    return told


def test_an_eviction_names_the_pods_uid_and_version(server, virtual):
    told = with_pod()
    assert evict(server, virtual, told).leaving is Leaving.GOES
    assert told.bodies[0]["deleteOptions"] == {"preconditions": {"uid": "uid-p", "resourceVersion": "1"}}
    assert told.objects["pods"] == {}


@pytest.mark.parametrize(
    ("there", "leaving"),
    [
        (make_pod("p", node="a", uid="another"), Leaving.GOES),
        (make_pod("p", node="a", deleted=True), Leaving.GOES),
        (make_pod("p", node="a", phase="Succeeded"), Leaving.ENDED),
        (make_pod("p", node="a", phase="Failed"), Leaving.ENDED),
    ],
    ids=["another of its name", "being deleted", "succeeded", "failed"],
)
def test_a_pod_that_is_not_there_to_go_is_left_alone(server, virtual, there, leaving):
    told = ApiServer()
    told.put("pods", there)
    assert evict(server, virtual, told).leaving is leaving
    assert told.log == []


def test_a_pod_that_is_gone_goes(server, virtual):
    assert evict(server, virtual, ApiServer()).leaving is Leaving.GOES


def test_a_pod_that_changes_meanwhile_is_looked_at_again(server, virtual):
    changes = iter(["", "", "ended"])

    def script(method: str, path: str) -> int:
        if path.endswith("/eviction"):
            now = next(changes)
            told.put("pods", make_pod("p", node="a", phase="Succeeded" if now else "Running"))
        return 0

    told = with_pod(script)
    found = evict(server, virtual, told)
    assert (found.leaving, found.why) == (Leaving.ENDED, "it has ended (Succeeded)")
    assert "p" in told.objects["pods"]


def test_a_budget_is_quoted_and_nothing_is_written_for_an_eviction_that_was_answered(server, virtual):
    told = with_pod()
    told.budget_allows = False
    found = evict(server, virtual, told)
    assert found.leaving is Leaving.BUDGET
    assert "the budget does not allow it" in found.why
    assert told.log == [("POST", "pods/p/eviction")]


def test_an_eviction_that_may_still_arrive_is_called_off_before_the_pod_counts_as_staying(server, virtual):
    """The first request is lost on its way, then a budget forbids it; if the first arrived now, its version is old."""
    answers = iter([504, 0])
    told = with_pod(lambda _method, path: next(answers) if path.endswith("/eviction") else 0)
    told.budget_allows = False
    assert evict(server, virtual, told).leaving is Leaving.BUDGET
    late = told.bodies[0]
    told.budget_allows = True
    status, _ = told._answer("POST", "pods", "p", "eviction", late)
    assert (status, told.asked("PATCH")) == (409, ["pods/p/status"])
    condition = told.objects["pods"]["p"]["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


def test_what_does_not_pass_is_told_and_what_may_is_tried_again(server, virtual):
    told = with_pod(lambda _method, path: 403 if path.endswith("/eviction") else 0)
    found = evict(server, virtual, told)
    assert (found.leaving, "403" in found.why, len(told.log)) == (Leaving.STAYS, True, 1)
    answers = iter([500, 503, 429, 0])
    told = with_pod(lambda _method, path: next(answers) if path.endswith("/eviction") else 0)
    assert evict(server, virtual, told).leaving is Leaving.GOES


def test_a_dry_run_makes_nobody_go(server, virtual):
    told = with_pod()
    assert evict(server, virtual, told, dry_run=True).leaving is Leaving.GOES
    assert "p" in told.objects["pods"]
    told.budget_allows = False
    assert evict(server, virtual, told, dry_run=True).leaving is Leaving.BUDGET


def test_a_pod_is_made_once_and_another_of_its_name_is_told_apart(server, virtual):
    told = with_pod()

    async def story() -> list[Any]:
        async with server(told) as api:
            mover = PodMover(api)
            made = [await mover.create(make_pod("q")), await mover.create(make_pod("q"))]
            told._script = lambda _method, _path: 403
            with pytest.raises(ClusterError):
                await mover.create(make_pod("r"))
            return made

    first, second = virtual(story())
    assert (first["metadata"]["name"], second) == ("q", None)


def test_a_pod_that_has_changed_since_it_was_read_is_not_removed(server, virtual):
    told = with_pod()

    async def story() -> None:
        async with server(told) as api:
            mover = PodMover(api)
            found = await mover.find("default", "p")
            told.put("pods", make_pod("p", node="b"))
            with pytest.raises(ClusterError):
                await mover.remove(found)
            await mover.remove(await mover.find("default", "p"))

    virtual(story())
    assert told.objects["pods"] == {}
