"""Tell how training gets on, and hear when a checkpoint is wanted: one file, standard library alone.

Copy it into an image, or import it from here. One line in a training loop is enough:

    report(step=120, total=1000, loss=0.42, accuracy=0.9)

Where a row goes follows from the environment; everything is optional, and all that is given is used at once.

    FORESAIL_JOB                   name of the job, the same before and after a move; else the name of the host
    FORESAIL_PROGRESS_DIR          folder on a shared volume: rows are appended to DIR/JOB/progress.csv
    FORESAIL_PROGRESS_URL          a controller: rows are sent to URL/v1/progress
    FORESAIL_PROGRESS_TOKEN_FILE   file with the token that the controller wants to see
    FORESAIL_PROGRESS_LOG          0 for no line on standard output, where every row stands otherwise

`checkpoint_wanted()` is the other direction, and `catch_sigterm()` turns SIGTERM into such a request. A loop that wants
all of this in one object takes `progress.py`, which stands beside this file; `callbacks.py` has it for Lightning, Keras
and Hugging Face.

Nothing here raises into training or makes it wait for a volume or a network: rows wait in a queue, and what goes wrong
is said on standard error, each thing once.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import re
import signal
import socket
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

EXIT_INTERRUPTED = 143
"""Training is not complete: a checkpoint was asked for by SIGTERM, and another process goes on from it."""
SIGTERM_REQUEST = "sigterm"
"""The request that SIGTERM makes."""
_CHECKPOINT = "checkpoint:"
_KEPT_ROWS = 1000
_ROWS_AT_ONCE = 100
_ANSWER_S = 5.0
_SEND_EVERY_S = 0.25
"""Controllers take a few requests a second of each job; rows that come faster go together."""
_FLUSH_S = 5.0
_RETRY_S = (1.0, 30.0)
_LONGEST_NOTE = 200
_LONGEST_ANSWER = 1 << 16
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_REFUSED = (400, 413, 422)


class ProgressRow(NamedTuple):
    """What is told of one step; the columns of progress.csv."""

    time: float
    """Unix time in seconds."""
    step: int
    total: int | None = None
    loss: float | None = None
    accuracy: float | None = None
    note: str = ""
    """Empty; `resume` for the first row after a restart; `checkpoint:ID` for a checkpoint of this step that is safely
    on disk, ID being the request it answers, if any; `done` for the last row.
    """

    def cells(self) -> str:
        numbers = ("" if value is None else repr(value) for value in self[1:5])
        return ",".join((f"{self.time:.3f}", *numbers, self.note))

    def line(self) -> str:
        given = (
            (name, value) for name, value in zip(self._fields[1:], self[1:], strict=True) if value not in {None, ""}
        )
        return " ".join(["foresail progress", *(f"{name}={value}" for name, value in given)])


_told: set[str] = set()


def tell(what: str, text: str) -> None:
    """Say on standard error what a person should know, each thing (`what`) once."""
    if what in _told:
        return
    _told.add(what)
    try:
        sys.stderr.write(f"foresail report: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # nobody can be told


def job_name(environment: Mapping[str, str] = os.environ) -> str:
    """What the job is called, before and after a move."""
    return environment.get("FORESAIL_JOB") or socket.gethostname()


def job_folder(base: str, job: str) -> Path:
    """The job's own folder below a shared one; a name cannot lead out of it."""
    if not all(part.strip(".") for part in job.split("/")):
        raise ValueError(f'FORESAIL_JOB is "{job}", which names no folder below {base}; use letters, digits and -')
    return Path(base, job)


