"""Where runs are carried out: in this process, in several, or on a Ray cluster. All give the same bytes."""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from foresail import __version__
from foresail.errors import ForesailError, InputError, OptionError, ResultsError
from foresail.experiments.inputs import SOURCE, input_hashes, plugins_of, source_hashes
from foresail.experiments.plan import PlannedRun
from foresail.experiments.request import RunRequest
from foresail.experiments.run import forget_traces, run
from foresail.policies.profiles.load import profile_path
from foresail.results.folder import run_files

RAY_MISSING = "--ray needs Ray, which is not installed; install it with: pip install 'foresail[ray]'"

_CONNECT_WITHIN_S = 10.0
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


@dataclass(frozen=True, slots=True)
class Done:
    """A finished run as the files of its results folder."""

    files: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Failed:
    """A run that could not be finished, and why."""

    why: str


Outcome = Done | Failed
Outcomes = Generator[tuple[PlannedRun, Outcome]]


class Executor(Protocol):
    """Carries runs out and hands each over as soon as it is done, in any order.

    Nothing is written here: whoever asked writes what it is handed, so a worker that dies leaves nothing behind.
    Closing the generator stops what still runs.
    """

    def outcomes(self, runs: Sequence[PlannedRun]) -> Outcomes: ...


def carry_out(
    request: RunRequest,
    manifest: dict[str, Any],
    on_progress: Callable[[int, int], None] | None = None,
    check: Callable[[RunRequest, Mapping[str, str]], None] | None = None,
) -> Outcome:
    """One run, from the request to the bytes of its results folder.

    `check` is told of the request and of the hashes in the manifest after the run: are its inputs what they were?
    """
    check = check or _check_unchanged
    try:
        result = run(request, on_progress=on_progress)
        check(request, manifest["inputs"])
        return Done(run_files(result, manifest))
    except ForesailError as error:
        return Failed(str(error))


def _check_unchanged(request: RunRequest, expected: Mapping[str, str]) -> None:
    """A file that was changed since the comparison began would make the manifest a lie."""
    try:
        found = input_hashes(request)
    except OSError as error:
        raise InputError(f"went away during the comparison ({error.strerror})", path=error.filename) from error
    for path in found.keys() | expected.keys():
        if found.get(path) != expected.get(path):
            raise InputError("changed during the comparison; start it again", path=path)


class InProcess:
    """One run after the other, right here."""

    def __init__(self, on_progress: Callable[[int, int], None] | None = None) -> None:
        self._on_progress = on_progress

    def outcomes(self, runs: Sequence[PlannedRun]) -> Outcomes:
        for planned in runs:
            yield planned, carry_out(planned.request, planned.manifest, self._on_progress)


class Processes:
    """Several runs at a time, each in a process of its own."""

    def __init__(self, count: int) -> None:
        self._count = count

    def outcomes(self, runs: Sequence[PlannedRun]) -> Outcomes:
        others = set(multiprocessing.active_children())
        # Spawned, not forked: a fork would copy the threads of numpy and polars in whatever state they are.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(
            min(self._count, len(runs)), mp_context=context, initializer=_belong_to, initargs=(os.getpid(),)
        )
        try:
            waiting = {pool.submit(carry_out, planned.request, planned.manifest): planned for planned in runs}
            for future in as_completed(waiting):
                # Popped, so that the bytes of a written run do not stay in memory.
                yield waiting.pop(future), future.result()
        except BrokenProcessPool as error:
            raise ResultsError(
                "a worker process ended by itself, perhaps because memory ran out; finished runs are kept, "
                "go on with the same command and fewer --jobs"
            ) from error
        except BaseException:
            # Without this an interrupt would wait for the runs that are under way.
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _belong_to(parent: int) -> None:
    """Make this worker end with its parent, however that ends, and with nobody else."""
    # A terminal sends Ctrl-C to workers too; they would each print a traceback. The parent stops them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)


