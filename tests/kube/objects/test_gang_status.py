"""What the objects of gangs are to say of them, in the words of each form."""

from __future__ import annotations

import pytest

from foresail.kube.objects.gangs.status import GangFacts, GangStatus, stated_status, status_patch, wanted_status

KUBERNETES, SIGS = "PodGroup.scheduling.k8s.io", "PodGroup.scheduling.x-k8s.io"
VOLCANO, WORKLOAD = "PodGroup.scheduling.volcano.sh", "Workload.scheduling.k8s.io"
NEW = GangStatus()
TRUE = GangStatus("", "True", "Scheduled", "")


def facts(**more: int | str) -> GangFacts:
    counts = {"members": 3, "placed": 0, "running": 0, "succeeded": 0, "failed": 0, "why": "", **more}
    return GangFacts(least=3, **counts)


def no(why: str) -> GangStatus:
    return GangStatus("", "False", "Unschedulable", why)


@pytest.mark.parametrize(
    ("form", "now", "stated", "wanted"),
    [
        (KUBERNETES, facts(), NEW, NEW),
        (KUBERNETES, facts(why="no room"), NEW, no("no room")),
        (KUBERNETES, facts(why="less room"), no("no room"), no("less room")),
        (KUBERNETES, facts(placed=2, why="no room"), NEW, no("no room")),
        (KUBERNETES, facts(placed=3), no("no room"), TRUE),
        (KUBERNETES, facts(why="evicted"), TRUE, TRUE),
        (KUBERNETES, facts(why="x" * 5000), NEW, no("x" * 1024)),
        (SIGS, facts(), NEW, GangStatus("Pending")),
        (SIGS, facts(placed=3), GangStatus("Pending"), GangStatus("Scheduling")),
        (SIGS, facts(placed=3, running=2), GangStatus("Pending"), GangStatus("Scheduling")),
        (SIGS, facts(placed=3, running=3), GangStatus("Scheduling"), GangStatus("Running")),
        (SIGS, facts(placed=3, running=2), GangStatus("Running"), GangStatus("Running")),
        (SIGS, facts(placed=2, running=2), GangStatus("Running"), GangStatus("Running")),
        (SIGS, facts(placed=3, running=2, succeeded=1), GangStatus("Scheduling"), GangStatus("Running")),
        (SIGS, facts(placed=3, succeeded=3), GangStatus("Running"), GangStatus("Finished")),
        (SIGS, facts(placed=2, running=2, failed=1), GangStatus("Running"), GangStatus("Failed")),
        (VOLCANO, facts(), NEW, GangStatus("Pending")),
        (VOLCANO, facts(), GangStatus("Inqueue"), GangStatus("Inqueue")),
        (VOLCANO, facts(placed=3, running=3), GangStatus("Inqueue"), GangStatus("Running")),
        (VOLCANO, facts(placed=3, running=2), GangStatus("Pending"), GangStatus("Pending")),
        (VOLCANO, facts(placed=3, succeeded=3), GangStatus("Running"), GangStatus("Completed")),
        (VOLCANO, facts(members=4, placed=4, running=1, succeeded=3), GangStatus("Running"), GangStatus("Running")),
        (WORKLOAD, facts(placed=3), NEW, NEW),
    ],
)
def test_what_it_should_say(form: str, now: GangFacts, stated: GangStatus, wanted: GangStatus):
    assert wanted_status(form, now, stated) == wanted


@pytest.mark.parametrize(
    ("version", "kind"), [("v1alpha2", "PodGroupScheduled"), ("v1beta1", "PodGroupInitiallyScheduled")]
)
def test_a_condition_is_written_and_read_by_the_name_of_its_version(version: str, kind: str):
    patch = status_patch(version, no("no room"), NEW, "now")
    said = {"type": kind, "status": "False", "reason": "Unschedulable", "message": "no room"}
    assert patch == {"status": {"conditions": [{**said, "lastTransitionTime": "now"}]}}
    assert stated_status(KUBERNETES, version, patch) == no("no room")
    # The time is when it came to be so, not when the words changed.
    assert status_patch(version, no("less"), no("no room"), "now") == {
        "status": {"conditions": [{**said, "message": "less"}]}
    }


def test_a_phase_is_written_and_read():
    patch = status_patch("v1alpha1", GangStatus("Running"), NEW, "now")
    assert patch == {"status": {"phase": "Running"}}
    assert stated_status(SIGS, "v1alpha1", patch) == GangStatus("Running")


@pytest.mark.parametrize(
    "status", [None, "odd", {"conditions": "odd", "phase": None}, {"conditions": [3, {"type": 1}]}]
)
def test_whatever_a_status_says_it_is_read(status: object):
    assert {stated_status(form, "v1alpha2", {"status": status}) for form in (KUBERNETES, SIGS)} == {NEW}
