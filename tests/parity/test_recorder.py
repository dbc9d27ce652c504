"""The extender that kube-scheduler asks, and the lines of its log."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from foresail.errors import OptionError
from foresail.lab import Lab
from foresail.lab.errors import LabError
from foresail.parity.lab import record
from foresail.parity.recorder import CANARY, HELD_BACK, LogLine, RecordingExtender, SchedulerLog, parse_line

NOT_FOUND = r'err="0/2 nodes are available: persistentvolumeclaim \"c\" not found."'
HEAD = "1116 03:56:20.123456   12345"


def test_a_pod_is_refused_once_and_then_let_through():
    request = json.dumps({"Pod": {"metadata": {"uid": "u"}}, "NodeNames": ["b", "a"], "Nodes": None})
    with RecordingExtender() as extender:
        connection = http.client.HTTPConnection(urlsplit(extender.url).netloc, timeout=10)
        answers = []
        for _ in range(3):
            connection.request("POST", "/filter", body=request)
            answers.append(json.load(connection.getresponse()))
        connection.close()
    through = {"NodeNames": ["b", "a"], "FailedNodes": {}}
    assert answers == [{"NodeNames": [], "FailedNodes": {"a": HELD_BACK, "b": HELD_BACK}}, through, through]
    assert extender.asked == {"u": [["a", "b"]] * 3}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f'I{HEAD} schedule_one.go:982] "Plugin scored node for pod" pod="ns-a/p1" plugin="ImageLocality" score=7',
            LogLine("I", "Plugin scored node for pod", {"pod": "ns-a/p1", "plugin": "ImageLocality", "score": "7"}),
        ),
        (
            f'I{HEAD} schedule_one.go:1239] "Unable to schedule pod; no fit; waiting" pod="d/p" {NOT_FOUND}',
            LogLine(
                "I",
                "Unable to schedule pod; no fit; waiting",
                {"pod": "d/p", "err": '0/2 nodes are available: persistentvolumeclaim "c" not found.'},
            ),
        ),
        ("Flag --x has been deprecated", None),
    ],
)
def test_lines_are_read_as_klog_writes_them(text, line):
    assert parse_line(text) == line


def test_a_growing_log_gives_whole_lines_once(tmp_path):
    path = tmp_path / "kube-scheduler.log"
    bound = f'I{HEAD} schedule_one.go:481] "Successfully bound pod to node" pod="d/p" node="n1"\n'
    path.write_text(f"{bound}{bound[:30]}", encoding="utf-8")
    with SchedulerLog(path) as log, path.open("a", encoding="utf-8") as file:
        assert [line.fields["node"] for line in log.lines()] == ["n1"]
        file.write(bound[30:] + f'I{HEAD} other.go:1] "Nothing of interest" pod="d/p"\n')
        file.write(f'I{HEAD} eventhandlers.go:64] "Add event for node" node="n1"\n')
        told = '"Event is not making pod schedulable"'
        file.write(f'I{HEAD} scheduling_queue.go:1325] {told} pod="{CANARY}" event="storage.k8s.io/CSINodeAdd"\n')
        file.write(f'I{HEAD} scheduling_queue.go:1325] {told} pod="d/other" event="PersistentVolumeAdd"\n')
        file.flush()
        assert [line.message for line in log.lines()] == ["Successfully bound pod to node", "Add event for node"]
        assert list(log.lines()) == []
        assert dict(log.seen) == {("Add event for node",): 1, ("event", "CSINodeAdd"): 1}
        with pytest.raises(LabError, match="kube-scheduler did not notice the end of time within 0 s"):
            log.wait("the end of time", lambda: False, within_s=0)


@pytest.mark.parametrize(("pods", "clusters"), [(3, 4), (3, 0), (20_000, 10_001)])
def test_every_cluster_gets_a_pod(tmp_path, pods, clusters):
    with pytest.raises(OptionError, match=f"--clusters is {clusters}; write 1 to "):
        record(tmp_path / "d.jsonl", pods=pods, clusters=clusters, seed=1)


def test_an_earlier_recording_stays_until_a_lab_is_up(tmp_path):
    path, file = tmp_path / "decisions.jsonl", tmp_path / "no-folder"
    path.write_text("earlier\n")
    file.touch()
    with pytest.raises(LabError):
        record(path, pods=1, clusters=1, seed=1, lab=Lab("mine", base=file))
    assert path.read_text() == "earlier\n"
