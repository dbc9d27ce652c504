"""Resizes carried to an API server: what is asked for, what is not, and whose word is waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.live.api_server import ApiServer
from tests.live.cluster import make_cache, make_pod

from foresail.kube.api.retries import ATTEMPTS
from foresail.live.actions.resizing import Resizer, resized
from foresail.live.cache.pods import CachedPod

INFEASIBLE = {"type": "PodResizePending", "reason": "Infeasible", "message": "Node didn't have enough capacity: cpu"}


def read(value: dict[str, Any]) -> CachedPod:
    cache, _ = make_cache()
    cache.handler("Pod").apply("ADDED", value)
    return cache.pods[value["metadata"]["uid"]]


class Kubelet(ApiServer):
    """Sets aside what a pod is resized to, or says why not."""

    def __init__(self, script: Any = lambda _method, _path: 0, *, says: str = "allocated") -> None:
        super().__init__(script)
        self.says = says
        self.looks = 0

    async def __call__(self, request: Any) -> Any:
        if request.method == "GET" and self.asked("PATCH", "/resize"):
            self._look()
        return await super().__call__(request)

    def _look(self) -> None:
        self.looks += 1
        pod = self.objects["pods"].get("p")
        if pod is None or self.says == "nothing":
            return
        if self.says == "replaced":
            self.put("pods", make_pod("p", "1", "a", uid="another"))
        elif self.says == "infeasible":
            self.put("pods", {**pod, "status": {"conditions": [INFEASIBLE]}})
        elif self.says == "deferred":
            self.put("pods", {**pod, "status": {"conditions": [{**INFEASIBLE, "reason": "Deferred"}]}})
        elif self.looks > 2:
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            state = {"name": "main", "allocatedResources": requests}
            self.put("pods", {**pod, "status": {"containerStatuses": [{"name": "other"}, state]}})


def resize(virtual: Any, server: Any, told: ApiServer, there: dict[str, Any] | None = None) -> tuple[str, float]:
    """What is said of a resize to 2 CPUs, and how long that took."""

    async def story() -> tuple[str, float]:
        pod = make_pod("p", "1", "a")
        told.put("pods", pod if there is None else there)
        async with server(told) as api:
            begun_s = asyncio.get_running_loop().time()
            said = await Resizer(api).resize(read(pod), 2000, None)
            return said, asyncio.get_running_loop().time() - begun_s

    return virtual(story())


@pytest.mark.parametrize(
    "there",
    [make_pod("p", "1", "a", uid="another"), make_pod("p", "1", "a", deleted=True), make_pod("other", "1", "a")],
    ids=["another has its name", "is being deleted", "is not there"],
)
def test_a_pod_that_is_gone_is_not_resized_nor_one_that_took_its_name(server, virtual, there):
    told = Kubelet()
    assert resize(virtual, server, told, there)[0] == "the pod is gone"
    assert told.log == []


@pytest.mark.parametrize("status", [409, 429, 503])
def test_what_may_pass_is_asked_again_with_the_pod_as_it_is_then(server, virtual, status):
    refusals = [status, status]
    told = Kubelet(lambda method, _path: refusals.pop() if method == "PATCH" and refusals else 0)
    assert resize(virtual, server, told)[0] == ""
    assert len(told.asked("PATCH", "pods/p/resize")) == 3
    assert told.bodies[-1]["metadata"] == {"uid": "uid-p", "resourceVersion": "1"}
    assert told.objects["pods"]["p"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2000m"


@pytest.mark.parametrize(("status", "attempts"), [(403, 1), (422, 1), (500, ATTEMPTS)])
def test_what_does_not_pass_is_told_in_the_servers_words(server, virtual, status, attempts):
    told = Kubelet(lambda method, _path: status if method == "PATCH" else 0)
    said, _ = resize(virtual, server, told)
    assert said.startswith(f"PATCH /api/v1/namespaces/default/pods/p/resize: {status}")
    assert "as the script says" in said
    assert len(told.asked("PATCH")) == attempts


@pytest.mark.parametrize(
    ("says", "said", "at_least_s", "at_most_s"),
    [
        ("allocated", "", 2, 3),
        ("infeasible", "infeasible: Node didn't have enough capacity: cpu", 0, 1),
        ("deferred", "", 29, 31),  # it may yet come
        ("nothing", "", 29, 31),
        ("replaced", "", 0, 1),
    ],
)
def test_the_kubelets_word_is_waited_for_but_not_for_ever(server, virtual, says, said, at_least_s, at_most_s):
    heard, took_s = resize(virtual, server, Kubelet(says=says))
    assert heard == said
    assert at_least_s <= took_s <= at_most_s


def test_a_server_that_is_not_there_any_more_has_taken_it_all_the_same(server, virtual):
    told: Kubelet = Kubelet(lambda method, _path: 403 if method == "GET" and told.asked("PATCH") else 0)
    assert resize(virtual, server, told) == ("", pytest.approx(0, abs=1))


# --- the patch -------------------------------------------------------------------------------------------------------


def found(cpu: str | None = "1", **spec: Any) -> dict[str, Any]:
    pod = make_pod("p", "1", "a", **spec)
    pod["metadata"]["resourceVersion"] = "7"
    pod["spec"]["containers"][0]["resources"] = {"requests": {} if cpu is None else {"cpu": cpu}}
    return pod


def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


def patched(pod: dict[str, Any], cpu_milli: int, limit_milli: int | None = None) -> Any:
    """The resources that the container is to have, or why there are none."""
    patch = resized(pod, cpu_milli, limit_milli)
    if isinstance(patch, str):
        return patch
    assert patch["metadata"] == {"uid": "uid-p", "resourceVersion": "7"}
    (one,) = patch["spec"]["containers"]
    assert one["name"] == "main"
    return one["resources"]


def test_requests_and_limits_are_the_containers():
    assert patched(found(), 1500) == {"requests": {"cpu": "1500m"}}
    assert patched(found(), 1500, 3000) == {"requests": {"cpu": "1500m"}, "limits": {"cpu": "3000m"}}
    assert patched(found(), 1500, 0) == {"requests": {"cpu": "1500m"}, "limits": {"cpu": None}}
    assert patched(found(None), 1500) == {"requests": {"cpu": "1500m"}}  # it requested none so far


def test_what_is_not_the_containers_stays_as_it_is():
    beside = found(overhead={"cpu": "250m"}, initContainers=[container("log", "300m", restartPolicy="Always")])
    assert patched(beside, 2000) == {"requests": {"cpu": "1450m"}}
    said = "550 milli-CPU of it are not its container's, which leaves none of 550"
    assert (patched(beside, 550), patched(beside, 551)) == (said, {"requests": {"cpu": "1m"}})


def test_a_pod_counts_for_no_less_than_its_init_containers_needed():
    pod = found(initContainers=[container("load", "3")])
    assert patched(pod, 2999) == "its init containers need 3000 milli-CPU, and it counts for no less"
    assert patched(pod, 3500) == {"requests": {"cpu": "3500m"}}


def test_while_an_earlier_resize_is_under_way_it_is_what_is_asked_for_that_changes():
    # The kubelet still grants 4 CPUs; that does not make three of them somebody else's.
    pod = found("1")
    state = {"name": "main", "allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "4"}}}
    pod["status"]["containerStatuses"] = [state]
    assert read(pod).spec.cpu_milli == 4000
    assert patched(pod, 2000) == {"requests": {"cpu": "2000m"}}


def test_a_pod_whose_cpu_is_not_one_containers_is_not_resized():
    several = found()
    several["spec"]["containers"].append(container("b", "1"))
    assert patched(several, 500) == "2 of its containers request CPU; only a pod in which one does can be resized"
    several["spec"]["containers"] = [{"name": "a"}, {"name": "b"}]
    assert patched(several, 500) == "0 of its containers request CPU; only a pod in which one does can be resized"
    whole = found(resources={"requests": {"cpu": "2"}})
    assert patched(whole, 500) == "its CPU is stated for the pod as a whole, which its containers cannot change"
    assert patched(found(resources={"requests": {"memory": "1Gi"}}), 500) == {"requests": {"cpu": "500m"}}
    assert patched(found(initContainers=[container("i", "lots")]), 500).startswith("its requests cannot be read: spec.")


MILLI = st.integers(1, 4000)


@given(
    MILLI,
    MILLI,
    st.lists(st.tuples(MILLI, st.booleans()), max_size=3),
    st.integers(0, 500),
)
def test_after_the_patch_the_pod_requests_in_all_what_was_asked_for(asked, has, starters, overhead):
    inits = [
        container(f"i{at}", f"{milli}m", **({"restartPolicy": "Always"} if sidecar else {}))
        for at, (milli, sidecar) in enumerate(starters)
    ]
    resources = patched(found(f"{has}m", initContainers=inits, overhead={"cpu": f"{overhead}m"}), asked)

    def in_all(milli: int) -> int:
        """By Kubernetes' rule: what runs together, or an init container with the sidecars before it, and overhead."""
        beside = peak = 0
        for one, sidecar in starters:
            peak = max(peak, beside + one)
            beside += one if sidecar else 0
        return max(peak, beside + milli) + overhead

    if isinstance(resources, str):
        assert in_all(1) > asked  # not even the smallest request would do
    else:
        assert in_all(int(resources["requests"]["cpu"].removesuffix("m"))) == asked
