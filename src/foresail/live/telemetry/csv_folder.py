"""Progress from `progress.csv` of each job, below a folder on a shared volume; and checkpoints asked for there.

A job appends rows to its file and looks at `checkpoint-request` beside it, see `foresail.workloads.report`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from foresail.live.telemetry.checkpoints import VolumeFullError
from foresail.live.telemetry.csv_rows import CsvRows, Written
from foresail.live.telemetry.folders import JobsFolder, OffLoop, Place, places
from foresail.live.telemetry.jobs import Jobs
from foresail.live.telemetry.progress import ProgressStore, Verdict
from foresail.live.telemetry.tailing import Tail, open_folder

SOURCE = "csv"
ROWS_FILE = "progress.csv"
REQUEST_FILE = "checkpoint-request"
_MOST_BYTES = 1 << 18
"""Read of one file in one look: two thousand rows. Of a longer file the last rows are those that matter."""
_HEAD_BYTES = 4096
_FULL = {errno.ENOSPC, errno.EDQUOT}


class _Follow:
    """One job's file, and how far it was read."""

    def __init__(self, place: Place) -> None:
        self.tail = Tail(place.root, *place.parts, ROWS_FILE, most_bytes=_MOST_BYTES)
        self.rows = CsvRows()
        self.is_there = False


class _FileNews(NamedTuple):
    """What one look at one place has found."""

    job: str
    place: Place
    rows: list[Written]
    remarks: list[str]


class CsvFolders:
    """Looks at every job's file every so often."""

    def __init__(self, folders: Sequence[JobsFolder], jobs: Jobs, store: ProgressStore, *, every_s: float) -> None:
        self._folders = folders
        self._jobs = jobs
        self._store = store
        self._every_s = every_s
        self._work: OffLoop[list[_FileNews]] = OffLoop(folders)
        self._followed: dict[tuple[str, Place], _Follow] = {}
        self._requests: dict[str, str] = {}
        """Job to the checkpoint it is asked for."""
        self._withdrawn: dict[tuple[str, str], None] = {}
        self._written: dict[Place, str] = {}
        self._unwritable: set[Place] = set()
        self._full: dict[Place, tuple[str, str]] = {}
        """Where there was no room for a request, with its id and what the system said; the next one may find some."""
        self._soon = asyncio.Event()

    @property
    def problem(self) -> str:
        return self._work.trouble

    async def run(self) -> None:
        """Look every so often, and at once when a checkpoint is asked for; for ever."""
        while True:
            self._soon.clear()
            await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._soon.wait()

    async def look(self) -> None:
        """One look at all files; what they say is in the store afterwards."""
        there = dict.fromkeys(places(self._folders, self._jobs))
        # A job between two pods is still known, and its file is not to be read from the beginning again.
        kept = (key for key in self._followed if key in there or self._store.of(key[0]) is not None)
        self._followed = {key: self._followed[key] for key in kept}
        for key in there:
            self._followed.setdefault(key, _Follow(key[1]))
        withdrawn, self._withdrawn = self._withdrawn, {}
        looks = list(self._followed.items())
        requests = dict(self._requests)
        for seen in await self._work.run(lambda: self._look_at(looks, requests, withdrawn)):
            for remark in seen.remarks:
                self._store.remark(seen.job, SOURCE, str(seen.place), remark)
            for row in seen.rows:
                if row.damage:
                    self._store.skip(seen.job, SOURCE, Verdict.DAMAGED, row.text, row.damage)
                else:
                    self._store.offer(seen.job, SOURCE, row.values, row.text)

    # --- checkpoints, see `foresail.live.telemetry.checkpoints.Channel` ----------------------------------------------

    def ask(self, job: str, request_id: str) -> bool:
        """Whether a job's folder is known and can be written to, as far as one knows.

        Raises VolumeFullError if this request found no room there: such a job can be asked, but neither the request
        nor a checkpoint would be on disk. It is tried again at every look, until it is withdrawn.
        """
        theirs = [place for (one, place), follow in self._followed.items() if one == job and follow.is_there]
        writable = [place for place in theirs if place not in self._unwritable]
        if not writable:
            return False
        if self._requests.get(job) != request_id or (job, request_id) in self._withdrawn:
            self._withdrawn.pop((job, request_id), None)
            self._requests[job] = request_id
            self._soon.set()
        full = {place: said for place in writable if (said := self._full.get(place, ("", "")))[0] == request_id}
        if len(full) == len(writable):
            place, (_, why) = next(iter(full.items()))
            raise VolumeFullError(f"the volume of {place} is full ({why}); make room on it")
        return True

    def withdraw(self, job: str, request_id: str) -> None:
        if self._requests.get(job) == request_id:
            del self._requests[job]
        self._withdrawn[job, request_id] = None
        self._soon.set()

    # --- in a thread -----------------------------------------------------------------------------------------------

    def _look_at(
        self,
        looks: list[tuple[tuple[str, Place], _Follow]],
        requests: dict[str, str],
        withdrawn: dict[tuple[str, str], None],
    ) -> list[_FileNews]:
        found = []
        for (job, place), follow in looks:
            seen = _FileNews(job, place, [], [])
            _noting(seen.remarks, "cannot be read", _read, follow, seen)
            if follow.is_there:
                self._ask_in(seen, requests.get(job, ""), [one for of, one in withdrawn if of == job])
            if seen.rows or seen.remarks:
                found.append(seen)
        return found

    def _ask_in(self, seen: _FileNews, request_id: str, withdrawn: list[str]) -> None:
        place = seen.place
        for one in withdrawn:
            _noting(seen.remarks, "a request cannot be withdrawn", _unask, place, one)
            if self._written.get(place) == one:
                del self._written[place]
            if self._full.get(place, ("", ""))[0] == one:
                del self._full[place]
        if request_id and self._written.get(place) != request_id:
            failed = _noting(seen.remarks, "a checkpoint cannot be asked for", _ask, place, request_id)
            self._full.pop(place, None)
            if failed is None:
                self._written[place] = request_id
                self._unwritable.discard(place)
            elif failed.errno in _FULL:
                self._full[place] = (request_id, os.strerror(failed.errno))
            else:
                self._unwritable.add(place)