class OnRay:
    """Runs as tasks of a Ray cluster. Inputs travel with them, so other machines need foresail, but no files."""

    def __init__(self, address: str, count: int | None = None) -> None:
        self._address = address
        self._count = count
        if address == "local":
            # Ray reads this when it is imported. Without it, a cluster on Linux listens to the whole network.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        self._ray = import_ray()

    def outcomes(self, runs: Sequence[PlannedRun]) -> Outcomes:
        ray = self._ray
        contents: dict[str, Any] = {}
        task = ray.remote(num_cpus=1)(_carry_out_shipped)
        left = list(reversed(runs))
        under_way: dict[Any, PlannedRun] = {}
        while left or under_way:
            while left and (self._count is None or len(under_way) < self._count):
                planned = left.pop()
                paths = [path for path in planned.manifest["inputs"] if not path.startswith(SOURCE)]
                for path in paths:
                    if path not in contents:
                        contents[path] = ray.put(_read(path))
                given = [contents[path] for path in paths]
                under_way[task.remote(planned.request, planned.manifest, __version__, paths, *given)] = planned
            finished, _ = ray.wait(list(under_way), num_returns=1)
            for reference in finished:
                yield under_way.pop(reference), self._result(reference)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Join the cluster, or start one for `local`; leave or stop it whatever happens."""
        self._connect()
        try:
            if self._address == "local":
                self._check_loopback()
            yield
        finally:
            # Also ends the tasks that are still under way.
            self._ray.shutdown()

    def _connect(self) -> None:
        # Neither usage reports to the network nor warnings about settings that are not ours.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        settings: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        if self._address == "local":
            settings |= {"num_cpus": self._count, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        try:
            _check_reachable(self._address)
            self._ray.init(address=self._address, **settings)
        except (OSError, RuntimeError, ValueError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise OptionError(
                f"--ray {self._address}: {first}; give the address of a running cluster (ray start --head prints it), "
                "auto, or local"
            ) from error

    def _check_loopback(self) -> None:
        # Whoever reaches a Ray cluster may run code on it, so better none than one that others reach.
        listening = self._ray.get_runtime_context().gcs_address
        if not listening.startswith("127."):
            raise OptionError(
                f"--ray local listens on {listening}, not on this machine alone, because Ray was imported before; "
                "use --jobs instead, or set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 from the start"
            )

    def _result(self, reference: Any) -> Outcome:
        try:
            outcome: Outcome = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise  # a bug of ours or of a plug-in, which needs its traceback
        except self._ray.exceptions.RayError as error:
            return Failed(f"its Ray worker was lost: {str(error).strip().splitlines()[0]}")
        return outcome


@contextmanager
def executor_for(
    ray: str | None, count: int | None, on_progress: Callable[[int, int], None] | None = None
) -> Iterator[Executor]:
    """The executor that the options ask for: a Ray cluster, `count` processes, or this one."""
    if ray is not None:
        on_ray = OnRay(ray, count)
        with on_ray.connected():
            yield on_ray
    else:
        yield InProcess(on_progress) if count in {None, 1} else Processes(int(count or 1))


def _elsewhere(text: bytes, moved: Mapping[str, str]) -> bytes:
    """The text with paths as they are here; the longest first, since one may be a part of another."""
    if not moved:
        return text
    longest_first = sorted((path.encode() for path in moved), key=len, reverse=True)
    either = b"|".join(re.escape(path) for path in longest_first)
    return re.sub(either, lambda found: moved[found[0].decode()].encode(), text)


def _check_sources(request: RunRequest, expected: Mapping[str, str]) -> None:
    """Files travel with the request, but packages are installed: a worker's own must be the same."""
    found = source_hashes(plugins_of(request))
    for path in {path for path in expected if path.startswith(SOURCE)} | found.keys():
        if found.get(path) != expected.get(path):
            name = path.removeprefix(SOURCE)
            raise InputError(f"{name} of a Ray worker is not the one here; install the same package on both")


def import_ray() -> Any:
    """Ray itself, or an error that says how to get it."""
    try:
        import ray  # noqa: PLC0415 - an extra that most installations do not have
    except ImportError as error:
        raise OptionError(RAY_MISSING) from error
    return ray


def _check_reachable(address: str) -> None:
    """Fail at once where nobody listens; Ray itself would try for minutes."""
    matched = re.fullmatch(r"(?:ray://)?\[?([^\[\]/]+?)\]?:(\d+)", address)
    if matched:
        socket.create_connection((matched[1], int(matched[2])), timeout=_CONNECT_WITHIN_S).close()


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"went away during the comparison ({error.strerror})", path=path) from error


def _carry_out_shipped(
    request: RunRequest, manifest: dict[str, Any], version: str, paths: list[str], *contents: bytes
) -> Outcome:
    """One run on a machine that has none of the files: they are laid out under the names they have at home."""
    if version != __version__:
        return Failed(f"a Ray worker has foresail {__version__}, but here is {version}; install the same on both")
    with tempfile.TemporaryDirectory(prefix="foresail-") as folder:
        # A folder each, since two inputs may share a name, and names show in results.
        moved = {path: str(Path(folder) / str(number) / Path(path).name) for number, path in enumerate(paths)}
        given = {path for path in (request.nodes, request.pods, request.faults) if path}
        named = {path: place for path, place in moved.items() if path not in given}
        for path, content in zip(paths, contents, strict=True):
            if hashlib.sha256(content).hexdigest() != manifest["inputs"][path]:
                return Failed(f"{path}: changed during the comparison; start it again")
            place = Path(moved[path])
            place.parent.mkdir()
            # A profile may name files that its plug-ins read.
            place.write_bytes(_elsewhere(content, named) if path == profile_path(request.policy) else content)
        here = replace(
            request,
            nodes=moved.get(request.nodes, ""),
            pods=moved.get(request.pods, ""),
            policy=_elsewhere(request.policy.encode(), named).decode(),
            controllers=tuple(_elsewhere(text.encode(), named).decode() for text in request.controllers),
            faults=None if request.faults is None else moved[request.faults],
        )
        outcome = carry_out(here, manifest, check=_check_sources)
        # The next run has its files elsewhere, so a kept trace would never be asked for again.
        forget_traces()
    if isinstance(outcome, Failed):
        for path, place_there in moved.items():
            outcome = Failed(outcome.why.replace(place_there, path))
    return outcome
