"""Lessons on a cluster: taught when there is something new, and only then."""

import asyncio

import pytest
from tests.live.cluster import make_cache, make_node, make_pod

from foresail.core.profile import Profile, UsedScore
from foresail.core.spec import PodSpec, Workload
from foresail.errors import PolicyError
from foresail.live.scheduler.learning import Lessons, warm_up, workload_of
from foresail.policies.plain.devices import LeastSufficient


class Pupil:
    """A score that notes how many pods it was told to expect."""

    row_wise = True

    def __init__(self, fails=""):
        self.log = []
        self.fails = fails

    def learn(self, workload, nodes):
        if self.fails:
            raise ValueError(self.fails)
        self.log.append(len(workload.names))

    def score(self, pod, nodes):
        return nodes.free[:, 0]


class Unteachable:
    row_wise = True

    def score(self, pod, nodes):
        return nodes.free[:, 0]


def profile_of(plugin):
    return Profile("test", filters=[], scores=[UsedScore("pupil", plugin)], devices=LeastSufficient())


def cluster(count=0):
    cache, _ = make_cache()
    cache.handler("Node").replace([make_node("a", cpu="64")])
    come(cache, 0, count)
    return cache


def come(cache, first, count):
    for number in range(first, first + count):
        cache.handler("Pod").apply("ADDED", make_pod(f"p{number}"))


def test_the_pods_of_the_cluster_are_the_lesson_placed_or_not():
    cache = cluster(2)
    cache.handler("Pod").apply("ADDED", make_pod("on", cpu="2", node="a"))
    workload = workload_of(cache)
    assert workload.names == ["default/p0", "default/p1", "default/on"]
    assert [workload.specs[at].cpu_milli for at in workload.spec_of] == [1000, 1000, 2000]
    assert len(workload.specs) == 2


def test_it_is_taught_again_when_enough_pods_have_come():
    cache, pupil = cluster(200), Pupil()
    profile, lessons = profile_of(pupil), Lessons(cache)
    assert lessons.teach(profile)
    assert not lessons.teach(profile)
    come(cache, 200, 19)  # fewer than a tenth of what is there
    assert not lessons.teach(profile)
    come(cache, 219, 4)
    assert lessons.teach(profile)
    assert not lessons.teach(profile)
    assert pupil.log == [200, 223]


def test_a_few_pods_of_a_small_cluster_are_not_enough():
    cache, pupil = cluster(3), Pupil()
    profile, lessons = profile_of(pupil), Lessons(cache)
    lessons.teach(profile)
    come(cache, 3, 9)
    assert not lessons.teach(profile)
    come(cache, 12, 1)
    assert lessons.teach(profile)
    # Changes of known pods are nothing new.
    for number in range(13):
        cache.handler("Pod").apply("MODIFIED", make_pod(f"p{number}", labels={"app": "web"}))
    assert not lessons.teach(profile)


def gpu_node(name, model):
    return make_node(name, gpus=2, labels={"nvidia.com/gpu.product": model})


def test_it_is_taught_again_when_gpu_models_change_and_for_another_profile():
    cache, pupil = cluster(1), Pupil()
    profile, lessons = profile_of(pupil), Lessons(cache)
    lessons.teach(profile)
    cache.handler("Node").apply("ADDED", gpu_node("g", "A100"))
    assert lessons.teach(profile)
    cache.handler("Node").apply("ADDED", gpu_node("h", "A100"))
    assert not lessons.teach(profile)
    assert lessons.teach(profile_of(pupil))
    assert pupil.log == [1, 1, 1]


def test_a_given_workload_is_the_only_lesson():
    cache, pupil = cluster(1), Pupil()
    given = Workload(["x", "y"], [PodSpec(1000, 1)], [0, 0])
    profile, lessons = profile_of(pupil), Lessons(cache, given)
    assert lessons.teach(profile)
    come(cache, 1, 500)
    assert not lessons.teach(profile)
    cache.handler("Node").apply("ADDED", gpu_node("g", "A100"))
    assert lessons.teach(profile)
    assert pupil.log == [2, 2]


def test_a_profile_that_does_not_learn_is_left_alone():
    assert not Lessons(cluster(50)).teach(profile_of(Unteachable()))


def test_a_policy_that_cannot_learn_is_named():
    with pytest.raises(PolicyError, match=r"a policy of test cannot learn .*: ValueError: too few pods"):
        Lessons(cluster()).teach(profile_of(Pupil("too few pods")))


def test_a_lesson_that_fails_later_ends_nothing(virtual):
    async def live():
        cache, pupil = cluster(1), Pupil()
        profile, lessons = profile_of(pupil), Lessons(cache)
        lessons.teach(profile)
        task = asyncio.create_task(lessons.repeat(lambda: profile))
        pupil.fails = "full"
        come(cache, 1, 20)
        await asyncio.sleep(31)
        pupil.fails = ""
        come(cache, 21, 20)
        await asyncio.sleep(31)
        assert not task.done()
        task.cancel()
        return pupil.log

    assert virtual(live()) == [1, 41]


def test_warming_up_books_nothing_and_survives_a_policy_that_fails():
    class Broken(Unteachable):
        def score(self, pod, nodes):
            raise RuntimeError("not yet")

    cache = cluster()
    before = cache.table.free.copy()
    for plugin in (Unteachable(), Broken()):
        warm_up(cache.table, profile_of(plugin))
    assert (cache.table.free == before).all()
    assert not cache.table.placed
