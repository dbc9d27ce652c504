"""How an experiment runs on a cluster. Settings alone, so that help is quick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foresail.errors import OptionError
from foresail.settings import setting


@dataclass(frozen=True, slots=True)
class KubeOptions:
    """What a cluster needs to know beyond the experiment."""

    image: str = setting("", metavar="IMAGE")
    """Image that trainers run in: Python, numpy and foresail.workloads; by default the one of a lab's nodes."""
    shared_folder: str | None = setting(None, example="/srv/foresail")
    """Folder that this machine and all nodes share, for checkpoints and progress of training jobs."""
    give_up_s: float = 3600.0
    """A run in which not all pods have ended after so long has failed."""
    keep_namespaces: bool = False
    """Leave the namespace of each run as it is."""

    def __post_init__(self) -> None:
        if not 0 < self.give_up_s < float("inf"):
            raise OptionError(f"--give-up is {self.give_up_s:g}; it is a time in seconds, above 0")
        if self.shared_folder is not None and not Path(self.shared_folder).is_absolute():
            raise OptionError(f"--shared-folder is {self.shared_folder}; nodes need its whole path, from / on")
