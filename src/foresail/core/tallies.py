"""Running counts of the pods that somebody keeps asking about: kept as pods come and go rather than made anew."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from foresail.core.kubernetes import PodTerm, Selector, Weighted
from foresail.core.model import Ints

RowCounts = dict[int, int]
"""Row to the number of pods on it."""
Pair = tuple[str, str]
"""A label: key and value."""

_MOST_BYTES = 256 << 20

What = TypeVar("What", bound=Hashable)


class LabelSet(NamedTuple):
    """What selectors look at."""

    namespace: str
    labels: tuple[Pair, ...]
    terminating: bool = False
    namespace_labels: tuple[Pair, ...] = ()
    """Of a waiting pod, which terms of other pods may choose by the labels of its namespace."""


class Meaning(NamedTuple):
    """Which pods a selector is about."""

    selector: Selector | None
    namespaces: frozenset[str]
    namespace_selector: Selector | None = None
    """Further namespaces by their labels."""
    terminating_too: bool = True

    def means(self, pods: LabelSet) -> bool:
        return (
            self.selector is not None
            and (self.terminating_too or not pods.terminating)
            and (
                pods.namespace in self.namespaces
                or (
                    self.namespace_selector is not None and self.namespace_selector.selects(dict(pods.namespace_labels))
                )
            )
            and self.selector.selects(dict(pods.labels))
        )

    @property
    def exact(self) -> Pair | None:
        """A label that all pods have which are meant, None where the selector names none."""
        for line in self.selector.requirements if self.selector is not None else ():
            if line.operator == "In" and len(line.values) == 1:
                return line.key, line.values[0]
        return None


class Terms(NamedTuple):
    """How a pod feels about others near it."""

    affinity: tuple[PodTerm, ...]
    anti_affinity: tuple[PodTerm, ...]
    preferred_affinity: tuple[Weighted[PodTerm], ...]
    preferred_anti_affinity: tuple[Weighted[PodTerm], ...]

    def wishes(self) -> Iterator[tuple[int, PodTerm]]:
        """What pods would rather have near, or rather not, by its weight."""
        yield from ((wish.weight, wish.term) for wish in self.preferred_affinity)
        yield from ((-wish.weight, wish.term) for wish in self.preferred_anti_affinity)


class Tally:
    """An amount for each node, to which some of its pods add, and how many pods do."""

    __slots__ = ("by_node", "pods")

    def __init__(self, count: int) -> None:
        self.by_node: Ints = np.zeros(count, dtype=np.int64)
        self.pods = 0

    def add(self, rows: RowCounts, amount: int) -> None:
        self.by_node[list(rows)] += amount * np.array(list(rows.values()), dtype=np.int64)
        self.pods += sum(rows.values())


class Facet:
    """Pods that are alike in one respect: where they stand, and the tallies each of them adds to."""

    __slots__ = ("__weakref__", "adds", "home", "key", "rows")

    def __init__(self, home: dict[Any, RowCounts], key: Hashable) -> None:
        self.home = home
        self.key = key
        self.rows: RowCounts = home.get(key, {})
        self.adds: list[tuple[Tally, int]] = []


class Regard:
    """What the pods on the nodes think of one kind of waiting pod, by topology key."""

    __slots__ = ("drawn", "repelled", "required")

    def __init__(self) -> None:
        self.repelled: dict[str, Tally] = {}
        """Pods that require it to stay away."""
        self.required: dict[str, Tally] = {}
        """Pods that require one like it near them."""
        self.drawn: dict[str, Tally] = {}
        """The sum of the weights of their wishes, negative where they would rather not have it near."""


class _Wish(NamedTuple):
    """One term of pods on nodes."""

    of: Facet
    topology_key: str
    feeling: str
    """A field of `Regard`."""
    amount: int


class _Pairs(Generic[What]):
    """Meanings and kinds of pods that find each other by a label, so that not every pair must be tried."""

    def __init__(self) -> None:
        self._meanings: dict[Pair | None, dict[tuple[Meaning, What], None]] = {}
        self._pods: dict[Pair | None, dict[LabelSet, None]] = {}

    def put(self, meaning: Meaning, what: What) -> list[LabelSet]:
        """Note a meaning; the pods that it means."""
        self._meanings.setdefault(meaning.exact, {})[meaning, what] = None
        return [pods for pods in self._pods.get(meaning.exact, ()) if meaning.means(pods)]

    def drop(self, meaning: Meaning, what: What) -> None:
        _discard(self._meanings, meaning.exact, (meaning, what))

    def put_pods(self, pods: LabelSet) -> list[What]:
        """Note a kind of pods; whatever means them."""
        found = []
        for label in dict.fromkeys((*pods.labels, None)):
            self._pods.setdefault(label, {})[pods] = None
            found += [what for meaning, what in self._meanings.get(label, ()) if meaning.means(pods)]
        return found

    def drop_pods(self, pods: LabelSet) -> None:
        for label in dict.fromkeys((*pods.labels, None)):
            _discard(self._pods, label, pods)

    def forget_meanings(self) -> None:
        self._meanings.clear()

    def forget_pods(self) -> None:
        self._pods.clear()


def _discard(table: dict[Pair | None, dict[Any, None]], label: Pair | None, key: Hashable) -> None:
    entries = table[label]
    del entries[key]
    if not entries:
        del table[label]


class Tallies:
    """All running counts over one table.

    A count is made when it is first asked for. Those nobody asks for any more cost their memory only until there are
    too many: then all are dropped and made again as they are asked for.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._of_labels: dict[LabelSet, Facet] = {}
        self._of_terms: dict[Facet, list[tuple[Meaning, _Wish]]] = {}
        self._counted: dict[tuple[Meaning, ...], Tally] = {}
        self._regards: dict[LabelSet, Regard] = {}
        self._counting: _Pairs[tuple[Meaning, ...]] = _Pairs()
        self._wishing: _Pairs[_Wish] = _Pairs()
        self._made = 0

    # --- questions -------------------------------------------------------------------------------------------------

    def pods_meant(self, *meanings: Meaning) -> Tally:
        """Pods on each node that all these mean."""
        tally = self._counted.get(meanings)
        if tally is None:
            tally = self._counted[meanings] = self._new_tally()
            for pods in self._counting.put(meanings[0], meanings):
                if _all_mean(meanings, pods):
                    self._join(self._of_labels[pods], tally, 1)
        return tally

    def regard(self, waiting: LabelSet) -> Regard:
        """What pods on the nodes think of pods like this one."""
        regard = self._regards.get(waiting)
        if regard is None:
            self._make_room()
            regard = self._regards[waiting] = Regard()
            for wish in self._wishing.put_pods(waiting):
                self._join_wish(regard, wish)
        return regard

    # --- pods that come and go -------------------------------------------------------------------------------------

    def labels_came(self, facet: Facet, pods: LabelSet) -> None:
        """The first pod with these labels is about to be counted."""
        self._of_labels[pods] = facet
        facet.adds = [
            (self._counted[meanings], 1) for meanings in self._counting.put_pods(pods) if _all_mean(meanings, pods)
        ]

    def labels_went(self, pods: LabelSet) -> None:
        """The last pod with these labels has been counted out."""
        del self._of_labels[pods]
        self._counting.drop_pods(pods)

    def terms_came(self, facet: Facet, terms: Terms) -> None:
        """The first pod with these terms is about to be counted."""
        facet.adds = []
        wishes = [
            *((_meaning(term), _Wish(facet, term.topology_key, "repelled", 1)) for term in terms.anti_affinity),
            *((_meaning(term), _Wish(facet, term.topology_key, "required", 1)) for term in terms.affinity),
            *((_meaning(term), _Wish(facet, term.topology_key, "drawn", amount)) for amount, term in terms.wishes()),
        ]
        # A term that stands twice counts twice, but what stands in an index stands there once.
        self._of_terms[facet] = merged = _merged(wishes)
        for meaning, wish in merged:
            for waiting in self._wishing.put(meaning, wish):
                self._join_wish(self._regards[waiting], wish)

    def terms_went(self, facet: Facet) -> None:
        """The last pod with these terms has been counted out."""
        for meaning, wish in self._of_terms.pop(facet):
            self._wishing.drop(meaning, wish)

    def clear(self, count: int) -> None:
        """Drop all counts; pods stand on other rows now, or nobody may ask for them again."""
        self._count = count
        self._made = 0
        self._counted.clear()
        self._regards.clear()
        self._counting.forget_meanings()
        self._wishing.forget_pods()
        for facet in (*self._of_labels.values(), *self._of_terms):
            facet.adds = []

    # --- how they are put together ---------------------------------------------------------------------------------

    def _new_tally(self) -> Tally:
        self._make_room()
        return Tally(self._count)

    def _make_room(self) -> None:
        self._made += 1
        if self._made * self._count * 8 > _MOST_BYTES:
            self.clear(self._count)

    def _join_wish(self, regard: Regard, wish: _Wish) -> None:
        tallies: dict[str, Tally] = getattr(regard, wish.feeling)
        tally = tallies.get(wish.topology_key)
        if tally is None:
            # Counted like the others, but not dropped for it: the regard it belongs to is being put together.
            self._made += 1
            tally = tallies[wish.topology_key] = Tally(self._count)
        self._join(wish.of, tally, wish.amount)

    @staticmethod
    def _join(facet: Facet, tally: Tally, amount: int) -> None:
        facet.adds.append((tally, amount))
        tally.add(facet.rows, amount)


def _all_mean(meanings: tuple[Meaning, ...], pods: LabelSet) -> bool:
    return all(meaning.means(pods) for meaning in meanings)


def _meaning(term: PodTerm) -> Meaning:
    return Meaning(term.selector, frozenset(term.namespaces), term.namespace_selector)


def _merged(wishes: Iterable[tuple[Meaning, _Wish]]) -> list[tuple[Meaning, _Wish]]:
    """Wishes that differ in their amounts alone, as one."""
    amounts: dict[tuple[Meaning, _Wish], int] = {}
    for meaning, wish in wishes:
        alike = (meaning, wish._replace(amount=0))
        amounts[alike] = amounts.get(alike, 0) + wish.amount
    return [(meaning, wish._replace(amount=amount)) for (meaning, wish), amount in amounts.items()]
