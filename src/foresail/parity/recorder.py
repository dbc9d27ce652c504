"""What a running kube-scheduler tells about its decisions: an extender that it asks, and its log."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from foresail.lab.errors import LabError

HELD_BACK = "foresail holds the node back to hear the other reasons"
"""Reason on every feasible node at a pod's first attempt. Without a comma: they stand between reasons."""
CANARY = "default/foresail-canary"
"""A pod that never fits: the log tells of every object the scheduler learns of that it does not help this pod."""
VERBOSITY = "schedule_one=10,eventhandlers=4,scheduling_queue=6,binder=5"
"""klog's --vmodule: scores, failures and binds; nodes and pods; all other objects; volumes chosen."""
POLL_S = 0.001
_HEADER = re.compile(r'(?P<level>[IWEF])\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] "(?P<message>(?:[^"\\]|\\.)*)"')
_FIELD = re.compile(r' (?P<key>[\w ]+?)=(?P<value>"(?:[^"\\]|\\.)*"|\S+)')


class RecordingExtender:
    """An extender that refuses every node of a pod at its first attempt and none from then on.

    kube-scheduler counts the reasons of unsuitable nodes only for a pod that gets none. The refused pod is tried again
    at once: the scheduler's own note of the failure is a change of the pod, and a change of any kind may have helped.
    """

    def __init__(self) -> None:
        self.asked: dict[str, list[list[str]]] = {}
        """Pod's uid to the feasible nodes of each attempt, sorted."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="recording-extender", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a filter request."""
        attempts = self.asked.setdefault(request["Pod"]["metadata"]["uid"], [])
        attempts.append(sorted(request["NodeNames"]))
        if len(attempts) == 1:
            return {"NodeNames": [], "FailedNodes": dict.fromkeys(attempts[0], HELD_BACK)}
        return {"NodeNames": request["NodeNames"], "FailedNodes": {}}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class ExtenderRequests(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(answer(request)).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                self.wfile.write(head.encode() + body)

        return ExtenderRequests


def scheduler_configuration(kubeconfig: Path, extender_url: str) -> dict[str, Any]:
    """The default profile, seen by all nodes and asked about by our extender."""
    plugins = {
        # Preemption would delete pods; the reasons are complete without it.
        "postFilter": {"disabled": [{"name": "*"}]},
        # Volumes are bound by us: the plug-in would wait a second for each pod.
        "preBind": {"disabled": [{"name": "VolumeBinding"}]},
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 10000},
        "leaderElection": {"leaderElect": False},
        "parallelism": 2,
        "percentageOfNodesToScore": 100,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
        "extenders": [
            {"urlPrefix": extender_url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "60s"}
        ],
    }


@dataclass(frozen=True, slots=True)
class LogLine:
    """One structured line of kube-scheduler's log."""

    level: str
    message: str
    fields: dict[str, str]


def parse_line(text: str) -> LogLine | None:
    """A line as klog writes it; None if it is of another kind."""
    head = _HEADER.match(text)
    if head is None:
        return None
    fields = {}
    for found in _FIELD.finditer(text, head.end()):
        value = found["value"]
        fields[found["key"]] = json.loads(value) if value.startswith('"') else value
    return LogLine(head["level"], head["message"], fields)


class SchedulerLog:
    """kube-scheduler's log, read as it grows."""

    WANTED = (
        '] "Plugin scored node for pod"',
        '] "Calculated node\'s final score for pod"',
        '] "Unable to schedule pod; no fit; waiting"',
        '] "Unable to schedule pod; no nodes are registered',
        '] "Successfully bound pod to node"',
        '] "Add event for ',
        '] "Update event for scheduled pod"',
        '] "Delete event for ',
        '] "Event is not making pod schedulable"',
        '] "AssumePodVolumes: GetBindVolumeToClaim"',
        '] "Error scheduling pod; retrying"',
    )

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._part = b""
        self.seen: Counter[tuple[str, ...]] = Counter()
        """Events so far: ("Add event for node",), or ("event", KIND) where the canary saw it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def lines(self) -> Iterator[LogLine]:
        """What is new since the last call."""
        data = self._part + self._file.read()
        *whole, self._part = data.split(b"\n")
        for raw in whole:
            text = raw.decode("utf-8", errors="replace")
            if not any(wanted in text for wanted in self.WANTED):
                continue
            line = parse_line(text)
            if line is None:
                continue
            if line.message == "Event is not making pod schedulable":
                if line.fields.get("pod") == CANARY:
                    # Such as PersistentVolumeAdd or storage.k8s.io/CSINodeAdd.
                    self.seen["event", line.fields["event"].rpartition("/")[2]] += 1
                continue
            if " event for " in line.message:
                self.seen[line.message,] += 1
            yield line

    def wait(self, what: str, until: Callable[[], bool], *, within_s: float = 60.0) -> None:
        """Read on until it is so; what happens to pods meanwhile is of no interest."""
        deadline = time.monotonic() + within_s
        while True:
            for _line in self.lines():
                pass
            if until():
                return
            if time.monotonic() > deadline:
                raise LabError(f"kube-scheduler did not notice {what} within {within_s:g} s; seen: {dict(self.seen)}")
            time.sleep(POLL_S)
