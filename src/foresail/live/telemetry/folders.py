"""Folders on shared volumes in which jobs leave files, and the jobs whose files are looked for there.

Only folders that a running pod's job may have are looked into, by name: nobody lists what is there, so it does not
matter what else is, and a job is found in its own namespace alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from foresail.errors import OptionError
from foresail.live.telemetry.jobs import Jobs, job_of, names_of

T = TypeVar("T")
_HANGS_AFTER_S = 60.0


class JobsFolder(NamedTuple):
    """A folder with one folder for each job: `JOB`, or `NAMESPACE/JOB` if it is not one namespace's."""

    root: Path
    namespace: str = ""

    @classmethod
    def parse(cls, text: str, option: str) -> JobsFolder:
        """What `[NAMESPACE=]FOLDER` names."""
        namespace, is_one, folder = text.rpartition("=")
        if is_one and "/" in namespace:  # a folder with a = in its name
            namespace, folder = "", text
        if not folder or (is_one and not namespace and folder != text):
            raise OptionError(f'{option} is "{text}"; write FOLDER, or NAMESPACE=FOLDER for the jobs of one namespace')
        return cls(Path(folder), namespace)


class Place(NamedTuple):
    """Where the files of one job may be."""

    root: Path
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return str(self.root.joinpath(*self.parts))


def places(folders: Sequence[JobsFolder], jobs: Jobs) -> Iterator[tuple[str, Place]]:
    """Every job with a pod, and every place where its files may be."""
    for pod in jobs.pods():
        for folder in folders:
            if folder.namespace in {"", pod.namespace}:
                above = () if folder.namespace else (pod.namespace,)
                for name in names_of(pod):
                    yield job_of(pod), Place(folder.root, (*above, name))


class OffLoop(Generic[T]):
    """Work on files in a thread, one after the other: a volume whose server is gone may let one wait for ever."""

    def __init__(self, folders: Sequence[JobsFolder]) -> None:
        self._folders = [folder.root for folder in folders]
        self._since_s: float | None = None
        self.problem = ""

    async def run(self, work: Callable[[], T]) -> T:
        self._since_s = time.monotonic()
        try:
            self.problem = await asyncio.to_thread(self._missing)
            return await asyncio.to_thread(work)
        finally:
            self._since_s = None

    def _missing(self) -> str:
        missing = [str(root) for root in self._folders if not root.is_dir()]
        return f"there is no folder {', '.join(missing)}; is the volume mounted?" if missing else ""

    @property
    def trouble(self) -> str:
        """What is wrong with the folders; empty if nothing is."""
        if self._since_s is not None and time.monotonic() - self._since_s > _HANGS_AFTER_S:
            waited_s = time.monotonic() - self._since_s
            return f"{', '.join(map(str, self._folders))} has not answered for {waited_s:.0f} s; is its server gone?"
        return self.problem
