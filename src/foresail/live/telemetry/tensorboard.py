"""Progress from TensorBoard's event files below each job's folder, for jobs that write them anyway."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from foresail.kube.objects.values import PROGRESS_TAGS, PROGRESS_TOTAL
from foresail.live.cache.pods import CachedPod
from foresail.live.telemetry.folders import JobsFolder, OffLoop, Place, places
from foresail.live.telemetry.jobs import Jobs, job_of
from foresail.live.telemetry.progress import ProgressStore, Verdict
from foresail.live.telemetry.rows import RESUME
from foresail.live.telemetry.scalars import BadEvent, Scalar, scalars_in
from foresail.live.telemetry.tailing import Tail, open_folder
from foresail.live.telemetry.tfrecord import TfRecords

SOURCE = "tensorboard"
LOSS, ACCURACY = "loss", "accuracy"
_NAME = "tfevents"
_USUAL = {
    LOSS: ("loss", "train_loss", "training_loss", "epoch_loss", "batch_loss"),
    ACCURACY: ("accuracy", "acc", "train_accuracy", "train_acc", "epoch_accuracy", "epoch_acc"),
}
"""What tags are called whose pods do not say, the likeliest first."""
_NOT_TRAINING = re.compile(r"(^|[^a-z])(val|valid|validation|eval|evaluation|test)([^a-z]|$)", re.IGNORECASE)
_DEEPEST = 4
_MOST_FOLDERS, _MOST_ENTRIES, _MOST_FILES = 64, 1000, 32
_MOST_BYTES = 1 << 20
_MOST_BYTES_A_LOOK = 1 << 23
_MOST_ROWS = 1000


class _EventFile:
    """One event file, and how far it was read."""

    def __init__(self, place: Place, name: tuple[str, ...]) -> None:
        self.tail = Tail(place.root, *place.parts, *name, most_bytes=_MOST_BYTES, skips=False)
        self.run = "/".join(name[:-1])
        self.records = TfRecords()


@dataclass(slots=True)
class _JobEvents:
    """What was read of one job."""

    files: dict[tuple[str, ...], _EventFile] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    """Value to the tag that tells it."""
    step: int | None = None
    counts_by: str = ""
    """The value whose tag counts steps."""


class _EventsNews(NamedTuple):
    """What one look at one place has found."""

    key: tuple[str, Place]
    scalars: list[tuple[str, Scalar]]
    """With the run, which is the folder below the job's."""
    damaged: list[tuple[str, str]]
    """What stands where, and why it is not used."""
    remarks: list[str]


class TensorBoardFolders:
    """Looks at every job's event files every so often."""

    def __init__(self, folders: Sequence[JobsFolder], jobs: Jobs, store: ProgressStore, *, every_s: float) -> None:
        self._folders = folders
        self._jobs = jobs
        self._store = store
        self._every_s = every_s
        self._work: OffLoop[list[_EventsNews]] = OffLoop(folders)
        self._known: dict[tuple[str, Place], _JobEvents] = {}
        self._first = 0
        """Who comes first in the next look, so that all get their share of what a look may read."""

    @property
    def problem(self) -> str:
        return self._work.trouble

    async def run(self) -> None:
        """Look every so often, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        """One look at all files; what they say is in the store afterwards."""
        there = dict.fromkeys(places(self._folders, self._jobs))
        kept = (key for key in self._known if key in there or self._store.of(key[0]) is not None)
        self._known = {key: self._known[key] for key in kept}
        for key in there:
            self._known.setdefault(key, _JobEvents())
        looks = list(self._known.items())
        self._first = (self._first + 1) % max(1, len(looks))
        looks = [*looks[self._first :], *looks[: self._first]]
        pods = {job_of(pod): pod for pod in self._jobs.pods()}
        for news in await self._work.run(lambda: _look_at(looks)):
            self._take(news, pods.get(news.key[0]))

    def _take(self, news: _EventsNews, pod: CachedPod | None) -> None:
        job, place = news.key
        for remark in news.remarks:
            self._store.remark(job, SOURCE, str(place), remark)
        for where, why in news.damaged:
            self._store.skip(job, SOURCE, Verdict.DAMAGED, where, why)
        known = self._known[news.key]
        stated = {} if pod is None else stated_tags(pod.annotations.get(PROGRESS_TAGS, ""))
        total = None if pod is None else pod.annotations.get(PROGRESS_TOTAL)
        rows = [row for run, scalar in news.scalars if (row := _row(known, run, scalar, stated)) is not None]
        for row in rows[-_MOST_ROWS:]:
            self._store.offer(job, SOURCE, row if total is None else {**row, "total": total})


def stated_tags(text: str) -> dict[str, str]:
    """The tags that a pod names, as `loss=train/loss,accuracy=val/acc`."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip(): tag.strip() for name, _, tag in pairs if name.strip() in _USUAL and tag.strip()}