class RowOutbox:
    """Rows on their way to one place, in a thread of its own: training never waits for a volume or a network."""

    def __init__(self, place: str, deliver: Callable[[list[ProgressRow]], None], every_s: float = 0.0) -> None:
        """`deliver` takes rows off the list it is given as they arrive, and raises if it has to stop before the end.

        Deliveries are at least `every_s` seconds apart: rows that come faster go together.
        """
        self._place, self._deliver, self._every_s = place, deliver, every_s
        self._rows: deque[ProgressRow] = deque()
        self._changed = threading.Condition()
        self._sending = False
        self._hurried = 0
        self._failures = 0
        self._thread: threading.Thread | None = None

    def put(self, row: ProgressRow) -> None:
        with self._changed:
            self._rows.append(row)
            self._trim()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="foresail-report", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, within_s: float) -> bool:
        """Whether all rows have arrived; where the place refuses, this does not wait until it is mended."""
        with self._changed:
            self._hurried += 1
            self._changed.notify_all()
            enough = self._failures + 2  # the first may have been under way before the last row came
            self._changed.wait_for(lambda: self._is_empty() or self._failures >= enough, within_s)
            self._hurried -= 1
            return self._is_empty()

    def _is_empty(self) -> bool:
        return not self._rows and not self._sending

    def _trim(self) -> None:
        """Drop the oldest row that says nothing of checkpoints, if there are too many."""
        while len(self._rows) > _KEPT_ROWS:
            ordinary = next((at for at, row in enumerate(self._rows) if not row.note), 0)
            del self._rows[ordinary]
            tell(f"dropped {self._place}", f"{self._place} takes no rows; the oldest are dropped")

    def _run(self) -> None:
        retry_s = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._hurried > 0, retry_s or self._every_s)
                self._changed.wait_for(lambda: bool(self._rows))
                rows = [self._rows.popleft() for _ in range(min(len(self._rows), _ROWS_AT_ONCE))]
                self._sending = True
            retry_s = self._try(rows, retry_s)
            with self._changed:
                self._rows.extendleft(reversed(rows))
                self._trim()
                self._sending = False
                self._failures += retry_s > 0
                self._changed.notify_all()

    def _try(self, rows: list[ProgressRow], waited_s: float) -> float:
        """Seconds to wait before the next attempt, 0 if this one was good."""
        try:
            self._deliver(rows)
        except Exception as error:  # noqa: BLE001 - whatever it is, rows wait and training goes on
            tell(
                f"failed {self._place} {error}", f"{self._place} takes no rows ({error}); they are kept and sent again"
            )
            return min(max(_RETRY_S[0], 2 * waited_s), _RETRY_S[1])
        return 0.0


class _VolumePlace:
    """progress.csv of a job, and the file in which a checkpoint is asked for."""

    def __init__(self, folder: Path, hear: Callable[[str], None], hear_confirmed: Callable[[str], None]) -> None:
        self.rows_file = folder / "progress.csv"
        self._request_file = folder / "checkpoint-request"
        self._hear, self._hear_confirmed = hear, hear_confirmed
        self._is_first = True

    def deliver(self, rows: list[ProgressRow]) -> None:
        if self._is_first:
            self._make_folder(self.rows_file.parent)
            earlier = list(self.earlier())
            for _, note in earlier:
                if note.startswith(_CHECKPOINT):
                    self._hear_confirmed(note.removeprefix(_CHECKPOINT))
            if earlier and not rows[0].note:
                rows[0] = rows[0]._replace(note="resume")
            self._is_first = False
        # Opened anew each time: over NFS others see what was written when the file is closed.
        file = os.open(self.rows_file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o664)
        try:
            size = os.fstat(file).st_size
            if size == 0:
                _write_whole(file, ",".join(ProgressRow._fields) + "\n")
            # A row that was cut short, by a full volume or a killed process, spoils no other.
            start = "" if size == 0 or os.pread(file, 1, size - 1) == b"\n" else "\n"
            while rows:
                _write_whole(file, f"{start}{rows[0].cells()}\n")
                start = ""
                del rows[0]
        finally:
            os.close(file)
        self._hear(self._requested())

    @staticmethod
    def _make_folder(folder: Path) -> None:
        """The volume's group may write into it, whatever the process' umask says: checkpoints are asked for there."""
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # a volume without modes; it may be writable all the same
                folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IWGRP)

    def earlier(self) -> Iterator[tuple[int, str]]:
        """Step and note of the rows that are on the volume, as far as they are whole."""
        try:
            with self.rows_file.open(encoding="utf-8", errors="replace") as file:
                for line in file:
                    cells = line.rstrip("\n").split(",")
                    if len(cells) == len(ProgressRow._fields) and cells[1].isdecimal():
                        yield int(cells[1]), cells[5]
        except FileNotFoundError:
            return

    def _requested(self) -> str:
        try:
            with self._request_file.open(encoding="utf-8", errors="replace") as file:
                return file.read(1024).strip()
        except FileNotFoundError:
            return ""


def _write_whole(file: int, text: str) -> None:
    """One write, so that rows of two writers do not mix."""
    data = text.encode()
    if os.write(file, data) != len(data):
        raise OSError("a row was cut short: the volume is full")


