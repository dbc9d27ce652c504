"""The programs a lab is made of: which version, where from, and where they are found."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from foresail.lab.errors import LabError

KUBERNETES_VERSION = "1.36.3"
KWOK_VERSION = "0.8.0"
HELM_VERSION = "3.22.0"


@dataclass(frozen=True)
class GoModule:
    """A published Go module that some of the lab's programs are compiled from."""

    name: str
    """Short name, also of its folder in the cache."""
    path: str
    """Module path, as `go get` takes it."""
    version: str
    """Version without the leading v."""
    commands: tuple[str, ...]
    """Packages of the module that become programs; a program is called like the last part."""
    staging_version: str = ""
    """Version of the modules that the module's own go.mod takes from its tree; empty if it takes none."""
    link_flags: str = "-s -w"

    @property
    def programs(self) -> tuple[str, ...]:
        return tuple(command.rpartition("/")[2] for command in self.commands)


KUBERNETES = GoModule(
    name="kubernetes",
    path="k8s.io/kubernetes",
    version=KUBERNETES_VERSION,
    commands=tuple(
        f"k8s.io/kubernetes/cmd/{program}"
        for program in ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubelet")
    ),
    # Kubernetes 1.x.y publishes its libraries as 0.x.y.
    staging_version="0" + KUBERNETES_VERSION[1:],
    # Without it every program reports v0.0.0 and the API server refuses to emulate a version.
    link_flags=f"-s -w -X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION}",
)
KWOK = GoModule("kwok", "sigs.k8s.io/kwok", KWOK_VERSION, ("sigs.k8s.io/kwok/cmd/kwok",))
HELM = GoModule(
    "helm",
    "helm.sh/helm/v3",
    HELM_VERSION,
    ("helm.sh/helm/v3/cmd/helm",),
    # Charts ask for versions: without these every Helm is v3.0 and renders for Kubernetes 1.20.
    link_flags=" ".join(
        (
            "-s -w",
            f"-X helm.sh/helm/v3/internal/version.version=v{HELM_VERSION}",
            "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",
            f"-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor={KUBERNETES_VERSION.split('.')[1]}",
            "-X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1",
            f"-X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor={KUBERNETES_VERSION.split('.')[1]}",
        )
    ),
)
"""No part of a lab: it renders and checks the chart."""
MODULES = (KUBERNETES, KWOK)
VERSIONS = {program: module.version for module in (*MODULES, HELM) for program in module.programs}


def cache_folder() -> Path:
    """Where compiled programs are kept between labs."""
    stated = os.environ.get("XDG_CACHE_HOME")
    return (Path(stated) if stated else Path.home() / ".cache") / "foresail" / "lab"


def cached(program: str) -> Path:
    """Where `foresail lab build` puts a program."""
    return cache_folder() / "bin" / f"{program}-{VERSIONS[program]}"


def find(program: str) -> Path | None:
    """A program from $KUBEBUILDER_ASSETS, else from PATH, else from the cache; None if it is nowhere."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for folder in ([assets] if assets else []) + [None]:
        found = shutil.which(program, path=folder)
        if found:
            return Path(found).resolve()
    place = cached(program) if program in VERSIONS else None
    return place if place is not None and os.access(place, os.X_OK) else None


def need(program: str) -> Path:
    """A program that must be there by now."""
    found = find(program)
    if found is None:
        raise LabError(
            f"{program} is in neither $KUBEBUILDER_ASSETS, PATH nor {cache_folder()}; "
            f"run: foresail lab build{' --helm' if program in HELM.programs else ''}"
        )
    return found
