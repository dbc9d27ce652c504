"""Control groups of a lab, on hosts with cgroup v1 (one tree a controller) and v2 (one tree)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from foresail.lab.errors import LabError
from foresail.lab.processes import ProcessId, kill, start_ticks

_V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")
_PERIOD_US = 100_000
_EMPTY_S = 15.0


@dataclass(frozen=True)
class Hierarchy:
    """One mounted tree of control groups."""

    mount: Path
    controllers: frozenset[str]
    """Controllers of a v1 tree; empty for v2."""
    v2: bool

    def at(self, path: str) -> Path:
        return self.mount / path.lstrip("/")


def hierarchies(mounts: str | None = None) -> list[Hierarchy]:
    """The trees that Kubernetes uses here: every v1 tree, or else the v2 one.

    A hybrid host mounts a v2 tree without controllers beside the v1 trees; Kubernetes does not look at it.
    """
    trees = all_hierarchies(mounts)
    return [tree for tree in trees if not tree.v2] or trees[:1]


def all_hierarchies(mounts: str | None = None) -> list[Hierarchy]:
    """Every tree here. On a hybrid host runc makes its groups in the v2 tree too, so that one is to be cleaned."""
    lines = Path("/proc/self/mounts").read_text(encoding="utf-8") if mounts is None else mounts
    trees = []
    for line in lines.splitlines():
        _device, mount, kind, options, *_rest = line.split()
        if kind == "cgroup":
            trees.append(Hierarchy(Path(mount), frozenset(options.split(",")), v2=False))
        elif kind == "cgroup2":
            trees.append(Hierarchy(Path(mount), frozenset(), v2=True))
    return trees


def pod_path(root: str, pod: dict[str, object]) -> str:
    """The control group that a kubelet with this root makes for a pod."""
    status, metadata = pod["status"], pod["metadata"]
    assert isinstance(status, dict)  # noqa: S101 - the shape of every pod
    assert isinstance(metadata, dict)  # noqa: S101 - the shape of every pod
    quality = {"Guaranteed": "", "Burstable": "/burstable", "BestEffort": "/besteffort"}[status["qosClass"]]
    return f"{root}/kubepods{quality}/pod{metadata['uid']}"


def cpu_used_s(path: str, trees: Sequence[Hierarchy] | None = None) -> float:
    """Seconds of CPU that the processes of a control group have used so far."""
    for tree in trees if trees is not None else hierarchies():
        if tree.v2:
            for line in (tree.at(path) / "cpu.stat").read_text(encoding="ascii").splitlines():
                if line.startswith("usage_usec "):
                    return int(line.split()[1]) / 1e6
        elif "cpuacct" in tree.controllers:
            return int((tree.at(path) / "cpuacct.usage").read_text(encoding="ascii")) / 1e9
    raise LabError(f"no tree of control groups here counts CPU time; {path} cannot be measured")


def make(path: str, *, cpu_limit_milli: int, trees: Sequence[Hierarchy] | None = None) -> None:
    """Make a control group in every tree, ready for a kubelet, whose processes together get this much CPU."""
    try:
        _make(path, cpu_limit_milli * _PERIOD_US // 1000, hierarchies() if trees is None else trees)
    except OSError as error:
        raise LabError(
            f"the control group {path} cannot be made: {error}; real kubelets need a machine (or a container) whose "
            "control groups root may change; leave --kubelets out elsewhere"
        ) from error


def _make(path: str, quota_us: int, trees: Sequence[Hierarchy]) -> None:
    for tree in trees:
        folder = tree.mount
        for part in Path(path.lstrip("/")).parts:
            parent, folder = folder, folder / part
            if tree.v2:
                _pass_on_controllers(parent)
            folder.mkdir(exist_ok=True)
            if "cpuset" in tree.controllers:
                # A v1 group starts with no CPUs and takes no process until it has some.
                for name in ("cpuset.cpus", "cpuset.mems"):
                    if not (folder / name).read_text(encoding="ascii").strip():
                        (folder / name).write_text((parent / name).read_text(encoding="ascii"), encoding="ascii")
        if tree.v2:
            _pass_on_controllers(folder)
            (folder / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}", encoding="ascii")
        elif "cpu" in tree.controllers:
            (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US), encoding="ascii")
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us), encoding="ascii")


def _pass_on_controllers(folder: Path) -> None:
    """Let the children of a v2 group have the controllers it has."""
    there = (folder / "cgroup.controllers").read_text(encoding="ascii").split()
    wanted = " ".join(f"+{name}" for name in _V2_CONTROLLERS if name in there)
    if wanted:
        (folder / "cgroup.subtree_control").write_text(wanted, encoding="ascii")


def put_first(path: str, trees: Sequence[Hierarchy] | None = None) -> None:
    """Let a group have its CPU before others on the machine do, as far as its limit goes."""
    for tree in hierarchies() if trees is None else trees:
        if tree.v2:
            (tree.at(path) / "cpu.weight").write_text("10000", encoding="ascii")
        elif "cpu" in tree.controllers:
            (tree.at(path) / "cpu.shares").write_text("262144", encoding="ascii")


def process_files(path: str, trees: Sequence[Hierarchy] | None = None) -> list[Path]:
    """The files that take the number of a process which is to be in a group that `make` has made, one for each tree."""
    found = []
    for tree in hierarchies() if trees is None else trees:
        folder = tree.at(path)
        if tree.v2:
            # A group that passes controllers on takes no processes itself.
            folder = folder / "processes"
            folder.mkdir(exist_ok=True)
        found.append(folder / "cgroup.procs")
    return found


def processes_in(path: str, trees: Iterable[Hierarchy] | None = None) -> set[ProcessId]:
    """All processes in a control group and below it."""
    found = set()
    for tree in trees if trees is not None else all_hierarchies():
        for file in tree.at(path).rglob("cgroup.procs"):
            with suppress(OSError):
                for text in file.read_text(encoding="ascii").split():
                    started = start_ticks(int(text))
                    if started is not None:
                        found.add(ProcessId(int(text), started))
    return found


def remove(path: str, trees: Sequence[Hierarchy] | None = None) -> None:
    """Kill whatever runs in a control group and remove it with all groups below it, deepest first."""
    trees = all_hierarchies() if trees is None else trees
    deadline = time.monotonic() + _EMPTY_S
    while True:
        kill(processes_in(path, trees))
        left = [folder for tree in trees for folder in _deepest_first(tree.at(path)) if not _removed(folder)]
        if not left:
            return
        if time.monotonic() > deadline:
            raise LabError(
                f"the control group {left[0]} cannot be removed; see which processes are in its cgroup.procs"
            )
        # A killed process leaves its group a moment after it is gone from /proc.
        time.sleep(0.05)


def _deepest_first(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    below = [child for child in folder.rglob("*") if child.is_dir()]
    return [*sorted(below, key=lambda child: len(child.parts), reverse=True), folder]


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