class _HttpPlace:
    """Where rows are sent over HTTP; the answer may ask for a checkpoint."""

    def __init__(self, url: str, token_file: str, job: str, hear: Callable[[str], None]) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f'FORESAIL_PROGRESS_URL is "{url}"; it begins with http:// or https://')
        self._url = f"{url.rstrip('/')}/v1/progress"
        self._token_file, self._job, self._hear = token_file, job, hear

    def deliver(self, rows: list[ProgressRow]) -> None:
        import urllib.error  # noqa: PLC0415 - only who sends needs it
        import urllib.request  # noqa: PLC0415 - see above

        class Stay(urllib.request.HTTPRedirectHandler):
            """The token is for this address alone."""

            def redirect_request(self, *_arguments: Any) -> None:
                return None

        body = json.dumps({"job": self._job, "rows": [row._asdict() for row in rows]}).encode()
        request = urllib.request.Request(self._url, body, self._headers(), method="POST")  # noqa: S310 - http or https, see above
        try:
            with urllib.request.build_opener(Stay).open(request, timeout=_ANSWER_S) as answer:
                said = answer.read(_LONGEST_ANSWER)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in _REFUSED:
                raise
            tell(f"refused {error.code}", f"{self._url} refuses rows ({error.code} {error.reason}); they are dropped")
            rows.clear()
            return
        rows.clear()
        try:
            asked = json.loads(said)["checkpoint"]
        except (ValueError, TypeError, KeyError):
            tell("answer", f'{self._url} answers {said[:80]!r}, not {{"checkpoint": …}}; is this the controller?')
            return
        self._hear(str(asked or ""))

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        if self._token_file:
            # Read each time, since tokens of pods are renewed; never shown, so a bad one is not handed on either.
            token = Path(self._token_file).read_text(encoding="utf-8", errors="replace").strip()
            if not re.fullmatch(r"[\x21-\x7e]+", token):
                raise ValueError(f"{self._token_file} holds no token")
            headers["Authorization"] = f"Bearer {token}"
        return headers


class Reporter:
    """Reports of one job to all places that the environment names."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.job = job_name(environment)
        self.is_stopping = False
        self._logs = environment.get("FORESAIL_PROGRESS_LOG", "1") != "0"
        self._last_step = -1
        self._total: int | None = None
        self._wanted = ""
        self._confirmed: set[str] = set()
        self._folder: _VolumePlace | None = None
        self._volume: RowOutbox | None = None
        self._outboxes: list[RowOutbox] = []
        try:
            self._open(environment)
        except ValueError as error:
            tell("environment", str(error))

    def _open(self, environment: Mapping[str, str]) -> None:
        url = environment.get("FORESAIL_PROGRESS_URL", "")
        if url:
            token_file = environment.get("FORESAIL_PROGRESS_TOKEN_FILE", "")
            place = _HttpPlace(url, token_file, self.job, self._hear)
            self._outboxes.append(RowOutbox(url, place.deliver, _SEND_EVERY_S))
        base = environment.get("FORESAIL_PROGRESS_DIR", "")
        if base:
            self._folder = _VolumePlace(job_folder(base, self.job), self._hear, self._confirmed.add)
            self._volume = RowOutbox(str(self._folder.rows_file), self._folder.deliver)
            self._outboxes.append(self._volume)

    def report(self, step: Any, total: Any = None, loss: Any = None, accuracy: Any = None, note: str = "") -> None:
        """Tell of one step; values may be whatever `float` takes, tensors too."""
        try:
            row = self._row(step, total, loss, accuracy, note)
            if row is not None:
                self._send(row)
        except Exception as error:  # noqa: BLE001 - a report is never worth a training
            tell(f"report {error}", f"a row is lost: {type(error).__name__}: {error}")

    def _row(self, step: Any, total: Any, loss: Any, accuracy: Any, note: str) -> ProgressRow | None:
        at, of = _count("step", step), _count("total", total)
        if at is None:
            return None
        note = re.sub(r"[\s\x00-\x1f\x7f]+", " ", str(note)).strip().translate({ord(","): ";", ord('"'): "'"})
        if at < self._last_step and note != "resume":
            tell("backwards", f'step {at} comes after step {self._last_step}; left out (say note="resume" to go back)')
            return None
        self._last_step, self._total = at, of or self._total
        if self._total is not None and at > self._total:
            tell("beyond", f"step {at} is beyond the total of {self._total}; the total is left out")
            self._total = None
        values = (_finite("loss", loss), _finite("accuracy", accuracy))
        return ProgressRow(round(time.time(), 3), at, self._total, *values, note[:_LONGEST_NOTE])

    def _send(self, row: ProgressRow) -> None:
        if row.note.startswith(_CHECKPOINT):
            self._confirm(row.note.removeprefix(_CHECKPOINT))
        for outbox in self._outboxes:
            outbox.put(row)
        if self._logs:
            try:
                sys.stdout.write(f"{row.line()}\n")
                sys.stdout.flush()
            except (OSError, ValueError, AttributeError) as error:
                tell("stdout", f"nothing can be written to standard output: {error}")

    def _hear(self, request: str) -> None:
        if not request or request in self._confirmed:
            return
        if _REQUEST_ID.fullmatch(request):
            self._wanted = request
        else:
            tell("request", f"a request for a checkpoint has no proper id: {request[:40]!r}; not heard")

    def _confirm(self, request: str) -> None:
        self._confirmed.add(request)
        # A checkpoint of this moment answers whoever asked before it.
        if request in {self._wanted, SIGTERM_REQUEST}:
            self._wanted = ""

    def checkpoint_wanted(self) -> str:
        """The request that no checkpoint has answered yet; empty if there is none."""
        if self.is_stopping and SIGTERM_REQUEST not in self._confirmed:
            return SIGTERM_REQUEST
        return "" if self._wanted in self._confirmed else self._wanted

    def steps_before(self) -> int:
        """The step of the last confirmed checkpoint of earlier processes, 0 if there is none."""
        try:
            rows = () if self._folder is None else tuple(self._folder.earlier())
        except OSError as error:
            tell("earlier", f"earlier rows cannot be read: {error}; steps count from 0")
            rows = ()
        return next((step for step, note in reversed(rows) if note.startswith(_CHECKPOINT)), 0)

    def flush(self, within_s: float = _FLUSH_S) -> bool:
        """Wait until all rows have arrived, but not long; whether they have."""
        end_s = time.monotonic() + within_s
        arrived = [outbox.flush(max(0.0, end_s - time.monotonic())) for outbox in self._outboxes]
        return all(arrived)

    def flush_volume(self, within_s: float = _FLUSH_S) -> bool:
        """The same for the shared volume alone."""
        return self._volume is None or self._volume.flush(within_s)


def _count(name: str, value: Any) -> int | None:
    number = _finite(name, value)
    if number is None or (number >= 0 and number == int(number)):
        return None if number is None else int(number)
    tell(f"bad {name}", f"{name} is {value!r}; it is a whole number, 0 or more; left out")
    return None


def _finite(name: str, value: Any) -> float | None:
    """The number, or None for what is none: not given, not finite, no number at all."""
    if value is None:
        return None
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - other libraries' values raise what they like
        number = math.nan
    if math.isfinite(number):
        return number
    tell(f"bad {name}", f"{name} is {str(value)[:80]}, which is no finite number; left out")
    return None


_reporter: Reporter | None = None


def reporter() -> Reporter:
    """The reporter of this process, made by the environment as it is when it is first needed."""
    global _reporter  # noqa: PLW0603 - one a process
    if _reporter is None:
        _reporter = Reporter()
        atexit.register(_reporter.flush)
    return _reporter


def _forget() -> None:
    """A forked process (a loader of data, say) has none of its parent's threads: it begins anew, if it reports."""
    global _reporter  # noqa: PLW0603 - see reporter
    if _reporter is not None:
        atexit.unregister(_reporter.flush)
    _reporter = None