def _row(known: _JobEvents, run: str, scalar: Scalar, stated: dict[str, str]) -> dict[str, object] | None:
    """The row that a scalar makes; None if it is none of the values that are looked for."""
    value = _told_by(known, f"{run}/{scalar.tag}" if run else scalar.tag, scalar.tag, stated)
    if value is None:
        return None
    note = ""
    # Losses count the steps, where there are any: an accuracy may count epochs beside them.
    if not known.counts_by or (value == LOSS and known.counts_by != LOSS):
        known.counts_by = value
    if value == known.counts_by:
        note = RESUME if known.step is not None and scalar.step < known.step else ""
        known.step = scalar.step
    return {"time": scalar.time_s, "step": known.step, value: scalar.value, "note": note}


def _told_by(known: _JobEvents, whole: str, tag: str, stated: dict[str, str]) -> str | None:
    """Which value a tag tells, if it is the one that tells it: the stated one, or the likeliest so far."""
    word = _last_word(tag)
    for value, usual in _USUAL.items():
        if value in stated:
            if stated[value] in {tag, whole}:
                return value
        elif word in usual and not _NOT_TRAINING.search(whole):
            likeliest = min(known.tags.get(value, tag), tag, key=lambda one: usual.index(_last_word(one)))
            known.tags[value] = likeliest
            return value if likeliest == tag else None
    return None


def _last_word(tag: str) -> str:
    return tag.rpartition("/")[2].lower()


# --- in a thread -----------------------------------------------------------------------------------------------------


def _look_at(looks: list[tuple[tuple[str, Place], _JobEvents]]) -> list[_EventsNews]:
    found, left = [], _MOST_BYTES_A_LOOK
    for key, known in looks:
        if left <= 0:
            break
        news = _EventsNews(key, [], [], [])
        try:
            known.files = {name: known.files.get(name) or _EventFile(key[1], name) for name in event_files(key[1])}
            for name, file in known.files.items():
                left -= _read(file, name, news)
        except OSError as error:
            news.remarks.append(f"cannot be read: {error.strerror or error}")
        # Several files are written side by side, one a run.
        news.scalars.sort(key=lambda one: one[1].time_s)
        if news.scalars or news.damaged or news.remarks:
            found.append(news)
    return found


def _read(file: _EventFile, name: tuple[str, ...], news: _EventsNews) -> int:
    """Read what came to a file; how many bytes that was."""
    count = 0
    for piece in file.tail.read():
        count += len(piece.data)
        if piece.anew:
            news.remarks.append(f"{'/'.join(name)}: {piece.anew}; it is read from its beginning")
            file.records = TfRecords()
        for record in file.records.feed(piece.data):
            damage = record.damage
            if not damage:
                try:
                    news.scalars.extend((file.run, scalar) for scalar in scalars_in(record.data))
                except BadEvent as bad:
                    damage = f"the record is no event: {bad}"
            if damage:
                news.damaged.append((f"{'/'.join(name)}, byte {record.offset}", damage))
    return count


def event_files(place: Place) -> list[tuple[str, ...]]:
    """The newest event files of a job, by folder and name below its own folder; links are not followed."""
    found: list[tuple[str, ...]] = []
    waiting: list[tuple[str, ...]] = [()]
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            break
        below = waiting.pop(0)
        for name, is_folder in _entries(place, below):
            if is_folder and len(below) < _DEEPEST:
                waiting.append((*below, name))
            elif not is_folder and _NAME in name:
                found.append((*below, name))
    # Their names have the time of their beginning in them.
    return sorted(found, key=lambda name: name[-1])[-_MOST_FILES:]


def _entries(place: Place, below: tuple[str, ...]) -> Iterator[tuple[str, bool]]:
    try:
        folder = open_folder(place.root, (*place.parts, *below))
    except FileNotFoundError:
        return
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False):
                if not entry.is_symlink():
                    yield entry.name, entry.is_dir(follow_symlinks=False)
    finally:
        os.close(folder)
