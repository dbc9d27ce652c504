"""Who must go so that a pod of more priority gets a node; as kube-scheduler's DefaultPreemption.

A node is a candidate if what refuses the pod there could be cured by taking pods away. On each candidate all pods of
less priority are taken away for a moment; if the pod then passes every filter, they are put back one by one, those
whose budget would be violated first, then the others, in both cases the most important first, and whoever leaves the
pod no node stays away: these are the victims. Of all candidates the one with the least harm wins.

Where kube-scheduler looks at a pod's start time, this looks at `Pod.arrival_s`: whoever keeps the table decides
whether that is when the pod came or when it started.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from foresail.core.asking import Filters, Without, resolvable_by_removal
from foresail.core.decide import Decision
from foresail.core.holds import Holds
from foresail.core.model import Ints, Mask, Pod, Rows
from foresail.core.objects import DisruptionBudget
from foresail.core.profile import Profile
from foresail.core.table import NodeTable, Placed

_LEAST_PRIORITY = -(2**31)
_ENOUGH_PCT = 10
_ENOUGH_AT_LEAST = 100
"""Candidates that are enough to choose from: this part of the nodes that could be cured, but at least so many."""
_NAMED = 5
"""Victims that are named in words."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """A node that fits the pod once the victims have left it."""

    row: int
    node: str
    victims: tuple[Placed, ...]
    """The most important first; never empty."""
    violations: int
    """How many victims have a budget that does not allow it."""
    devices: tuple[int, ...] = ()
    """What the pod would get on the node."""

    @property
    def evictions(self) -> tuple[Placed, ...]:
        """The victims that must be told to go; the others are leaving already."""
        return tuple(held for held in self.victims if not is_leaving(held.pod))

    def __str__(self) -> str:
        """Who must go, in words; many are counted."""
        names = [held.pod.name for held in self.victims]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"makes {', '.join(names[:_NAMED])}{more} go"

    @property
    def harm(self) -> tuple[int, int, int, int, float]:
        """What candidates are compared by, the least first."""
        priorities = [held.pod.priority for held in self.victims]
        highest = max(priorities)
        return (
            self.violations,
            highest,
            # Counted from the lowest priority there is, so that a few pods below 0 weigh less than many.
            sum(priority - _LEAST_PRIORITY for priority in priorities),
            len(priorities),
            -min(held.pod.arrival_s for held in self.victims if held.pod.priority == highest),
        )


def find_victims(
    pod: Pod,
    table: NodeTable,
    profile: Profile,
    *,
    holds: Holds | None = None,
) -> Preemption | None:
    """The least harm by which a pod that fits nowhere gets a node, or None. The table is afterwards as before.

    What `holds` keep for others of no less priority is not to be had.
    """
    if not table.count:
        return None
    resolvable = resolvable_by_removal(Decision(pod, table, profile).verdict, profile)
    search = _Search(pod, table, profile, Holds() if holds is None else holds)
    best: Preemption | None = None
    found, violates_all = 0, True
    enough = max(int(resolvable.sum()) * _ENOUGH_PCT // 100, _ENOUGH_AT_LEAST)
    for row in search.worth_a_look(resolvable):
        candidate = search.examine(row)
        if candidate is None:
            continue
        found += 1
        violates_all = violates_all and candidate.violations > 0
        # In the order of rank, so the lowest rank wins where the harm is the same.
        if best is None or candidate.harm < best.harm:
            best = candidate
        if found >= enough and not violates_all:
            break
    return best if best is None else search.with_devices(best)


def could_preempt(pod: Pod, row: int, table: NodeTable, profile: Profile) -> bool:
    """Whether the pod would pass on a row if all pods of less priority left it."""
    lower = table.standing.below(row, pod.priority)
    if not lower:
        return False
    filters = Filters.of(profile).for_pod(pod, table)
    with Without(table, lower):
        return filters.passes(pod, table, row)


def is_leaving(pod: Pod) -> bool:
    """Whether the pod has been told to end, and only needs time to."""
    return pod.spec.kubernetes is not None and pod.spec.kubernetes.terminating


class _Search:
    """Looks for victims of one pod, node by node."""

    def __init__(self, pod: Pod, table: NodeTable, profile: Profile, holds: Holds) -> None:
        self._pod, self._table, self._profile = pod, table, profile
        # What no removal changes is asked once about all nodes; the rest each time a pod goes or comes back.
        self._changing, self._fixed = Filters.of(profile).for_pod(pod, table).by_resolvable()
        self._counts_room = self._changing.counts_room
        company = pod.spec.kubernetes is not None and bool(pod.spec.kubernetes.affinity)
        self._several_at_once = self._counts_room and not company and self._changing.only_worsens
        self._wanted = np.flatnonzero(pod.request > 0)
        self._holders = holds.holders(pod, table)
        self._budgets = [
            budget
            for budget in table.objects.budgets.values()
            if budget.selector is not None and budget.selector.requirements
        ]

    def worth_a_look(self, resolvable: Mask) -> list[int]:
        """Rows where it may help that pods of less priority go, by rank."""
        pod, table = self._pod, self._table
        pods, held = table.standing.held_below(pod.priority, table.count)
        candidates = resolvable & (pods > 0)
        if self._counts_room:
            left = (table.free + held)[:, self._wanted]
            candidates &= (left >= pod.request[self._wanted]).all(axis=1)
            candidates &= (table.max_pods <= 0) | (table.pod_count - pods < table.max_pods)
        rows: Rows = table.by_rank[candidates[table.by_rank]]
        found: list[int] = self._fixed.left_of(rows, pod, table).tolist()
        return found

    def _passes(self, row: int) -> bool:
        return self._changing.passes(self._pod, self._table, row, self._holders.get(row, ()))

    def examine(self, row: int) -> Preemption | None:
        """The victims on one node; None if there are none that help."""
        lower = self._table.standing.below(row, self._pod.priority)
        if not lower:
            return None
        with Without(self._table, lower) as away:
            if not self._passes(row):
                return None
            violating = self._violating(lower)
            victims = self._not_put_back(row, sorted(lower, key=lambda held: held.pod.uid not in violating), away)
        if not victims:
            return None  # the pod fits there as it is
        in_order = tuple(held for held in lower if held.pod.uid in victims)
        return Preemption(row, self._table.names[row], in_order, len(victims & violating))

    def _not_put_back(self, row: int, order: list[Placed], away: Without) -> set[Hashable]:
        """Put pods back in this order; returns those with whom the pod would not fit.

        Where it makes no difference several are put back at once, as many as leave enough room, and half as many after
        each time that was too many.
        """
        victims: set[Hashable] = set()
        requests = np.array([held.pod.request[self._wanted] for held in order])
        at, most = 0, len(order)
        while at < len(order):
            block = order[at : at + min(most, self._with_room(row, requests[at:]))]
            for held in block:
                away.put_back(held)
            if block and self._passes(row):
                at += len(block)
                continue
            for held in block:
                away.take_away(held)
            if len(block) > 1:
                most = len(block) // 2
                continue
            victims.add(order[at].pod.uid)
            at, most = at + 1, len(order)
        return victims

    def _with_room(self, row: int, requests: Ints) -> int:
        """How many of these pods may be put back at once; 0 if the first takes room that the pod needs."""
        if not self._several_at_once:
            return 1
        table, pod = self._table, self._pod
        has_room = (requests.cumsum(axis=0) <= table.free[row, self._wanted] - pod.request[self._wanted]).all(axis=1)
        if table.max_pods[row] > 0:
            has_room[max(0, table.max_pods[row] - table.pod_count[row] - 1) :] = False
        return len(requests) if has_room.all() else int(has_room.argmin())

    def with_devices(self, found: Preemption) -> Preemption:
        pod, table = self._pod, self._table
        if not pod.gpu_count:
            return found
        with Without(table, found.victims):
            devices = self._profile.devices_on(found.row, pod, table.all)
        return Preemption(found.row, found.node, found.victims, found.violations, devices)

    def _violating(self, lower: list[Placed]) -> set[Hashable]:
        """Of pods in the order of importance, those that a budget would not let go if all of them went."""
        left = {id(budget): budget.allowed for budget in self._budgets}
        violating: set[Hashable] = set()
        for held in lower:
            for budget in self._budgets:
                if _protects(budget, held.pod):
                    left[id(budget)] -= 1
                    if left[id(budget)] < 0:
                        violating.add(held.pod.uid)
        return violating


def _protects(budget: DisruptionBudget, pod: Pod) -> bool:
    spec = pod.spec
    return (
        budget.namespace == spec.namespace
        and bool(spec.labels)
        and budget.selector is not None
        and budget.selector.selects(dict(spec.labels))
        and _name_of(pod) not in budget.disrupted
    )


def _name_of(pod: Pod) -> str:
    """The pod's own name; some worlds put the namespace before it."""
    return pod.name.rpartition("/")[2]
