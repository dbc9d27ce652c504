"""Members of a gang close together: in the smallest domain, such as a rack or a zone, that holds them all.

A domain is all nodes with one value of a label. A gang names labels from the closest to the widest, `rack` and then
`zone`; it is placed within one rack if there is one that holds it, else within one zone, else it is refused or, if that
is only preferred, placed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from foresail.core.arranging import Arranging
from foresail.core.model import Codes, Ints, Mask, Nodes, NoFit, Placement, Pod
from foresail.core.profile import Profile
from foresail.core.spec import Gang
from foresail.core.table import NodeTable

_ENOUGH = 8
"""Domains that hold the gang and are enough to choose from; those with the least room are looked at first."""


class Domain:
    """The nodes among which a gang is placed, and the profile that sees only those."""

    def __init__(self, is_open: Mask, refusal: str, profile: Profile) -> None:
        """`refusal`: what the other nodes are not; completes "3 nodes …"."""
        self.is_open, self.refusal = is_open, refusal
        self.profile = profile.behind("gang-topology", _Within(is_open, refusal))

    def forget(self, table: NodeTable) -> None:
        """Nobody asks about it any more."""
        table.memories.pop(self.profile, None)


class _Within:
    """Leave out the nodes of other domains."""

    row_wise = True
    resolvable = False

    def __init__(self, is_open: Mask, refusal: str) -> None:
        self._codes: Codes = (~is_open).astype(np.uint8)
        self._refusal = refusal

    def refuses(self, _pod: Pod, nodes: Nodes) -> Codes:
        codes: Codes = self._codes[nodes.index]
        return codes

    def why(self, _pod: Pod, _code: int) -> tuple[str, ...]:
        return (self._refusal,)


def find_domain(gang: Gang, arranging: Arranging, profile: Profile) -> Domain | NoFit | None:
    """Where the gang is to be placed; a refusal if it must be close and cannot, None if it may go anywhere.

    Of the domains of one label that hold it, it gets the one whose node the profile prefers for the first member.
    """
    table = arranging.table
    for key in gang.topology:
        holding = [domain for _, domain in zip(range(_ENOUGH), _holding(gang, key, arranging, profile), strict=False)]
        if len(holding) > 1:
            union = Domain(np.logical_or.reduce([one.is_open for one in holding]), holding[0].refusal, profile)
            outcome = arranging.decide(arranging.members[0], table, union.profile)
            union.forget(table)
            if isinstance(outcome, Placement):
                holding = [one for one in holding if one.is_open[outcome.row]]
        if holding:
            return holding[0]
    return _refused(gang, arranging) if gang.topology_required else None


def home_of(gang: Gang, group: str, table: NodeTable, profile: Profile) -> Domain | None:
    """Where the rest of a gang that must be close goes: to the domain in which most of it stands."""
    if not gang.topology_required or not gang.topology:
        return None
    key = gang.topology[-1]
    standing = _standing(group, table.label(key), table)
    return None if standing is None else Domain(table.label(key) == standing, _elsewhere(gang, key), profile)


def _holding(gang: Gang, key: str, arranging: Arranging, profile: Profile) -> Iterator[Domain]:
    """The domains of one label that hold the gang, those with the least room first."""
    table = arranging.table
    for is_open in _candidates(key, arranging):
        domain = Domain(is_open, _elsewhere(gang, key), profile)
        try:
            holds = bool(arranging.look(domain.profile))
        finally:
            domain.forget(table)
        if holds:
            yield domain


def _candidates(key: str, arranging: Arranging) -> list[Mask]:
    """Domains with enough room for as many of the smallest members as must start together."""
    table = arranging.table
    codes = table.label(key)
    standing = _standing(arranging.members[0].group, codes, table)
    values = np.unique(codes[codes >= 0]).tolist() if standing is None else [standing]
    least = _least(arranging.members, arranging.missing)
    free = np.maximum(table.free, 0)
    found = []
    for value in values:
        is_open = codes == value
        room = free[is_open].sum(axis=0)
        if (least <= room).all():
            total = np.maximum(table.allocatable.sum(axis=0), 1)
            found.append((float((room / total)[least > 0].sum()), value, is_open))
    return [is_open for _, _, is_open in sorted(found, key=lambda one: one[:2])]


def _least(members: Sequence[Pod], missing: int) -> Ints:
    """What as many of the smallest members ask together; shape (resources,)."""
    asked: Ints = np.sort(np.array([pod.request for pod in members]), axis=0)[:missing].sum(axis=0)
    return asked


def _standing(group: str, codes: Ints, table: NodeTable) -> int | None:
    """The domain in which most of a gang stands, None if nobody does, or in none."""
    peers = table.peers(group)
    counted = np.bincount(codes[codes >= 0], weights=peers[codes >= 0]) if (codes >= 0).any() else np.empty(0)
    return int(counted.argmax()) if len(counted) and counted.max() > 0 else None


def _elsewhere(gang: Gang, key: str) -> str:
    return f"are not in the {key} of gang {gang.name}"


def _refused(gang: Gang, arranging: Arranging) -> NoFit:
    """Why no domain of the widest label holds the gang."""
    table, key = arranging.table, gang.topology[-1]
    unlabelled = int((table.label(key) < 0).sum())
    some = f"{arranging.missing} of its gang" if arranging.missing > 1 else "it"
    reasons = {
        f"are in a {key} that does not hold {some} together": table.count - unlabelled,
        f"have no label {key}": unlabelled,
    }
    counted = {reason: count for reason, count in reasons.items() if count}
    counted = dict(sorted(counted.items(), key=lambda item: -item[1]))
    return NoFit(arranging.members[0].name, table.count, counted)
