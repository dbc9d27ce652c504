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


class PodSelector(NamedTuple):
    """Which pods a term or a constraint selects, by their labels and their namespace."""

    selector: Selector | None
    namespaces: frozenset[str]
    namespace_selector: Selector | None = None
    """Further namespaces by their labels."""
    terminating_too: bool = True

    def selects(self, pods: LabelSet) -> bool:
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
    def exact_label(self) -> Pair | None:
        """A label that all selected pods have, None where the selector names none."""
        for line in self.selector.requirements if self.selector is not None else ():
            if line.operator == "In" and len(line.values) == 1:
                return line.key, line.values[0]
        return None


class AffinityTerms(NamedTuple):
    """The affinity and anti-affinity terms of a pod."""

    affinity: tuple[PodTerm, ...]
    anti_affinity: tuple[PodTerm, ...]
    preferred_affinity: tuple[Weighted[PodTerm], ...]
    preferred_anti_affinity: tuple[Weighted[PodTerm], ...]

    def preferred(self) -> Iterator[tuple[int, PodTerm]]:
        """Preferred terms with their weights, negative for anti-affinity."""
        yield from ((term.weight, term.term) for term in self.preferred_affinity)
        yield from ((-term.weight, term.term) for term in self.preferred_anti_affinity)


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


class TermsAbout:
    """Terms of the pods on the nodes that select one kind of waiting pod: counted by topology key."""

    __slots__ = ("affinity", "anti_affinity", "preferred")

    def __init__(self) -> None:
        self.anti_affinity: dict[str, Tally] = {}
        """Pods that require it to stay away."""
        self.affinity: dict[str, Tally] = {}
        """Pods that require one like it near them."""
        self.preferred: dict[str, Tally] = {}
        """The sum of the weights of preferred terms, those of anti-affinity negative."""


class _StandingTerm(NamedTuple):
    """One affinity term of pods on nodes."""

    of: Facet
    topology_key: str
    kind: str
    """A field of `TermsAbout`."""
    amount: int


