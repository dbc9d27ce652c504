"""What a resize changes of a pod, whom it refuses, and what pods say of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.live.cluster import make_cache, make_pod

from foresail.live.actions.resizing import Cpu, Stage, patch, planned, word_of
from foresail.live.cache.pods import CachedPod


def read(value: dict[str, Any]) -> CachedPod:
    cache, _ = make_cache()
    cache.handler("Pod").apply("ADDED", value)
    return cache.pods[value["metadata"]["uid"]]


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
    plan = planned(pod, cpu_milli, limit_milli)
    if isinstance(plan, str):
        return plan
    made = patch(pod, plan.container, plan.to)
    assert made["metadata"] == {"uid": "uid-p", "resourceVersion": "7"}
    (one,) = made["spec"]["containers"]
    assert one["name"] == "main"
    return one["resources"]


def test_requests_and_limits_are_the_containers():
    assert patched(found(), 1500) == {"requests": {"cpu": "1500m"}}
    assert patched(found(), 1500, 3000) == {"requests": {"cpu": "1500m"}, "limits": {"cpu": "3000m"}}
    assert patched(found(), 1500, 0) == {"requests": {"cpu": "1500m"}}
    memory_alone = found(None)
    memory_alone["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"
    assert patched(memory_alone, 1500) == {"requests": {"cpu": "1500m"}}  # it requested no CPU so far


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


def test_a_pod_in_which_it_is_not_known_who_works_is_not_resized():
    several = found()
    several["spec"]["containers"].append(container("b", "1"))
    names = "the annotation kubectl.kubernetes.io/default-container names one"
    assert patched(several, 500) == f"2 of its containers request CPU; {names}"
    several["spec"]["containers"] = [{"name": "a"}, {"name": "b"}]
    assert patched(several, 500) == f"0 of its containers request CPU; {names}"
    whole = found(resources={"requests": {"cpu": "2"}})
    assert patched(whole, 500) == "its CPU is stated for the pod as a whole, which its containers cannot change"
    assert patched(found(resources={"requests": {"memory": "1Gi"}}), 500) == {"requests": {"cpu": "500m"}}
    assert patched(found(initContainers=[container("i", "lots")]), 500).startswith("its requests cannot be read: spec.")


@pytest.mark.parametrize("annotation", ["foresail.dev/progress-container", "kubectl.kubernetes.io/default-container"])
def test_of_several_containers_the_one_that_is_named_is_resized(annotation):
    several = found("1", annotations={annotation: "main"})
    several["spec"]["containers"].insert(0, container("log", "200m"))
    assert patched(several, 1700) == {"requests": {"cpu": "1500m"}}
    only_one_asks = found()
    only_one_asks["spec"]["containers"].insert(0, {"name": "log"})
    assert patched(only_one_asks, 1700) == {"requests": {"cpu": "1700m"}}


# --- rules of Kubernetes ---------------------------------------------------------------------------------------------


def with_limits(cpu: str, limit: str, *, memory: bool, **more: Any) -> dict[str, Any]:
    pod = found(cpu, **more)
    amounts = {"memory": "1Gi"} if memory else {}
    pod["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": cpu, **amounts},
        "limits": {"cpu": limit, **amounts},
    }
    return pod


def test_requests_and_limits_of_a_guaranteed_pod_change_together():
    pod = with_limits("1", "1000m", memory=True)
    both = {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}
    assert (patched(pod, 500), patched(pod, 500, 500)) == (both, both)
    said = "its QoS class would become Burstable and is Guaranteed, which no resize may change"
    assert patched(pod, 500, 800) == said


def test_a_burstable_pod_keeps_its_limit_never_requests_more_and_does_not_become_guaranteed():
    pod = with_limits("1", "2", memory=True)
    assert patched(pod, 1500) == {"requests": {"cpu": "1500m"}, "limits": {"cpu": "2000m"}}
    assert patched(pod, 2500) == "2500 milli-CPU are above its limit of 2000; give cpu_limit_milli as well"
    assert patched(pod, 2500, 3000) == {"requests": {"cpu": "2500m"}, "limits": {"cpu": "3000m"}}
    said = "its QoS class would become Guaranteed and is Burstable, which no resize may change"
    assert patched(pod, 2000) == said
    assert patched(pod, 1500, 0) == "it has a limit, which no resize can take away"
    without_memory = with_limits("1", "2", memory=False)
    assert patched(without_memory, 2000) == {"requests": {"cpu": "2000m"}, "limits": {"cpu": "2000m"}}


def test_limits_of_others_are_not_the_containers():
    pod = with_limits("1", "2", memory=False, initContainers=[container("log", "100m", restartPolicy="Always")])
    pod["spec"]["initContainers"][0]["resources"]["limits"] = {"cpu": "500m"}
    assert patched(pod, 1600, 3000) == {"requests": {"cpu": "1500m"}, "limits": {"cpu": "2500m"}}


def test_a_best_effort_pod_is_refused():
    said = "its QoS class is BestEffort, which a request for CPU would change, and no resize may"
    assert patched(found(None), 500) == said


def test_a_container_that_would_be_restarted_is_refused_unless_that_is_allowed():
    pod = found()
    pod["spec"]["containers"][0]["resizePolicy"] = [
        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        {"resourceName": "cpu", "restartPolicy": "RestartContainer"},
    ]
    said = "it would be restarted (resizePolicy: RestartContainer for cpu); --resize-restarts allows that"
    assert planned(pod, 500, None) == said
    plan = planned(pod, 500, None, may_restart=True)
    assert not isinstance(plan, str)
    assert plan.to == Cpu(500)
    pod["spec"]["containers"][0]["resizePolicy"].pop()
    assert patched(pod, 500) == {"requests": {"cpu": "500m"}}


# --- what pods say ---------------------------------------------------------------------------------------------------


def said(pod: dict[str, Any] | None, wanted: Cpu, *known: Cpu) -> tuple[Stage, str]:
    return tuple(word_of(pod, "main", wanted, known))


def test_what_a_kubelet_says_is_about_the_amount_that_is_asked_for_now():
    pod = found("2")
    pod["metadata"]["generation"] = 5
    state: dict[str, Any] = {
        "name": "main",
        "allocatedResources": {"cpu": "1"},
        "resources": {"requests": {"cpu": "1"}},
    }
    pod["status"] = {"containerStatuses": [{"name": "other"}, state]}
    assert said(pod, Cpu(2000)) == (Stage.ASKED, "")
    pending = {"type": "PodResizePending", "reason": "Infeasible", "message": "too much", "observedGeneration": 4}
    pod["status"]["conditions"] = [pending]
    assert said(pod, Cpu(2000)) == (Stage.ASKED, "")  # that was said of what it asked for before
    pending["observedGeneration"] = 5
    assert said(pod, Cpu(2000)) == (Stage.INFEASIBLE, "too much")
    pending["reason"] = "Deferred"
    assert said(pod, Cpu(2000)) == (Stage.DEFERRED, "too much")
    pod["status"]["conditions"] = [{"type": "PodResizeInProgress", "message": "soon", "observedGeneration": 5}]
    assert said(pod, Cpu(2000)) == (Stage.ASKED, "")
    state["allocatedResources"] = {"cpu": "2000m"}
    assert said(pod, Cpu(2000)) == (Stage.ALLOCATED, "soon")
    pod["status"]["conditions"] = []
    assert said(pod, Cpu(2000)) == (Stage.ALLOCATED, "")
    state["resources"] = {"requests": {"cpu": "2"}}
    assert said(pod, Cpu(2000)) == (Stage.DONE, "")


def test_who_asks_for_another_amount_has_not_been_asked_or_was_changed_by_somebody_else():
    assert said(found("1"), Cpu(2000), Cpu(1000), Cpu(3000)) == (Stage.UNSENT, "")
    assert said(found("700m"), Cpu(2000), Cpu(1000)) == (Stage.CHANGED, "")
    assert said(with_limits("2", "3", memory=False), Cpu(2000), Cpu(2000)) == (Stage.CHANGED, "")
    assert said(None, Cpu(2000)) == (Stage.GONE, "")


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
