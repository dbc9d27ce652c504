"""What a world of training jobs is made of. Settings alone, so that help is quick."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from foresail.errors import OptionError, did_you_mean
from foresail.settings import setting

SCHEDULES = ("7", "20", "25", "50", "random")
Start = Literal["balanced", "cold-images", "random", "released"]
STARTS: tuple[str, ...] = get_args(Start)
OWNERS = ("Job", "Deployment", "Pod")
"""What makes the pod of a job anew when it goes; Pod: nobody but who moves it."""


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Training jobs on a small cluster, all made up from the run's seed. A field is a key of `[training]`."""

    schedule: str = setting(example="50")
    """Training jobs instead of a trace: 7, 20 or 25 of the published schedules, 50 of a random one, or random."""
    jobs: int | None = setting(None, option="--training-jobs", example=100)
    """Schedule random: how many jobs."""
    over_s: float | None = setting(None, option="--submit-over", example=300)
    """Schedules 50 and random: jobs are submitted over so long, in seconds; by default 300."""
    start: Start = "balanced"
    """Where jobs go at first. balanced: every node has every image. cold-images: nodes have images once a pod with it
    has started there, which draws others of its kind. random: anywhere. released: the first jobs as in
    the released log, 12, 6, 5 and 3 on four nodes."""
    nodes: int = setting(4, option="--node-count")
    """How many nodes."""
    cores: float = 16.0
    """CPUs of a node."""
    limit_milli: int = 4000
    """The most CPU that a job may use, in milli-CPU."""
    request_milli: int = 250
    """What a job requests, in milli-CPU: also its weight where jobs compete."""
    mean_work_cpu_s: float = setting(1200.0, option="--mean-work", metavar="CPU-SECONDS")
    """Work of a job, the mean over models: as long as the published jobs. 0 leaves it as it was measured."""
    work_spread: float = 0.2
    """How far jobs of one model differ: standard deviation of the logarithm of their work."""
    image_mib: int = 1200
    """Size of a model's image in MiB."""
    models: str | None = setting(None, metavar="FILE.json", is_file=True, said_if_given=True)
    """File of models, as foresail measure training writes it; by default the one that comes with Foresail."""
    owners: tuple[str, ...] = setting((), option="--owner", example="Job", said_if_given=True)
    """What the jobs are on a cluster, in turn: Job, Deployment or Pod; by default Jobs. Repeat it for more."""

    def __post_init__(self) -> None:
        named = (("schedule", self.schedule, SCHEDULES), ("start", self.start, STARTS))
        for what, name, known in (*named, *(("owner", owner, OWNERS) for owner in self.owners)):
            if name not in known:
                near = did_you_mean(name, known) or ";"
                raise OptionError(f'no {what} "{name}"{near} there are {", ".join(known)}')
        if (self.jobs is None) == (self.schedule == "random"):
            has = f"jobs is {self.jobs}" if self.jobs is not None else "jobs is not given"
            raise OptionError(f"{has} but schedule is {self.schedule}; schedule random needs jobs, others have theirs")
        if self.over_s is not None and self.schedule not in {"50", "random"}:
            raise OptionError(f"over_s is {self.over_s:g} but schedule {self.schedule} has its own times; leave it out")
        for name, least in (("jobs", 1), ("nodes", 1), ("limit_milli", 1), ("request_milli", 1), ("image_mib", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise OptionError(f"{name} is {value}; write {least} or more")
        for name in ("over_s", "mean_work_cpu_s", "work_spread"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise OptionError(f"{name} is {value:g}; write a number, 0 or more")
        if not 0 < self.cores < math.inf or self.cores * 1000 != round(self.cores * 1000):
            raise OptionError(f"cores is {self.cores:g}; write CPUs of a node, above 0, to a thousandth")
        if self.request_milli > min(self.limit_milli, self.cores * 1000):
            raise OptionError(
                f"request_milli is {self.request_milli}; it is at most limit_milli, {self.limit_milli}, and a node's "
                f"{self.cores * 1000:g}"
            )
        if self.start == "released" and self.nodes != 4:
            raise OptionError(f'start "released" is over four nodes, and nodes is {self.nodes}; write 4')

    @property
    def name(self) -> str:
        """What its runs go by in tables and folders."""
        jobs = self.jobs if self.schedule == "random" else self.schedule
        return f"{jobs} jobs, {self.start}, {self.nodes} x {self.cores:g} cores"
