"""The Debian packages a lab needs beside what it compiles."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from foresail.lab.errors import LabError

CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CONTROL_PLANE = {"etcd": "etcd-server", "openssl": "openssl"}
KUBELETS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "busybox": "busybox-static",
}
MEASURING = {"stress-ng": "stress-ng"}
"""For `foresail measure stress` on the machine itself; a lab does without."""
ZOOKEEPER_JAR = Path("/usr/share/java/zookeeper.jar")
ZOOKEEPER_PACKAGE = "zookeeper"
"""Brings Java along. Not zookeeperd, which is the same as a service of the machine."""
CNI_PACKAGE = "containernetworking-plugins"


def cni_folder() -> Path | None:
    """Where the CNI plug-ins are."""
    return next((folder for folder in CNI_FOLDERS if (folder / "bridge").is_file()), None)


def missing(*, kubelets: bool, measuring: bool = False, zookeeper: bool = False) -> list[str]:
    """Names of the Debian packages that are not there, in the order to install them."""
    needed = CONTROL_PLANE | (KUBELETS if kubelets else {}) | (MEASURING if measuring else {})
    lacking = [package for program, package in needed.items() if shutil.which(program) is None]
    if kubelets and cni_folder() is None:
        lacking.append(CNI_PACKAGE)
    if zookeeper and (shutil.which("java") is None or not ZOOKEEPER_JAR.is_file()):
        lacking.append(ZOOKEEPER_PACKAGE)
    return list(dict.fromkeys(lacking))


def install_command(packages: list[str]) -> str:
    """The line for a shell that installs these packages."""
    return f"apt-get install -y --no-install-recommends {' '.join(packages)}"


def need(*, kubelets: bool, zookeeper: bool = False) -> None:
    """Raise an error with the command to run if packages are missing."""
    lacking = missing(kubelets=kubelets, zookeeper=zookeeper)
    if lacking:
        build = f"foresail lab build --install{' --zookeeper' if zookeeper else ''}"
        raise LabError(f"missing programs; run as root: {install_command(lacking)} (or: {build})")


def install(packages: list[str]) -> None:
    """Install packages with apt-get; needs root."""
    if os.geteuid() != 0:
        raise LabError(f"--install needs root; run: sudo {install_command(packages)}")
    # The packages' own services are kept from starting, on machines with systemd and without: a lab runs its own,
    # beside whatever else runs.
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1", "SYSTEMD_OFFLINE": "1"}
    environment = {**os.environ, **quiet}
    for command in (["apt-get", "update", "-q"], install_command(packages).split()):
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - as written here
        if ran.returncode:
            said = (ran.stderr or ran.stdout).strip().splitlines()[-1:]
            raise LabError(f"{' '.join(command)} failed: {' '.join(said)}")
