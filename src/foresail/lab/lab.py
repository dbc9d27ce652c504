"""A lab from outside: up, down, and how to talk to it."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from foresail.errors import OptionError
from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.errors import ClusterError
from foresail.kube.api.kinds import NODE
from foresail.kube.objects.values import Object
from foresail.lab import components, control_plane, fake_nodes, kubelet, packages, teardown, zookeeper
from foresail.lab.certificates import ADMIN
from foresail.lab.errors import LabError
from foresail.lab.processes import kill, marked
from foresail.lab.settings import LabSettings, settings_from
from foresail.lab.site import Show, Site
from foresail.lab.state import LabState, all_labs, check_is_free, check_name, labs_folder, load, locked

_NOT_READY_TAINT = "node.kubernetes.io/not-ready"


@dataclass(frozen=True)
class LabStatus:
    """What is there of a lab now."""

    name: str
    folder: Path
    ready: bool
    """Whether `up` came to its end."""
    url: str
    components: dict[str, int | None]
    """Component: its pid, or None if it has ended."""
    answers: bool
    """Whether the API server does."""
    nodes: dict[str, bool]
    """Node: whether it is Ready; empty if the API server does not answer."""
    zookeeper: str = ""
    """HOST:PORT of the lab's ZooKeeper; empty if it has none."""

    @property
    def is_whole(self) -> bool:
        """Whether all of it runs."""
        return self.ready and self.answers and None not in self.components.values() and all(self.nodes.values())


