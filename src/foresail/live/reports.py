"""What happened, told on: each listens to the journal and makes of its records a log line, an Event, a figure, a file.

Whoever notes a record need not know who reads it, and nobody is told of one event in two ways.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from foresail.core.journal import CandidateListener, Considered, Record, What
from foresail.errors import ResultsError
from foresail.live.cache.cache import Cache
from foresail.live.cache.listener import Listener
from foresail.live.cache.pods import CachedPod
from foresail.live.scheduler.metrics import Metrics
from foresail.logs import get_logger

_MOST_GONE = 1000


class _Words(NamedTuple):
    """How an event is written on a pod."""

    reason: str
    action: str
    warning: bool = False


_EVENTS: dict[What, _Words] = {
    What.START: _Words("Scheduled", "Binding"),
    What.REFUSE: _Words("FailedScheduling", "Scheduling", warning=True),
    What.GIVE_UP: _Words("FailedScheduling", "Scheduling", warning=True),
    What.EVICT: _Words("Preempted", "Preempting"),
    What.MOVE: _Words("Moving", "Moving"),
    What.MOVED: _Words("Moved", "Moving"),
    What.RESIZE: _Words("Resizing", "Resizing"),
    What.RESIZED: _Words("Resized", "Resizing"),
    What.HOLD: _Words("RoomHeld", "Holding"),
    What.DECLINE: _Words("ActionDeclined", "Controlling", warning=True),
}
"""What is written on pods, with the words of kube-scheduler where it has any."""

_LOGGED: dict[What, tuple[str, str]] = {
    What.GIVE_UP: ("warning", "pod_given_up"),
    What.PREEMPT: ("info", "pod_preempts"),
    What.EVICT: ("info", "pod_evicted"),
    What.MOVE: ("info", "pod_moves"),
    What.MOVED: ("info", "pod_moved"),
    What.RESIZE: ("info", "pod_resizes"),
    What.RESIZED: ("info", "pod_resized"),
    What.HOLD: ("info", "room_held"),
    What.RELEASE: ("info", "room_released"),
    What.DECLINE: ("warning", "action_declined"),
}
"""Level and name of the line in the log; what happens to every pod is not there."""

_LOGGED_IN_FULL: dict[What, tuple[str, str]] = {
    **_LOGGED,
    What.ARRIVE: ("info", "pod_waits"),
    What.REFUSE: ("info", "pod_refused"),
    What.START: ("info", "pod_bound"),
    What.END: ("info", "pod_ended"),
}


class AddsEvents(Protocol):
    """Where Events are written; see `Events`."""

    def add(self, pod: CachedPod, reason: str, action: str, note: str, *, warning: bool = False) -> None: ...


class EventReport(Listener):
    """Writes Events on the pods that records are about."""

    def __init__(self, cache: Cache, events: AddsEvents) -> None:
        self._cache = cache
        self._events = events
        self._gone: OrderedDict[str, CachedPod] = OrderedDict()
        """Pods that have just left their node, by name: the record of why may come after the watch's word."""
        cache.tell(self)

    def __call__(self, record: Record) -> None:
        words = _EVENTS.get(record.what)
        pod = None if words is None else self._cache.named(record.pod) or self._gone.get(record.pod)
        if words is not None and pod is not None:
            self._events.add(pod, words.reason, words.action, _note(record), warning=words.warning)

    def running_changed(self, before: CachedPod | None, now: CachedPod | None) -> None:
        if before is not None and now is None:
            self._gone[before.full_name] = before
            if len(self._gone) > _MOST_GONE:
                self._gone.popitem(last=False)


def _note(record: Record) -> str:
    if record.what is What.START:
        return f"Successfully assigned {record.pod} to {record.node}"
    return f"{record.by}: {record.detail}" if record.by else record.detail


def counted(metrics: Metrics) -> Callable[[Record], None]:
    """Counts records by what they tell."""
    count_of = {what: metrics.records.labels(what.value) for what in What}

    def count(record: Record) -> None:
        count_of[record.what].inc()
        if record.what is What.PREEMPT:
            metrics.preemptions.inc()

    return count


def logged(*, in_full: bool = False) -> Callable[[Record], None]:
    """Writes what is out of the ordinary to the log, or `in_full` all that happens to pods."""
    lines = _LOGGED_IN_FULL if in_full else _LOGGED

    def log(record: Record) -> None:
        if record.what in lines:
            level, name = lines[record.what]
            said = {key: value for key in ("pod", "node", "by") if (value := getattr(record, key))}
            getattr(get_logger(), level)(name, **said, detail=record.detail)

    return log


def logged_candidate(considered: Considered) -> None:
    """Writes a move that a controller weighed to the log."""
    reckoned = {
        name: round(value, 3)
        for name, value in (("gain", considered.gain), ("cost", considered.cost))
        if not math.isnan(value)
    }
    get_logger().info(
        "move_weighed",
        pod=considered.pod,
        node=considered.node,
        to_node=considered.to_node,
        **reckoned,
        **({"unit": considered.unit} if reckoned else {}),
        outcome=considered.outcome.value,
        by=considered.by,
        detail=considered.why,
    )


def candidate_reports(file: JournalFile | None, *, dry_run: bool) -> list[CandidateListener]:
    """Who is told what controllers weighed: a file if there is one, and the log where nothing is carried out."""
    return [*([logged_candidate] if dry_run else []), *([] if file is None else [file.consider])]


class JournalFile:
    """Writes one JSON object a line: `time` (UTC), then the record's fields.

    A move that a controller weighed is a line with `what` "consider" and the fields of `Considered`.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
        except OSError as error:
            raise ResultsError(f"{path}: cannot be written ({error.strerror}); give --journal another file") from error

    def __call__(self, record: Record) -> None:
        self._write(record._asdict())

    def consider(self, considered: Considered) -> None:
        said = considered._asdict()
        # JSON has no word for what is not a number.
        said |= {name: None for name in ("gain", "cost") if math.isnan(said[name])}
        self._write({"time_s": said.pop("time_s"), "what": "consider", **said})

    def _write(self, said: dict[str, Any]) -> None:
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._file.write(msgspec.json.encode({"time": time, **said}) + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