class _Pairs(Generic[What]):
    """Selectors and kinds of pods that find each other by a label, so that not every pair must be tried."""

    def __init__(self) -> None:
        self._selectors: dict[Pair | None, dict[tuple[PodSelector, What], None]] = {}
        self._pods: dict[Pair | None, dict[LabelSet, None]] = {}

    def put(self, selector: PodSelector, what: What) -> list[LabelSet]:
        """Note a selector; the pods that it selects."""
        self._selectors.setdefault(selector.exact_label, {})[selector, what] = None
        return [pods for pods in self._pods.get(selector.exact_label, ()) if selector.selects(pods)]

    def drop(self, selector: PodSelector, what: What) -> None:
        _discard(self._selectors, selector.exact_label, (selector, what))

    def put_pods(self, pods: LabelSet) -> list[What]:
        """Note a kind of pods; whatever selects them."""
        found = []
        for label in dict.fromkeys((*pods.labels, None)):
            self._pods.setdefault(label, {})[pods] = None
            found += [what for selector, what in self._selectors.get(label, ()) if selector.selects(pods)]
        return found

    def drop_pods(self, pods: LabelSet) -> None:
        for label in dict.fromkeys((*pods.labels, None)):
            _discard(self._pods, label, pods)

    def forget_selectors(self) -> None:
        self._selectors.clear()

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
        self._of_terms: dict[Facet, list[tuple[PodSelector, _StandingTerm]]] = {}
        self._counted: dict[tuple[PodSelector, ...], Tally] = {}
        self._terms_about: dict[LabelSet, TermsAbout] = {}
        self._counting: _Pairs[tuple[PodSelector, ...]] = _Pairs()
        self._selecting: _Pairs[_StandingTerm] = _Pairs()
        self._made = 0

    # --- questions -------------------------------------------------------------------------------------------------

    def pods_selected(self, *selectors: PodSelector) -> Tally:
        """Pods on each node that all these select."""
        tally = self._counted.get(selectors)
        if tally is None:
            tally = self._counted[selectors] = self._new_tally()
            for pods in self._counting.put(selectors[0], selectors):
                if _all_select(selectors, pods):
                    self._join(self._of_labels[pods], tally, 1)
        return tally

    def terms_about(self, waiting: LabelSet) -> TermsAbout:
        """Terms of the pods on the nodes that select pods like this one."""
        about = self._terms_about.get(waiting)
        if about is None:
            self._make_room()
            about = self._terms_about[waiting] = TermsAbout()
            for term in self._selecting.put_pods(waiting):
                self._join_term(about, term)
        return about

    # --- pods that come and go -------------------------------------------------------------------------------------

    def labels_came(self, facet: Facet, pods: LabelSet) -> None:
        """The first pod with these labels is about to be counted."""
        self._of_labels[pods] = facet
        facet.adds = [
            (self._counted[selectors], 1) for selectors in self._counting.put_pods(pods) if _all_select(selectors, pods)
        ]

    def labels_went(self, pods: LabelSet) -> None:
        """The last pod with these labels has been counted out."""
        del self._of_labels[pods]
        self._counting.drop_pods(pods)

    def terms_came(self, facet: Facet, terms: AffinityTerms) -> None:
        """The first pod with these terms is about to be counted."""
        facet.adds = []
        by_kind = [
            *(("anti_affinity", 1, term) for term in terms.anti_affinity),
            *(("affinity", 1, term) for term in terms.affinity),
            *(("preferred", weight, term) for weight, term in terms.preferred()),
        ]
        stated = [
            (_selector_of(term), _StandingTerm(facet, term.topology_key, kind, amount))
            for kind, amount, term in by_kind
        ]
        # A term that stands twice counts twice, but what stands in an index stands there once.
        self._of_terms[facet] = merged = _merged(stated)
        for selector, term in merged:
            for waiting in self._selecting.put(selector, term):
                self._join_term(self._terms_about[waiting], term)

    def terms_went(self, facet: Facet) -> None:
        """The last pod with these terms has been counted out."""
        for selector, term in self._of_terms.pop(facet):
            self._selecting.drop(selector, term)

    def clear(self, count: int) -> None:
        """Drop all counts; pods stand on other rows now, or nobody may ask for them again."""
        self._count = count
        self._made = 0
        self._counted.clear()
        self._terms_about.clear()
        self._counting.forget_selectors()
        self._selecting.forget_pods()
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

    def _join_term(self, about: TermsAbout, term: _StandingTerm) -> None:
        tallies: dict[str, Tally] = getattr(about, term.kind)
        tally = tallies.get(term.topology_key)
        if tally is None:
            # Counted like the others, but not dropped for it: what it belongs to is being put together.
            self._made += 1
            tally = tallies[term.topology_key] = Tally(self._count)
        self._join(term.of, tally, term.amount)

    @staticmethod
    def _join(facet: Facet, tally: Tally, amount: int) -> None:
        facet.adds.append((tally, amount))
        tally.add(facet.rows, amount)


def _all_select(selectors: tuple[PodSelector, ...], pods: LabelSet) -> bool:
    return all(selector.selects(pods) for selector in selectors)


def _selector_of(term: PodTerm) -> PodSelector:
    return PodSelector(term.selector, frozenset(term.namespaces), term.namespace_selector)


def _merged(terms: Iterable[tuple[PodSelector, _StandingTerm]]) -> list[tuple[PodSelector, _StandingTerm]]:
    """Terms that differ in their amounts alone, as one."""
    amounts: dict[tuple[PodSelector, _StandingTerm], int] = {}
    for selector, term in terms:
        alike = (selector, term._replace(amount=0))
        amounts[alike] = amounts.get(alike, 0) + term.amount
    return [(selector, term._replace(amount=amount)) for (selector, term), amount in amounts.items()]