class Lab:
    """A real Kubernetes on this machine. As a context manager it is up inside and gone afterwards.

    with Lab(fake_nodes=5) as lab:
        with lab.api() as api:
            api.items(NODE.path)
    """

    def __init__(
        self, name: str | None = None, settings: LabSettings | None = None, *, base: Path | None = None, **more: object
    ) -> None:
        """Name a lab; nothing is started yet.

        `settings` may be given by its fields instead: `Lab(fake_nodes=5, scheduler=False)`.
        """
        self.name = check_name(name) if name is not None else f"lab-{secrets.token_hex(3)}"
        self.settings = settings or LabSettings(**more)  # type: ignore[arg-type]  # the fields are checked by LabSettings
        self.folder = (base or labs_folder()).resolve() / self.name
        self._state: LabState | None = None

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *_error: object) -> None:
        self.down()

    def up(self, show: Show | None = None, *, wait: bool = True) -> None:
        """Start what does not run yet; on an error or an interrupt a lab that was new is removed again."""
        self.settings.check()
        packages.need(kubelets=self.settings.kubelets > 0, zookeeper=self.settings.zookeeper)
        _need_programs(self.settings)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(f"{self.folder} cannot be made: {error.strerror}; name another place with --dir") from error
        with locked(self.folder, f"lab {self.name}"):
            state = load(self.folder)
            new = state is None
            if state is None:
                check_is_free(self.folder)
                state = LabState(self.name, settings=self.settings.as_dict())
                state.save(self.folder)
            self._same_settings(state)
            try:
                self._start(Site(self.folder, state, show or _show_nothing), wait=wait)
            except BaseException:
                if new:
                    teardown.remove(self.folder, state)
                raise
            self._state = state

    def _start(self, site: Site, *, wait: bool) -> None:
        control_plane.start(site)
        if site.settings.zookeeper:
            zookeeper.start(site)
        if site.settings.controllers:
            fake_nodes.start(site)
        if site.settings.kubelets:
            kubelet.start(site)
        if wait:
            _wait_for_nodes(site)
        site.state.ready = True
        site.record()

    def _same_settings(self, state: LabState) -> None:
        wanted, there = self.settings.as_dict(), settings_from(state.settings).as_dict()
        other = [f"{name} {there[name]}" for name in wanted if wanted[name] != there[name]]
        if other:
            raise OptionError(
                f"lab {self.name} is up with {', '.join(other)}; say the same, or first run: "
                f"foresail lab down --name {self.name}"
            )

    def down(self) -> bool:
        """Remove every trace of the lab; returns whether there was one."""
        self._state = None
        if not self.folder.is_dir():
            return False
        with locked(self.folder, f"lab {self.name}"):
            state = load(self.folder)
            if state is None:
                check_is_free(self.folder)
            teardown.remove(self.folder, state)
        return True

    def restart(self, component: str) -> None:
        """Kill a component and start it again as it was, on the same port with the same certificates and data."""
        with locked(self.folder, f"lab {self.name}"):
            there = self.state.processes.get(component)
            if there is None:
                known = ", ".join(sorted(self.state.processes))
                raise LabError(f'lab {self.name} has no component "{component}" (it has {known})')
            kill([there])
            self._start(self._site, wait=False)

    @property
    def state(self) -> LabState:
        if self._state is None:
            self._state = load(self.folder)
        if self._state is None or "kube-apiserver" not in self._state.ports:
            known = ", ".join(all_labs(self.folder.parent)) or "none"
            raise LabError(
                f'no lab "{self.name}" in {self.folder.parent} (there: {known}); start it with: foresail lab up'
            )
        return self._state

    @property
    def _site(self) -> Site:
        return Site(self.folder, self.state, _show_nothing)

    @property
    def url(self) -> str:
        return self._site.url

    @property
    def zookeeper(self) -> str:
        """HOST:PORT of the lab's ZooKeeper; empty if it has none."""
        port = self.state.ports.get(zookeeper.ZOOKEEPER)
        return "" if port is None else f"127.0.0.1:{port}"

    @property
    def kubeconfig(self) -> Path:
        """For an administrator; the keys are inside."""
        return self._site.kubeconfig(ADMIN.file)

    @property
    def ca(self) -> Path:
        return self._site.certificates.authority

    @property
    def client_certificate(self) -> Path:
        return self._site.certificates.certificate(ADMIN.file)

    @property
    def client_key(self) -> Path:
        return self._site.certificates.key(ADMIN.file)

    def api(self) -> BlockingClient:
        """A connection as administrator; close it."""
        return self._site.api()

    @property
    def kubelet_nodes(self) -> list[kubelet.KubeletNode]:
        return kubelet.nodes_of(self._site)

    def logs(self) -> dict[str, Path]:
        """Component: its log file."""
        return {path.stem: path for path in sorted((self.folder / "logs").glob("*.log"))}

    def status(self) -> LabStatus:
        state = self.state
        running = {process.pid for process in marked(state.lab_id)}
        pids = {name: process.pid if process.pid in running else None for name, process in state.processes.items()}
        nodes, answers = {}, False
        # A lab that is half dead is what one asks the status of.
        with suppress(LabError, ClusterError), self.api() as api:
            nodes = {node["metadata"]["name"]: _is_ready(node) for node in api.items(NODE.path)}
            answers = True
        return LabStatus(self.name, self.folder, state.ready, self.url, pids, answers, nodes, self.zookeeper)


def _need_programs(settings: LabSettings) -> None:
    programs = ["kube-apiserver"]
    programs += ["kube-controller-manager", "kwok"] if settings.controllers else []
    programs += ["kube-scheduler"] if settings.scheduler else []
    programs += ["kubelet"] if settings.kubelets else []
    for program in programs:
        components.need(program)


def _wait_for_nodes(site: Site) -> None:
    settings = site.settings
    count = settings.fake_nodes + settings.kubelets
    if not count:
        return
    site.show(f"waiting for {count} nodes to be ready")
    real = [node.kubelet for node in kubelet.nodes_of(site)]
    with site.api() as api:
        site.wait(
            "all nodes were ready",
            lambda: sum(_is_ready(node) for node in api.items(f"{NODE.path}?resourceVersion=0")) >= count,
            "kube-apiserver",
            "kube-controller-manager",
            "kwok",
            *real,
            within_s=120 + count / 20,
        )


def _is_ready(node: Object) -> bool:
    conditions = {one["type"]: one["status"] for one in node.get("status", {}).get("conditions", [])}
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return conditions.get("Ready") == "True" and _NOT_READY_TAINT not in taints


def _show_nothing(_step: str) -> None:
    pass
