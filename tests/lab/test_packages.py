from __future__ import annotations

import pytest

from foresail.lab import packages
from foresail.lab.errors import LabError


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine with nothing on it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(packages, "CNI_FOLDERS", (tmp_path / "cni",))


def test_each_missing_package_is_named_once(bare):
    assert packages.missing(kubelets=False) == ["etcd-server", "openssl"]
    assert packages.missing(kubelets=True) == [
        *("etcd-server", "openssl", "containerd", "runc", "iproute2", "busybox-static", "containernetworking-plugins")
    ]
    assert packages.missing(kubelets=False, zookeeper=True) == ["etcd-server", "openssl", "zookeeper"]
    assert packages.missing(kubelets=False, measuring=True) == ["etcd-server", "openssl", "stress-ng"]


def test_the_error_is_the_command_to_run(bare):
    with pytest.raises(LabError, match="run as root: apt-get install -y --no-install-recommends etcd-server openssl "):
        packages.need(kubelets=False)
    with pytest.raises(LabError, match=r"openssl zookeeper \(or: foresail lab build --install --zookeeper\)"):
        packages.need(kubelets=False, zookeeper=True)


def test_only_root_may_install(bare, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LabError, match=r"--install needs root; run: sudo apt-get install .* etcd-server"):
        packages.install(["etcd-server"])


def test_a_failing_apt_get_is_told(tmp_path, bare, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    program = tmp_path / "apt-get"
    program.write_text("#!/bin/sh\necho E: no network >&2\nexit 100\n")
    program.chmod(0o755)
    with pytest.raises(LabError, match="apt-get update -q failed: E: no network"):
        packages.install(["etcd-server"])


def test_services_of_packages_are_not_started(tmp_path, bare, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    program = tmp_path / "apt-get"
    program.write_text(f'#!/bin/sh\necho "$1 $RUNLEVEL $SYSTEMD_OFFLINE" >> {tmp_path}/said\n')
    program.chmod(0o755)
    packages.install(["prometheus"])
    assert (tmp_path / "said").read_text() == "update 1 1\ninstall 1 1\n"
