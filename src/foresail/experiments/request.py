"""What can be asked for: one run, or what would fit a cluster as it stands. Settings alone, so that help is quick."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from foresail.errors import OptionError, did_you_mean
from foresail.settings import command_words, setting
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.traces.training.settings import TrainingSettings

PROTOCOLS = ("openb", "clock")
BASELINE = "baseline"
"""Pins pods to where they start in the same run without controllers."""


def check_controllers(controllers: tuple[str, ...], protocol: str) -> None:
    """Refuse controllers where no time passes."""
    if controllers and protocol != "clock":
        raise OptionError(
            "--controller needs --protocol clock; in protocol openb no time passes in which anything could change"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConditions:
    """What the runs of a comparison share, and a single run has as well."""

    protocol: str = "openb"
    """openb: the published experiment, by load. clock: arrivals, durations and departures of the trace."""
    load: float = 1.3
    """Protocol openb: GPUs that arriving pods ask for in all, as a multiple of the cluster's."""
    skip_bad_rows: bool = False
    """Drop and count rows that cannot be used, instead of stopping at the first."""
    faults: str | None = setting(None, is_file=True)
    """Protocol clock: CSV of node failures and repairs."""
    clock: ClockSettings = setting(default_factory=ClockSettings)
    """Protocol clock"""
    training: TrainingSettings | None = setting(None, said_if_given=True)
    """Training jobs"""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            near = did_you_mean(self.protocol, PROTOCOLS)
            raise OptionError(f'no protocol "{self.protocol}"{near or ";"} there are {" and ".join(PROTOCOLS)}')
        if not 0 < self.load <= 100:
            raise OptionError(
                f"--load is {self.load:g}; it is a multiple of the cluster's GPUs, above 0 and at most 100"
            )
        if self.faults is not None and self.protocol != "clock":
            raise OptionError(
                "--faults needs --protocol clock; in protocol openb no time passes in which a node could fail"
            )
        if self.training is not None and (self.protocol != "clock" or self.clock.work != "shared-cpu"):
            raise OptionError("--schedule needs --protocol clock and --work shared-cpu: training jobs share CPU")


@dataclass(frozen=True, slots=True)
class RunRequest(RunConditions):
    """Everything that decides what a run gives. Two equal requests over equal files give equal bytes."""

    nodes: str = setting("", is_file=True)
    """Node list: .csv, .parquet, .yaml or .json."""
    pods: str = setting("", is_file=True)
    """Pod list: .csv, .parquet, .yaml or .json."""
    policy: str = "fgd"
    """A policy, a mix such as power:100+fgd:900, or a profile: TOML, or kube-scheduler's YAML."""
    seed: int = 42
    """Seed of everything random in the run."""
    controllers: tuple[str, ...] = setting((), option="--controller", example="equal-shares", said_if_given=True)
    """Protocol clock: what changes while pods run: NAME, or NAME:key=value,key=value. Repeat it for more."""
    pin_to: str | None = setting(None, metavar="RESULTS", said_if_given=True)
    """Protocol clock: let every pod first start where it did in this results folder, or in a CSV file with the columns
    pod and node; baseline: where it starts in the same run without controllers."""

    def __post_init__(self) -> None:
        RunConditions.__post_init__(self)
        if self.seed < 0:
            raise OptionError(f"--seed is {self.seed}; a seed is 0 or more")
        check_controllers(self.controllers, self.protocol)
        if self.pin_to is not None and self.protocol != "clock":
            raise OptionError("--pin-to needs --protocol clock; in protocol openb pods start once and stay")
        if self.pin_to == BASELINE and not self.controllers:
            raise OptionError("--pin-to baseline needs --controller; without one this is the baseline")
        if self.training is not None and (self.nodes or self.pods):
            raise OptionError("--schedule makes nodes and pods itself; leave --nodes and --pods out")
        if self.training is None and not (self.nodes and self.pods):
            raise OptionError("--nodes or --pods is missing; name a node list and a pod list, or jobs with --schedule")

    @property
    def command(self) -> list[str]:
        """The command that gives this run again, however it was started."""
        files = ("nodes", "pods") if self.training is None else ()
        always = ("protocol", *files, "policy", "seed", *(["load"] if self.protocol == "openb" else []))
        never = ("clock",) if self.protocol == "openb" else ("load",)
        return ["foresail", "simulate", *command_words(self, always=always, never=never)]

    def __str__(self) -> str:
        return shlex.join(self.command)


@dataclass(frozen=True, slots=True)
class WhatIfRequest:
    """Everything that decides the answer. Two equal requests over equal files give equal bytes."""

    snapshot: str = setting(option="--from-snapshot", is_file=True)
    """Start from a cluster in a file of foresail trace snapshot: would its waiting pods, and those of --pods, fit now,
    and where?"""
    policy: str = "kubernetes"
    """A policy, a mix, or a profile; Kubernetes' filters hold unless a profile names its own."""
    pods: str | None = setting(None, is_file=True)
    """Pods to try that the cluster does not have."""
    replicas: int = 1
    """Try so many copies of the pods in --pods."""
    waiting: bool = setting(default=True, off="--no-waiting")
    """Whether pods that wait in it have their turn, too."""
    evict_all: bool = False
    """Place all pods anew, those on nodes too."""
    seed: int = 42
    """Seed of everything random in the run."""
    skip_bad_rows: bool = False
    """Drop and count rows that cannot be used, instead of stopping at the first."""

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise OptionError(f"--replicas is {self.replicas}; try 1 copy or more")
        if self.replicas > 1 and self.pods is None:
            raise OptionError("--replicas needs --pods: the pods to copy")
        if not self.waiting and self.pods is None and not self.evict_all:
            raise OptionError("--no-waiting leaves nobody to place; name pods with --pods")
        if self.seed < 0:
            raise OptionError(f"--seed is {self.seed}; a seed is 0 or more")

    @property
    def command(self) -> list[str]:
        """The command that gives this answer again."""
        return ["foresail", "simulate", *command_words(self, always=("snapshot", "policy", "seed"))]

    def __str__(self) -> str:
        return shlex.join(self.command)
