"""Interrupted runs: every decision is written down, so that a run can go on where it stopped, to the same last byte.

A run in virtual time is determined by its inputs and its decisions. A checkpoint therefore holds nothing but the
decisions so far: to resume, the run starts over and gets its first decisions from the file, which costs a small part of
making them. Where a decision may depend on more than the cluster and the pod (a policy draws random numbers, or does
not say whether it is row-wise), the decisions are made again instead and compared with the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from foresail import __version__
from foresail.atomic import replacing
from foresail.core.clock import Clock, WallClock
from foresail.core.control import Controller
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.policy import Seeded, is_row_wise
from foresail.core.profile import Profile
from foresail.core.table import NodeTable
from foresail.digest import sha256_of
from foresail.errors import ResultsError
from foresail.plugins.files import files_of, sources_of
from foresail.sim.faults import Faults
from foresail.traces.trace import Trace

_FORMAT = 1
_LOOK_AT_CLOCK_EVERY = 64


class Checkpoint:
    """The decisions of one run, kept in one file.

    `run_clock` saves it now and then, when it is interrupted, and at its end. It does not remove it: whoever has
    written the results calls `remove`.
    """

    def __init__(self, path: str | Path, *, every_s: float = 30.0, clock: Clock | None = None) -> None:
        """`every_s`: how much time of `clock` (the wall's by default) may pass between two saves."""
        self.path = Path(path)
        self.resumed = 0
        """How many decisions came from the file."""
        self._every_s = every_s
        self._clock = clock or WallClock()
        self._saved_at_s = self._clock.now()
        self._identity: dict[str, str] = {}
        self._rows = array("q")
        self._scores = array("d")
        self._device_counts = array("q")
        self._devices = array("q")
        self._reasons: dict[str, int] = {}

    def begin(self, identity: Mapping[str, str], profile: Profile, decide: Decide = decide_alone) -> Decide:
        """Load what an earlier run left, if it was this very run, and return what is to decide in place of `decide`."""
        self._identity = dict(identity)
        if self.path.exists():
            self._load()
        self.resumed = known = len(self._rows)
        replays = _is_pure(profile)
        at = device_at = 0
        reasons = list(self._reasons)

        def answer(pod: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
            nonlocal at, device_at
            if at == known:
                outcome = decide(pod, table, profile)
                self._write_down(outcome)
                return outcome
            row, end = self._rows[at], device_at + self._device_counts[at]
            recorded: Placement | NoFit
            if row < 0:
                recorded = NoFit(pod.name, table.count, {reasons[-1 - row]: table.count})
            else:
                devices = tuple(self._devices[device_at:end])
                recorded = Placement(row, table.names[row], devices, self._scores[at])
            at, device_at = at + 1, end
            return recorded if replays else self._compared(recorded, decide(pod, table, profile), at)

        return answer

    def save(self) -> None:
        """Write the file beside its place and then move it there, so that it is whole at any time."""
        count = len(self._rows)
        device_counts = np.array(self._device_counts[:count], dtype=np.int64)
        header = {"format": _FORMAT, "identity": self._identity, "reasons": list(self._reasons)}

        def failed(why: str) -> ResultsError:
            return ResultsError(f"{self.path}: the checkpoint cannot be written: {why}")

        with replacing(self.path, failed) as part:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                np.savez(
                    file,
                    header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
                    rows=np.array(self._rows, dtype=np.int64),
                    scores=np.array(self._scores[:count], dtype=np.float64),
                    device_counts=device_counts,
                    devices=np.array(self._devices[: int(device_counts.sum())], dtype=np.int64),
                )
                file.flush()
                os.fsync(file.fileno())
        self._saved_at_s = self._clock.now()

    def remove(self) -> None:
        """Remove the file; the run it belongs to is finished and its results are safe."""
        self.path.unlink(missing_ok=True)

    def _write_down(self, outcome: Placement | NoFit) -> None:
        # The row comes last: an interrupt between two lines leaves a decision that does not count yet.
        if isinstance(outcome, Placement):
            self._devices.extend(outcome.devices)
            self._device_counts.append(len(outcome.devices))
            self._scores.append(outcome.score)
            self._rows.append(outcome.row)
        else:
            reason = self._reasons.setdefault(outcome.main_reason, len(self._reasons))
            self._device_counts.append(0)
            self._scores.append(0.0)
            self._rows.append(-1 - reason)
        is_due = len(self._rows) % _LOOK_AT_CLOCK_EVERY == 0
        if is_due and self._clock.now() - self._saved_at_s >= self._every_s:
            self.save()

    def _compared(self, recorded: Placement | NoFit, made: Placement | NoFit, number: int) -> Placement | NoFit:
        if isinstance(recorded, Placement) and isinstance(made, Placement):
            same = recorded.row == made.row and recorded.devices == made.devices
        else:
            same = isinstance(recorded, NoFit) and isinstance(made, NoFit)
        if not same:
            raise ResultsError(
                f"{self.path}: decision {number} comes out differently this time, so a policy has changed or does not "
                "draw its random numbers from the seed; remove the file to start over"
            )
        return made

    def _load(self) -> None:
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                header = json.loads(arrays["header"].tobytes())
                if header["format"] != _FORMAT:
                    raise _unreadable(self.path, f"it has format {header['format']}, not {_FORMAT}")
                columns = {name: arrays[name] for name in ("rows", "scores", "device_counts", "devices")}
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
            raise _unreadable(self.path, f"{type(error).__name__}: {error}") from error
        counts, devices = columns["device_counts"], columns["devices"]
        if not len(columns["rows"]) == len(columns["scores"]) == len(counts) or counts.sum() != len(devices):
            raise _unreadable(self.path, "its columns do not go together")
        _check(self.path, header["identity"], self._identity)
        self._rows = array("q", columns["rows"].tolist())
        self._scores = array("d", columns["scores"].tolist())
        self._device_counts = array("q", columns["device_counts"].tolist())
        self._devices = array("q", columns["devices"].tolist())
        self._reasons = {reason: number for number, reason in enumerate(header["reasons"])}


def identity_of(
    trace: Trace,
    profile: Profile,
    *,
    seed: int,
    settings: Mapping[str, object],
    faults: Faults | None,
    controllers: Iterable[Controller] = (),
) -> dict[str, str]:
    """What a run is made of, piece by piece, so that one that differs can be named."""
    plugins = [*profile.all_plugins(), *controllers]
    workload = trace.workload
    columns = (
        workload.spec_of,
        workload.arrival_s,
        workload.duration_s,
        workload.priority,
        workload.gang_of,
        workload.cpu_limit_milli,
        workload.cpu_weight,
        workload.work_cpu_s,
        workload.training_of,
    )
    stated = (list(workload.names), workload.specs, workload.gangs, workload.trainings)
    pods = hashlib.sha256(repr(stated).encode())
    for column in columns:
        pods.update(column.tobytes())
    return {
        "Foresail version": __version__,
        "nodes": _sha256(repr(trace.nodes)),
        "pods": pods.hexdigest(),
        "profile": _sha256(repr(_described(profile))),
        "source of plug-ins": _of_files(path for plugin in plugins for path in sources_of(plugin)),
        "files that plug-ins read": _of_files(path for plugin in plugins for path in files_of(plugin)),
        "seed": str(seed),
        "settings": json.dumps(settings, sort_keys=True, default=str),
        "faults": "none" if faults is None else _sha256(repr([fault[:3] for fault in faults.faults])),
    }


def _described(profile: Profile) -> list[Any]:
    filters = [(used.name, type(used.plugin).__qualname__) for used in profile.filters]
    scores = [(used.name, type(used.plugin).__qualname__, used.weight) for used in profile.scores]
    tie = None if profile.tie is None else (profile.tie.name, type(profile.tie.plugin).__qualname__)
    description = json.dumps(profile.description, sort_keys=True, default=str)
    return [profile.name, filters, scores, type(profile.devices).__qualname__, tie, description]


def _is_pure(profile: Profile) -> bool:
    """Whether a decision depends on the pod and the nodes alone, so that it need not be made again."""
    plugins: list[Any] = [used.plugin for used in profile.plugins]
    # One that says nothing about being row-wise is audited as the decisions go, and may be treated differently later.
    if any(is_row_wise(plugin) is None for plugin in plugins):
        return False
    tie = None if profile.tie is None else profile.tie.plugin
    return not any(isinstance(plugin, Seeded) for plugin in (*plugins, profile.devices, tie))


def _check(path: Path, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    different = [name for name in wanted if found.get(name) != wanted[name]]
    if not different:
        return
    values = [
        f"{name} ({found.get(name)}, now {wanted[name]})" if name in ("seed", "Foresail version") else name
        for name in different
    ]
    raise ResultsError(
        f"{path}: this is the checkpoint of another run; what differs: {', '.join(values)}. "
        "Go back to what it was to resume, or remove the file to start over"
    )


def _unreadable(path: Path, why: str) -> ResultsError:
    return ResultsError(f"{path}: cannot be read as a checkpoint ({why}); remove the file to start over")


def _of_files(paths: Iterable[Path]) -> str:
    return _sha256(repr([(path.name, sha256_of(path)) for path in paths]))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
