"""What a lab has made so far: written before each thing is made, so that `down` finds all of it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from foresail.atomic import replacing
from foresail.errors import InputError, OptionError
from foresail.lab.errors import LabError
from foresail.lab.processes import ProcessId

STATE_FILE = "lab.json"
_HALF_STATE = re.compile(r"\.lab\.\d+\.part\.json")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def labs_folder() -> Path:
    """Where the folders of all labs are, unless told otherwise."""
    stated = os.environ.get("XDG_STATE_HOME")
    return (Path(stated) if stated else Path.home() / ".local" / "state") / "foresail" / "lab"


def this_boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def check_name(name: str) -> str:
    """A lab's name becomes part of node names and paths."""
    if not _NAME.fullmatch(name):
        raise OptionError(f'--name is "{name}"; write up to 32 of a-z, 0-9 and -, not - at an end')
    return name


@dataclass
class LabState:
    """A lab's whole memory; lies as lab.json in its folder."""

    name: str
    lab_id: str = field(default_factory=lambda: secrets.token_hex(4))
    """Marks the lab's processes, bridges and cgroups; no two labs ever share one."""
    boot_id: str = field(default_factory=this_boot)
    """The boot in which its processes were started: pids and start times begin anew with the next."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What `up` was asked for."""
    ports: dict[str, int] = field(default_factory=dict)
    """Component or kubelet: the port it listens on."""
    network: str = ""
    """The /16 of the lab's pods; empty without kubelets."""
    bridges: list[str] = field(default_factory=list)
    cgroups: list[str] = field(default_factory=list)
    """Paths below every cgroup hierarchy, such as /foresail-1a2b3c4d."""
    processes: dict[str, ProcessId] = field(default_factory=dict)
    made_paths: list[str] = field(default_factory=list)
    """Folders outside the lab's own that programs insist on and that were not there before."""
    kernel_settings_were: dict[str, str] = field(default_factory=dict)
    """Files of /proc/sys that kubelets and CNI write to, and what was in them before the first lab."""
    ready: bool = False
    """Whether `up` came to its end."""

    def save(self, folder: Path) -> None:
        with replacing(folder / STATE_FILE) as part, part.open("w", encoding="utf-8") as file:
            json.dump(asdict(self), file, indent=2)
            # A machine that loses power keeps its bridges' names too.
            os.fsync(file.fileno())


def load(folder: Path) -> LabState | None:
    """The state in a lab's folder; None if the folder or the file is not there."""
    path = folder / STATE_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except ValueError as error:
        raise InputError(f"is no lab's state ({error}); remove the folder by hand", path=path) from error
    known = {one.name for one in fields(LabState)}
    if not isinstance(found, dict) or not {"name", "lab_id"} <= found.keys() <= known:
        raise InputError("is the state of another version's lab; take that lab down with it", path=path)
    state = LabState(**found)
    state.processes = {name: ProcessId(**process) for name, process in found.get("processes", {}).items()}
    if state.boot_id != this_boot():
        state.boot_id, state.processes = this_boot(), {}
    return state


def check_is_free(folder: Path) -> None:
    """Refuse a folder without a state that holds something: whoever's that is, `down` would remove it."""
    # A start that was killed in its first instant leaves half a state.
    there = sorted(path.name for path in folder.iterdir() if not _HALF_STATE.fullmatch(path.name))
    if there:
        raise LabError(
            f"{folder} is no lab's: it holds {there[0]} and no {STATE_FILE}; give another --name or --dir, "
            "or remove the folder by hand"
        )


def all_labs(base: Path) -> dict[str, LabState]:
    """Every lab in a folder of labs, by name."""
    if not base.is_dir():
        return {}
    states = {folder.name: load(folder) for folder in sorted(base.iterdir()) if folder.is_dir()}
    return {name: state for name, state in states.items() if state is not None}


@contextmanager
def locked(folder: Path, what: str, *, wait: bool = False) -> Iterator[None]:
    """Keep others out of a folder that is there, or wait for them; the lock falls with the process that holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise LabError(f"another foresail command is at work on {what}; wait for it or end it") from None
        yield
    finally:
        os.close(descriptor)