def _noting(remarks: list[str], what: str, work: Callable[..., None], *about: object) -> OSError | None:
    """Do some work on files; why it could not be done is noted, and returned."""
    try:
        work(*about)
    except OSError as error:
        remarks.append(f"{what}: {error.strerror or error}")
        return error
    return None


def _read(follow: _Follow, seen: _FileNews) -> None:
    for piece in follow.tail.read():
        follow.is_there = True
        if piece.anew:
            seen.remarks.append(f"{piece.anew}; it is read from its beginning")
            follow.rows.begin_anew()
        if piece.passed_over:
            seen.remarks.append(f"{piece.passed_over} bytes of it are passed over; the last {_MOST_BYTES} are read")
            follow.rows.pass_over(follow.tail.head(_HEAD_BYTES))
        seen.rows.extend(follow.rows.feed(piece.data))


def _ask(place: Place, request_id: str) -> None:
    """Put a request in place whole: whoever looks finds this one or the one before."""
    folder = open_folder(place.root, place.parts)
    beside = f".{REQUEST_FILE}.new"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        # The job may run as another user, so everybody may read it.
        made = os.open(
            beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder
        )
        text = f"{request_id}\n".encode()
        try:
            if os.write(made, text) < len(text):  # the rest found no room; half an id is another's
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(made)
        finally:
            os.close(made)
        os.rename(beside, REQUEST_FILE, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _unask(place: Place, request_id: str) -> None:
    """Take a request away, unless it is another by now."""
    folder = open_folder(place.root, place.parts)
    try:
        opened = os.open(REQUEST_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            said = os.read(opened, 1024)
        finally:
            os.close(opened)
        if said.strip() == request_id.encode():
            os.unlink(REQUEST_FILE, dir_fd=folder)
    except FileNotFoundError:
        pass
    finally:
        os.close(folder)
