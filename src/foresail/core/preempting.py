"""Who may make others go, and who waits for a node that is being cleared: one user of holds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from foresail.core.asking import resolvable_by_removal
from foresail.core.decide import Decision
from foresail.core.holds import HeldRoom, Holds
from foresail.core.model import Pod
from foresail.core.preemption import Preemption, could_preempt, find_victims, is_leaving
from foresail.core.profile import Profile
from foresail.core.table import NodeTable

NOMINATED_S = 30.0
"""By then every victim has gone or is being deleted; if not, nobody has told it, and the search begins anew."""
LEAVING_S = 600.0
"""How long victims that are being deleted are waited for: they have their grace, but some never end."""

MayPreempt = Callable[[Pod], bool]
"""Whether a pod may take the place of others at all (in Kubernetes: its preemptionPolicy is not Never)."""


def _anyone(_pod: Pod) -> bool:
    return True


def _nobody(_pod: Pod) -> bool:
    return False


class _Nomination(NamedTuple):
    """A hold of a pod for which others leave."""

    held: HeldRoom
    victims: frozenset[Hashable]
    """Who leaves for it."""
    latest_s: float
    """When it ends although pods are still leaving."""


class Preempting:
    """Preemption as a scheduler uses it: who may preempt, and who waits for a node to be cleared.

    A pod for which others leave is nominated for their node: it holds it until it stands there, no longer waits, or is
    not to get it after all (a victim could not be deleted, or nobody told it to go in time). A member of a gang does
    not preempt before its gang has started: what it would clear might stay empty.
    """

    def __init__(self, *, may_preempt: MayPreempt = _anyone, holds: Holds | None = None) -> None:
        self.may_preempt = may_preempt
        self.is_on = may_preempt is not _nobody
        self.holds = Holds() if holds is None else holds
        self._nominations: dict[Hashable, _Nomination] = {}
        self._had_no_effect: set[Hashable] = set()

    @classmethod
    def off(cls) -> Preempting:
        """For worlds in which no pod makes others go; room can be held there all the same."""
        return cls(may_preempt=_nobody)

    # --- nominations -----------------------------------------------------------------------------------------------

    def nominate(
        self,
        pod: Pod,
        node: str,
        devices: tuple[int, ...] = (),
        victims: Iterable[Hashable] = (),
        *,
        now_s: float = 0.0,
    ) -> list[Pod]:
        """Hold the node for the pod, for which these leave; returns the pods that lose their hold of it."""
        displaced = self.holds.hold(
            pod,
            node,
            devices,
            until_s=now_s + NOMINATED_S,
            why="others are leaving for it",
            refusal="are held for a pod that others are leaving for",
        )
        # Holds end in many ways; what is known of those that did is dropped here.
        self._nominations = {uid: one for uid, one in self._nominations.items() if self.nominated(uid) is not None}
        self._note(pod.uid, frozenset(victims), now_s + LEAVING_S)
        return displaced

    def _note(self, uid: Hashable, victims: frozenset[Hashable], latest_s: float) -> None:
        held = self.holds.get(uid)
        if held is not None:
            self._nominations[uid] = _Nomination(held, victims, latest_s)

    def nominated(self, uid: Hashable) -> HeldRoom | None:
        """What a pod holds because others leave for it, if it does."""
        nomination = self._nominations.get(uid)
        return nomination.held if nomination is not None and self.holds.get(uid) is nomination.held else None

    def withdraw(self, uid: Hashable, why: str = "others do not leave it to the pod after all") -> None:
        """The pod is not to get the node that others were to leave; one that is not nominated keeps what it holds."""
        if self.nominated(uid) is not None:
            self.holds.release(uid, why)
        self._nominations.pop(uid, None)

    def awaits(self, pod: Pod, table: NodeTable) -> bool:
        """Whether pods of less priority are still leaving the node that the pod is nominated for."""
        held = self.nominated(pod.uid)
        row = None if held is None else table.row_of.get(held.node)
        if row is None:
            return False
        victims = self._nominations[pod.uid].victims
        lower = table.standing.below(row, pod.priority)
        return any(placed.pod.uid in victims or is_leaving(placed.pod) for placed in lower)

    def extended(self, held: HeldRoom, table: NodeTable, now_s: float) -> bool:
        """Keep a nomination whose time is over, if all who are still to leave are being deleted; whether it was."""
        uid, row = held.pod.uid, table.row_of.get(held.node)
        if self.nominated(uid) is None or row is None:
            return False
        _, victims, latest_s = self._nominations[uid]
        lower = table.standing.below(row, held.pod.priority)
        awaited = [placed.pod for placed in lower if placed.pod.uid in victims or is_leaving(placed.pod)]
        if now_s >= latest_s or not awaited or not all(map(is_leaving, awaited)):
            return False
        self.holds.extend(uid, min(now_s + NOMINATED_S, latest_s))
        self._note(uid, victims, latest_s)
        return True

    # --- making others go ------------------------------------------------------------------------------------------

    def without_effect(self, pod: Pod) -> None:
        """All victims are gone and the pod still fits nowhere: it must not make others go again, for ever."""
        self._had_no_effect.add(pod.uid)

    def could_help(self, pod: Pod, row: int, table: NodeTable, profile: Profile) -> bool:
        """Whether the pod may get the node at a row by making others go."""
        if not self.may_preempt(pod) or pod.uid in self._had_no_effect:
            return False
        if self.nominated(pod.uid) is not None:
            # Once nobody leaves for it any more, it must look for another node if it does not get this one.
            return not self.awaits(pod, table)
        return could_preempt(pod, row, table, profile)

    def plan(self, pod: Pod, table: NodeTable, profile: Profile) -> Preemption | None:
        """Who must go for the pod; None if that would not help, or if it waits already for others to leave."""
        found = None
        if (
            self.may_preempt(pod)
            and pod.uid not in self._had_no_effect
            and not self._waits_with_reason(pod, table, profile)
        ):
            found = find_victims(pod, table, profile, holds=self.holds)
        if found is None and not self.awaits(pod, table):
            self.withdraw(pod.uid)
        return found

    def _waits_with_reason(self, pod: Pod, table: NodeTable, profile: Profile) -> bool:
        """Whether others leave for the pod, and their going may yet give it the node."""
        held = self.nominated(pod.uid)
        if held is None or not self.awaits(pod, table):
            return False
        resolvable = resolvable_by_removal(Decision(pod, table, profile).verdict, profile)
        return bool(resolvable[table.row_of[held.node]])
