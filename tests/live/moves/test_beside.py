"""Moves beside another scheduler, which knows nothing of room that is kept: what is done there, and what is refused."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from tests.live.cluster import make_pod
from tests.live.moves.stage import Stage, make_job, owned_by

from foresail.core.kubernetes import KubernetesPod, NodeTerm, Requirement
from foresail.core.spec import PodSpec
from foresail.live.moves.successors import freed, only_on, to_be_made

OVER = ""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class OtherScheduler:
    """Binds what waits: where it has to go, and what may go anywhere to the first node that is not full."""

    def __init__(self, stage: Stage, *nodes: str) -> None:
        self.full: set[str] = set()
        self._stage = stage
        self._nodes = nodes

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            for pod in list(self._stage.told.objects["pods"].values()):
                if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                    wanted = _required(pod) or [one for one in self._nodes if one not in self.full]
                    if wanted and wanted[0] not in self.full:
                        self._stage.put("pods", {**pod, "spec": {**pod["spec"], "nodeName": wanted[0]}})


def _required(pod: dict[str, Any]) -> list[str]:
    about = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (about.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    named = [set(one["values"]) for term in terms for one in term.get("matchFields") or ()]
    return sorted(set.intersection(*named)) if named else []


def beside(tmp_path, moves: dict[str, str], **settings: Any) -> tuple[Stage, OtherScheduler]:
    stage = Stage(tmp_path, moves, **settings)
    stage.nodes("a", "b", "c")
    other = OtherScheduler(stage, "c")
    stage.owners.append(other)  # type: ignore[arg-type] - it is run like them
    return stage, other


def ends(stage: Stage) -> int:
    return len([phase for _, phase in stage.phases if phase == OVER])


def test_a_pod_without_an_owner_is_made_anew_where_the_other_scheduler_has_to_place_it(server, virtual, tmp_path):
    stage, _ = beside(tmp_path, {"solo": "b"})
    stage.put("pods", stage.pod("solo", job="solo", restartPolicy="Never"))

    async def story() -> None:
        await stage.until(lambda: ends(stage) == 1)
        # And once more: what sent it there the first time does not keep it.
        (name,) = stage.pods
        stage.controller.moves[name] = "a"
        await stage.until(lambda: ends(stage) == 2)

    stage.tell(server, virtual, story, alone=True)
    first, second, third = stage.stays("solo")
    assert [first.node, second.node, third.node] == ["a", "b", "a"]
    assert second.begun_s >= first.ended_s
    assert third.first_step == second.last_step
    (last,) = stage.told.objects["pods"].values()
    assert last["metadata"]["annotations"]["foresail.dev/sent-to"] == "a"
    assert _required(last) == ["a"]


def test_a_node_that_others_have_taken_meanwhile_does_not_keep_the_job_waiting_for_ever(server, virtual, tmp_path):
    stage, other = beside(tmp_path, {"solo": "b"}, successor_s=10.0)
    stage.put("pods", stage.pod("solo", job="solo", restartPolicy="Never", terminationGracePeriodSeconds=1))
    other.full.add("b")
    stage.tell(server, virtual, lambda: stage.until(lambda: ends(stage) == 1), alone=True)
    (last,) = stage.told.objects["pods"].values()
    assert last["spec"]["nodeName"] == "c"
    assert "foresail.dev/sent-to" not in last["metadata"]["annotations"]
    assert stage.stays("solo")[-1].first_step == stage.stays("solo")[0].last_step


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet", "StatefulSet"])
def test_a_pod_whose_owner_makes_its_successor_is_refused_with_the_reason(server, virtual, tmp_path, kind):
    stage, _ = beside(tmp_path, {"train-x": "b"})
    owner = make_job("train") if kind == "Job" else {"metadata": {"name": "train", "uid": "uid-train"}, "spec": {}}
    stage.put("jobs" if kind == "Job" else f"{kind.lower()}s", owner)
    stage.put("pods", owned_by(owner, kind, stage.pod("train-x", job="train")))
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.noted), alone=True)
    assert stage.noted[0][3] == (
        f"move declined: its successor is made by its {kind} and placed by foresail, for which no node can be held "
        "from here; give the controller to foresail run"
    )
    assert stage.pods == {"train-x": "a"}


def test_a_gang_is_refused_with_the_reason(server, virtual, tmp_path):
    stage, _ = beside(tmp_path, {"x": "b"})
    for name in ("x", "y"):
        about = {"labels": {"foresail.dev/gang": "both"}, "annotations": {"foresail.dev/gang-min": "2"}}
        stage.put("pods", stage.pod(name, job=name, **about))
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.noted), alone=True)
    assert stage.noted[0][3].startswith("move declined: it is one of a gang, for which no room can be held from here")


# --- sent, and freed again -------------------------------------------------------------------------------------------

ZONE = {"key": "zone", "operator": "In", "values": ["x"]}
OWN_NAME = {"key": "metadata.name", "operator": "NotIn", "values": ["z"]}


@pytest.mark.parametrize(
    "affinity",
    [
        None,
        {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}}},
        {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}, {"matchFields": [OWN_NAME]}]}
            }
        },
        {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}},
    ],
)
def test_what_sends_a_pod_to_a_node_is_taken_out_again_and_nothing_else(affinity):
    pod = make_pod("solo", node="a", **({} if affinity is None else {"affinity": affinity}))
    made = to_be_made(pod)
    sent = only_on(made, "b")
    assert sent["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    again = to_be_made({**copy.deepcopy(sent), "metadata": {**sent["metadata"], "name": "solo", "uid": "u"}})
    assert again == made


def test_a_tenants_own_choice_of_a_node_is_not_taken_for_ours():
    one = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [OWN_NAME]}]}}}
    pod = make_pod("solo", node="a", affinity=one, annotations={"foresail.dev/sent-to": "z"})
    assert to_be_made(pod)["spec"]["affinity"] == one


def test_a_running_pod_is_looked_at_as_one_that_was_not_sent():
    sent = Requirement("metadata.name", "In", ("b",))
    zone = Requirement("zone", "In", ("x",))
    note = {"foresail.dev/sent-to": "b"}

    def required(*terms: NodeTerm) -> PodSpec:
        return PodSpec(cpu_milli=1, kubernetes=KubernetesPod(required_nodes=terms or None))

    assert freed(required(NodeTerm(names=(sent,))), note) == required()
    assert freed(required(NodeTerm((zone,), (sent,))), note) == required(NodeTerm((zone,)))
    for spec in (required(), required(NodeTerm((zone,)))):
        assert freed(spec, note) is spec
    pinned = required(NodeTerm(names=(sent,)))
    assert freed(pinned, {}) is pinned