os.register_at_fork(after_in_child=_forget)


def report(step: Any, total: Any = None, loss: Any = None, accuracy: Any = None, note: str = "") -> None:
    """Tell of one step; values may be whatever `float` takes, tensors too, and what is not known is left out."""
    reporter().report(step, total, loss, accuracy, note)


def checkpoint_wanted() -> str:
    """The request for a checkpoint that none has answered yet; empty if there is none."""
    return reporter().checkpoint_wanted()


def checkpointed(step: Any, request: str | None = None) -> None:
    """Confirm that a checkpoint of this step is safely on disk; it answers `request`, else whoever wants one now."""
    reporter().report(step, note=_CHECKPOINT + (checkpoint_wanted() if request is None else request))


def steps_before() -> int:
    """The step of the last confirmed checkpoint of earlier processes of this job, for loops that count from 0."""
    return reporter().steps_before()


def flush(within_s: float = _FLUSH_S) -> bool:
    """Wait until all rows have arrived, but not long; whether they have. Done at the end of the process, too."""
    return reporter().flush(within_s)


def stopping() -> bool:
    """Whether SIGTERM has come: checkpoint, confirm, and leave with EXIT_INTERRUPTED."""
    return reporter().is_stopping


def catch_sigterm() -> None:
    """From now on SIGTERM asks for a checkpoint instead of ending the process."""
    mine = reporter()

    def stop(*_signal: object) -> None:
        mine.is_stopping = True

    try:
        signal.signal(signal.SIGTERM, stop)
    except ValueError:
        tell("signal", "SIGTERM can be caught in the main thread alone; call catch_sigterm there")
