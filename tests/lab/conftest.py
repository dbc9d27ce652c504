"""What the tests on real servers share."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from foresail.lab import cgroups
from foresail.lab.kubelet import KERNEL_SETTINGS, OUTSIDE

PROGRAMS = {
    *("etcd", "kube-apiserver", "kube-controller", "kube-scheduler", "kwok", "kubelet"),
    *("containerd", "containerd-shim", "runc", "busybox", "httpd", "java"),
}
"""Names in /proc/PID/comm (at most 15 characters) of whatever a lab may start."""
_SETTLED_S = 20.0


@dataclass(frozen=True)
class Traces:
    """What a lab could leave behind, counted on the whole machine, not by the lab's own book-keeping."""

    processes: frozenset[str]
    mounts: tuple[str, ...]
    cgroups: frozenset[str]
    links: frozenset[str]
    network_namespaces: int
    outside: frozenset[str]
    kernel_settings: tuple[str, ...]


def traces() -> Traces:
    return Traces(
        processes=_processes(),
        mounts=tuple(
            sorted(line.split()[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines())
        ),
        cgroups=_cgroups(),
        links=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
        network_namespaces=len(_network_namespaces()),
        outside=frozenset(path for path in (*OUTSIDE, "/run/netns", "/opt/containerd") if Path(path).exists()),
        kernel_settings=tuple(Path(path).read_text(encoding="ascii") for path in KERNEL_SETTINGS),
    )


def _processes() -> frozenset[str]:
    found = set()
    for folder in Path("/proc").iterdir():
        try:
            name = (folder / "comm").read_text(encoding="utf-8").strip() if folder.name.isdigit() else ""
            # A zombie awaits init, which is no business of a lab.
            state = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] if name else "Z"
        except OSError:
            continue
        # Programs of the cache carry their version, as far as it fits.
        if re.sub(r"-[\d.]*$", "", name) in PROGRAMS and state != "Z":
            found.add(f"{name} {folder.name}")
    return frozenset(found)


def _cgroups() -> frozenset[str]:
    found = set()
    for tree in cgroups.all_hierarchies():
        for folder, _folders, _files in os.walk(tree.mount):
            # Groups of whoever runs the tests come and go.
            if "foresail" in folder or "kubepods" in folder or "k8s.io" in folder:
                found.add(folder)
    return frozenset(found)


def _network_namespaces() -> set[str]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(str(path.readlink()))
        except OSError:
            continue
    return found


@pytest.fixture(scope="session")
def labs() -> Iterator[Path]:
    """A folder for labs: not pytest's own, whose paths are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="fs-") as folder:
        yield Path(folder)


@dataclass(frozen=True)
class Machine:
    """The machine before a test."""

    before: Traces

    def changed(self) -> set[str]:
        """The kinds of traces that are not as before."""
        now = traces()
        return {kind.name for kind in fields(now) if getattr(now, kind.name) != getattr(self.before, kind.name)}


@pytest.fixture
def nothing_left() -> Iterator[Machine]:
    """Whatever the test does, the machine must be as before."""
    before = traces()
    yield Machine(before)
    # The kernel takes a network namespace and its cables down a moment after the last process in it.
    deadline = time.monotonic() + _SETTLED_S
    while traces() != before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert traces() == before
