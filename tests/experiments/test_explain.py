"""Why a pod of a stored run stands where it stands, and what happened to it on the way."""

import pytest
from tests.plugins.packages import distribution

from foresail.experiments.explain import explain_stored
from foresail.experiments.request import RunRequest
from foresail.experiments.run import run
from foresail.experiments.store import store_run
from foresail.results.folder import read_run

MOVER = """
    from foresail.core.control import Move

    class Once:
        '''Move the first pod to another node, once.'''
        every_s = 10.0
        def __init__(self, *, node: str = ""):
            self.node = node
        def act(self, view):
            first = next(iter(view.running.values()), None)
            if view.now_s != 20.0 or first is None:
                return []
            return [Move(first.pod, "[bold]n0 is crowded", self.node)]
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,1000,8192,0,\nn1,2000,8192,0,\n"
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time
a,800,1024,0,0,0,60
b,200,1024,0,0,0,60
"""


@pytest.fixture
def stored(packages):
    """A run with these controllers, as it is read back from its folder."""
    distribution(packages, "once", {"once": "once:Once"}, MOVER, group="foresail.controllers")
    (packages / "nodes.csv").write_text(NODES, encoding="utf-8")
    (packages / "pods.csv").write_text(PODS, encoding="utf-8")

    def make(*controllers, **more):
        files = {name: str(packages / f"{name}.csv") for name in ("nodes", "pods")}
        request = RunRequest(**files, policy="best-fit", controllers=controllers, **{"protocol": "clock", **more})
        store_run(packages / "run", request, run(request), html=False, overwrite=True)
        return read_run(packages / "run")

    return make


def story(explained):
    return [(one["time_s"], one["what"], one["node"], one["detail"], one["by"]) for one in explained.story]


def test_a_moved_pod_is_explained_by_its_last_decision_and_by_what_moved_it(stored):
    explained = explain_stored(stored("once:node=n1"), "a")
    assert (explained.recorded_node, explained.decision.outcome.node) == ("n1", "n1")
    assert story(explained) == [
        (0.0, "arrive", "", "", ""),
        (0.0, "start", "n0", "", ""),
        (20.0, "start", "n1", "", ""),
        (20.0, "move", "n1", "from n0: [bold]n0 is crowded", "once:node=n1"),
        (60.0, "end", "n1", "", ""),
    ]


def test_why_a_pod_was_not_moved_is_told_too(stored):
    explained = explain_stored(stored("once"), "a")  # the policy is asked where to, and would not move it
    assert (explained.recorded_node, explained.decision.outcome.node, explained.attempts) == ("n0", "n0", 2)
    assert story(explained)[2] == (20.0, "decline", "", "move declined: it stands on n0 already", "once")


def test_one_that_stayed_has_a_story_of_its_own(stored):
    explained = explain_stored(stored("once"), "b")
    assert explained.recorded_node == "n0"
    assert [one["what"] for one in explained.story] == ["arrive", "start", "end"]


def test_without_controllers_there_is_no_journal_to_tell_from(stored):
    assert explain_stored(stored(), "a").story == []
