"""Remove every trace of a lab, whatever state it was left in."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from foresail.lab import cgroups, network
from foresail.lab.errors import LabError
from foresail.lab.processes import kill, marked
from foresail.lab.state import STATE_FILE, LabState, all_labs, locked

_CNI_RESULTS = Path("/var/lib/cni/results")
_LOG_LINKS = Path("/var/log/containers")
_SHIM_SOCKETS = Path("/run/containerd/s")
_KUBELET_LEFTOVERS = {"kubelet.sock", "kubelet_internal_checkpoint", "DEPRECATION"}
"""In /var/lib/kubelet/device-plugins, wherever a kubelet's own root is."""
_ATTEMPTS = 50


def remove(folder: Path, state: LabState | None) -> None:
    """End a lab's processes and remove all it made, its folder last, so that a second try finds what is left."""
    if state is not None:
        if state.cgroups and os.geteuid() != 0:
            raise LabError(f"lab {state.name} has kubelets; only root can remove it: sudo foresail lab down")
        _end_processes(state)
        # Shims write down their sockets in the lab's folder, CNI its results with the lab's paths in them.
        sockets = _shim_sockets(folder)
        for mount in mounts_below(folder):
            _unmount(mount)
        for path in state.cgroups:
            cgroups.remove(path)
        for bridge in state.bridges:
            network.remove_bridge(bridge)
        for leftover in (*sockets, *_cni_results(folder, state), *_log_links(folder)):
            leftover.unlink(missing_ok=True)
    # No lab may begin to count on what is shared between our look at the others and our end.
    with locked(folder.parent, "all labs", wait=True):
        if state is not None:
            _restore_machine(folder, state)
        _remove_tree(folder)


def _end_processes(state: LabState) -> None:
    """Kill until none is left: a containerd that dies last may still have started a shim."""
    for _attempt in range(_ATTEMPTS):
        running = {*marked(state.lab_id), *(process for process in state.processes.values() if process.alive)}
        for path in state.cgroups:
            running |= cgroups.processes_in(path)
        if not running:
            return
        kill(running)
    raise LabError(f"processes of lab {state.name} keep coming back: {sorted(process.pid for process in running)}")


def mounts_below(folder: Path, mountinfo: str | None = None) -> list[str]:
    """Mount points below a folder, the last mounted first."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8") if mountinfo is None else mountinfo
    inside = str(folder.resolve()) + "/"
    points = [_unescaped(line.split()[4]) for line in lines.splitlines()]
    return [point for point in reversed(points) if point.startswith(inside)]


def _unescaped(text: str) -> str:
    """Spaces and the like are written in octal in mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _unmount(point: str) -> None:
    # Lazily: what is still open goes with the process that holds it.
    ran = subprocess.run(["umount", "-l", point], capture_output=True, text=True, check=False)  # noqa: S603, S607 - as written here
    if ran.returncode and point in mounts_below(Path(point).parent):
        raise LabError(f"{point} cannot be unmounted: {ran.stderr.strip()}")


def _shim_sockets(folder: Path) -> list[Path]:
    """The sockets of containerd's shims, which lie outside of the lab's folder."""
    found = []
    for file in folder.glob("nodes/*/run/io.containerd.runtime.v2.task/*/*/address"):
        with suppress(OSError):
            found.append(Path(file.read_text(encoding="utf-8").strip().removeprefix("unix://")))
    return [path for path in found if path.parent == _SHIM_SOCKETS]


def _cni_results(folder: Path, state: LabState) -> list[Path]:
    """What CNI remembers of the lab's pods."""
    found = []
    for path in _CNI_RESULTS.iterdir() if state.bridges and _CNI_RESULTS.is_dir() else ():
        with suppress(OSError, ValueError, AttributeError):
            result = json.loads(path.read_text(encoding="utf-8"))
            # Another lab's folder may begin with the name of this one's.
            if result.get("networkName") in state.bridges or f"{folder}/" in json.dumps(result, ensure_ascii=False):
                found.append(path)
    return found


def _log_links(folder: Path) -> list[Path]:
    """Links that kubelets make to the logs of containers, in one folder for the whole machine."""
    return [link for link in _LOG_LINKS.glob("*.log") if link.is_symlink() and link.readlink().is_relative_to(folder)]


def _restore_machine(folder: Path, state: LabState) -> None:
    """Put back what several labs share, once the last of them goes."""
    others = [other for name, other in all_labs(folder.parent).items() if name != folder.name]
    if not any(other.kernel_settings_were for other in others):
        for path, value in state.kernel_settings_were.items():
            if Path(path).read_text(encoding="ascii").strip() != value:
                Path(path).write_text(value, encoding="ascii")
    needed = {path for other in others for path in other.made_paths}
    for made in state.made_paths:
        if made not in needed:
            _remove_empty(Path(made))


def _remove_empty(folder: Path) -> None:
    """Remove folders that hold nothing but what kubelets leave: others may have begun to use them since."""
    for path in (folder, *folder.rglob("*")):
        if path.name in _KUBELET_LEFTOVERS and not path.is_dir():
            path.unlink(missing_ok=True)
    for below in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
        with suppress(OSError):
            below.rmdir()
    with suppress(OSError):
        folder.rmdir()


def _remove_tree(folder: Path) -> None:
    state = folder / STATE_FILE
    for _attempt in range(_ATTEMPTS):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path != state:
                with suppress(OSError):
                    path.unlink()
        # The state goes last: a folder without one is not taken for a lab's.
        if not any(path != state for path in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        # A lazily unmounted folder is busy for a moment.
        time.sleep(0.1)
    left: Iterable[str] = (str(path) for path in folder.rglob("*"))
    raise LabError(f"{folder} cannot be removed; left in it: {next(iter(left), 'nothing')}")
