"""A lab's folder and its state, as those who start its components see them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from foresail.atomic import replacing
from foresail.errors import InputError
from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.connect import with_certificate
from foresail.lab import processes
from foresail.lab.certificates import ADMIN, Certificates
from foresail.lab.errors import LabError
from foresail.lab.settings import LabSettings, settings_from
from foresail.lab.state import LabState

Show = Callable[[str], None]
_POLL_S = 0.1


class Site:
    """Where a lab is being made: paths, certificates, and processes that are recorded as they start."""

    def __init__(self, folder: Path, state: LabState, show: Show) -> None:
        self.folder = folder
        self.state = state
        self.show = show
        self.certificates = Certificates(folder / "certificates")

    @property
    def settings(self) -> LabSettings:
        return settings_from(self.state.settings)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.state.ports['kube-apiserver']}"

    def api(self) -> BlockingClient:
        certificates = self.certificates
        try:
            connection = with_certificate(
                self.url,
                authority=certificates.authority,
                certificate=certificates.certificate(ADMIN.file),
                key=certificates.key(ADMIN.file),
                source=f"lab {self.state.name}; see: foresail lab status",
            )
        except InputError as error:
            raise LabError(
                f"{self.folder} lacks the certificates to talk to {self.url}: {error}; see: foresail lab status"
            ) from error
        return BlockingClient(connection)

    def record(self) -> None:
        """Write the state down. Called before a thing is made, never after."""
        self.state.save(self.folder)

    def log(self, component: str) -> Path:
        return self.folder / "logs" / f"{component}.log"

    def kubeconfig(self, user: str) -> Path:
        """A kubeconfig for one of the lab's users, written when first asked for."""
        path = self.folder / f"{user}.kubeconfig"
        if not path.is_file():
            with replacing(path) as part:
                part.touch(mode=0o600)
                part.write_text(self.certificates.kubeconfig(user, self.url), encoding="utf-8")
        return path

    def start(self, component: str, command: Sequence[str | Path]) -> bool:
        """Start a component unless it runs already; returns whether it was started."""
        there = self.state.processes.get(component)
        if there is not None and there.alive:
            return False
        # An `up` that was killed may have started it without coming to write that down.
        unrecorded = processes.running(self.state.lab_id, command)
        if unrecorded is None:
            self.show(f"starting {component}")
            self.log(component).parent.mkdir(exist_ok=True)
            self.state.processes[component] = processes.launch(
                command, log=self.log(component), lab_id=self.state.lab_id, folder=self.folder
            )
        else:
            self.state.processes[component] = unrecorded
        self.record()
        return unrecorded is None

    def wait(self, what: str, until: Callable[[], bool], *components: str, within_s: float = 60.0) -> None:
        """Ask again and again until it is so; gives up when time is over or one of the components has died."""
        deadline = time.monotonic() + within_s
        while True:
            if until():
                return
            for component in components:
                if not self.state.processes[component].alive:
                    raise LabError(f"{component} ended before {what}{processes.last_lines(self.log(component))}")
            if time.monotonic() > deadline:
                told = "".join(processes.last_lines(self.log(component)) for component in components)
                raise LabError(f"{what}: not within {within_s:g} s{told}")
            time.sleep(_POLL_S)
