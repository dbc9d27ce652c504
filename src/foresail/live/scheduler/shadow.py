"""Decide beside another scheduler without binding anything, and write down where the choices differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import msgspec

from foresail.core.explain import explain
from foresail.core.model import NoFit, Pod
from foresail.core.profile import Profile
from foresail.errors import PolicyError, ResultsError
from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.live.cache.cache import Cache
from foresail.live.cache.listener import Listener
from foresail.live.cache.pods import CachedPod
from foresail.live.program import Announce, Part, Program, connected, run_until_signal
from foresail.live.scheduler.run import RunSettings, check_names, lessons_for, profile_for


@dataclass(frozen=True, slots=True)
class ShadowedPod:
    """One pod that the other scheduler has bound, and what we would have done at that moment."""

    pod: str
    theirs: str
    """The node it was bound to."""
    ours: str
    """The node we would have chosen; empty if none."""
    agree: bool
    """The same node, or one that we score as high."""
    feasible: bool
    """Whether their node passes our filters."""
    our_score: float | None
    their_score: float | None
    """What our profile gives their node; None if it does not pass our filters."""
    why: str = ""
    """Why we would have placed it nowhere, or what a policy failed on."""


@dataclass(slots=True)
class Agreement:
    """All choices so far, counted."""

    pods: int = 0
    same_node: int = 0
    as_good: int = 0
    """Another node than ours, with the same score."""
    worse: int = 0
    """Their node scores lower under our profile."""
    infeasible: int = 0
    """Their node does not pass our filters."""
    nowhere: int = 0
    """We would have let the pod wait, or our policy failed."""

    def add(self, choice: ShadowedPod) -> None:
        self.pods += 1
        if not choice.ours:
            self.nowhere += 1
        elif choice.ours == choice.theirs:
            self.same_node += 1
        elif choice.agree:
            self.as_good += 1
        elif choice.feasible:
            self.worse += 1
        else:
            self.infeasible += 1

    def __str__(self) -> str:
        agreed = self.same_node + self.as_good
        part = f" ({100 * agreed / self.pods:.1f} %)" if self.pods else ""
        return (
            f"{self.pods} pods bound by the other scheduler; agreed on {agreed}{part}: "
            f"{self.same_node} on the same node, {self.as_good} on one as good; "
            f"{self.worse} on a node that we score lower, {self.infeasible} on one that our filters refuse, "
            f"{self.nowhere} that we would have let wait"
        )


class Shadow(Listener):
    """Is told of each bind before it is counted, so that our decision sees what the other scheduler saw."""

    def __init__(
        self,
        profile: Profile,
        *,
        scheduler_name: str,
        out: Path | None = None,
        stop_after: int | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """`on_end` is called once `stop_after` pods were compared; `out` gets a JSON line for each."""
        self.profile = profile
        self._stop_after = stop_after
        self._on_end = on_end
        self.cache = Cache(self, scheduler_name=scheduler_name, devices=profile.devices)
        self.agreement = Agreement()
        self.is_watching = False
        """False until the cluster is known: pods that were placed before are nobody's choice of now."""
        self._out = None if out is None else _opened(out)

    def close(self) -> None:
        if self._out is not None:
            self._out.close()

    def pod_bound(self, pod: Pod, cached: CachedPod) -> None:
        enough = self._stop_after is not None and self.agreement.pods >= self._stop_after
        if not self.is_watching or enough or cached.node not in self.cache.table.row_of:
            return
        choice = compare(pod, cached.node, self.cache, self.profile)
        self.agreement.add(choice)
        if self._out is not None:
            self._out.write(msgspec.json.encode(asdict(choice)) + b"\n")
            self._out.flush()
        if self._on_end is not None and self.agreement.pods == self._stop_after:
            self._on_end()


def compare(pod: Pod, node: str, cache: Cache, profile: Profile) -> ShadowedPod:
    """Their node against what we decide now."""
    table = cache.table
    try:
        explained = explain(pod, table, profile, top=table.count)
    except PolicyError as error:
        return ShadowedPod(
            pod.name, node, "", agree=False, feasible=False, our_score=None, their_score=None, why=str(error)
        )
    outcome = explained.outcome
    totals = {candidate.node: candidate.total for candidate in explained.candidates}
    theirs = totals.get(node)
    if isinstance(outcome, NoFit):
        return ShadowedPod(
            pod.name, node, "", agree=False, feasible=False, our_score=None, their_score=theirs, why=str(outcome)
        )
    ours = totals.get(outcome.node, outcome.score)
    return ShadowedPod(
        pod.name,
        node,
        outcome.node,
        agree=outcome.node == node or (theirs is not None and theirs >= ours),
        feasible=theirs is not None,
        our_score=ours,
        their_score=theirs,
    )


class ShadowProgram(Program):
    """Watches another scheduler, until SIGINT, SIGTERM or enough pods; serves nothing and takes no lease."""

    def __init__(
        self, settings: RunSettings, api: Client, *, out: Path | None, stop_after: int | None, announce: Announce
    ) -> None:
        self._settings = settings
        self.shadow = Shadow(
            profile_for(settings.policy, settings.seed),
            scheduler_name=settings.scheduler_name,
            out=out,
            stop_after=stop_after,
            on_end=self.stop,
        )
        super().__init__(api, self.shadow.cache, announce=announce)

    def parts(self) -> Sequence[Part]:
        return ()

    def known(self) -> None:
        lessons_for(self.cache, self._settings).teach(self.shadow.profile)
        self.shadow.is_watching = True
        self.announce(f"watching the pods of {self._settings.scheduler_name}; nothing is bound by us")


async def run_shadow(
    settings: RunSettings, *, out: Path | None, stop_after: int | None, announce: Announce
) -> Agreement:
    """Compare our decisions with another scheduler's until SIGINT, SIGTERM or enough pods."""
    check_names(settings)
    async with await connected(find_connection(settings.kubeconfig, settings.context), announce) as api:
        program = ShadowProgram(settings, api, out=out, stop_after=stop_after, announce=announce)
        try:
            await run_until_signal(program)
        finally:
            program.shadow.close()
        return program.shadow.agreement


def _opened(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab")
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror}); give --out another file") from error
