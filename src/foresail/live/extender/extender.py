"""A profile's answers to a kube-scheduler that asks: which nodes, how good, whom to preempt, bind."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, Protocol

import numpy as np

from foresail.core.asking import Verdicts, Without, reasons_of, refusal
from foresail.core.decide import Decision
from foresail.core.model import NoFit, Placement, Pod, Rows
from foresail.core.profile import Profile
from foresail.core.spec import PodSpec
from foresail.core.table import NodeTable
from foresail.errors import InputError
from foresail.kube.objects.pod import pod_spec_of
from foresail.kube.objects.quantity import RequestError
from foresail.kube.objects.values import qualified
from foresail.live.cache.pods import CachedPod
from foresail.live.extender import protocol
from foresail.live.extender.protocol import ExtenderArgs, ExtenderPreemptionArgs
from foresail.live.extender.samples import SampleWatch
from foresail.live.extender.scores import to_scores
from foresail.logs import get_logger

DEFAULT_WEIGHT = 1000
OTHER_SCORES_MOST = 1500
"""The most that kube-scheduler's default scores give a node: 100 times 15, their weights with every feature."""
SCORE_STEP = 10
"""What kube-scheduler makes of one point of an extender of weight 1."""

_MOST_RECENT = 10_000
_MOST_LISTS = 16
_MOST_TRIES = 16
_NO_ROWS: Rows = np.empty(0, dtype=np.int64)


class KnownCluster(Protocol):
    """Nodes and pods as the watches tell them."""

    @property
    def table(self) -> NodeTable: ...

    @property
    def pods(self) -> Mapping[Any, CachedPod]: ...


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """How an extender goes about its answers."""

    weight: int = DEFAULT_WEIGHT
    """The weight that kube-scheduler's configuration gives this extender."""
    other_scores_most: int = OTHER_SCORES_MOST
    """The most that all other scores give a node together."""
    binds: bool = False
    """Whether kube-scheduler leaves binding to the extender."""
    force: bool = False
    """Answer requests that carry whole nodes, although kube-scheduler then scores nodes as if they were empty."""
    sampled: bool = False
    """Whether kube-scheduler is expected to send a sample of its feasible nodes, not all of them."""
    tells: bool = False
    """Log every filter request with the nodes on which kube-scheduler and the profile disagree."""
    assume_s: float = 60.0
    """Seconds after which a pod that nobody saw bound gives its room back."""

    @property
    def decides(self) -> bool:
        """Whether one point of ours outweighs all other scores, so that our best node is the one that is chosen."""
        return self.weight * SCORE_STEP > self.other_scores_most


class Extender:
    """Decides with a profile on the nodes of a cache. It is asked from one thread.

    kube-scheduler goes on to the next pod while it still binds the last one, and watches tell of a bind only later. So
    a pod whose node is certain is assumed at once: the one node that passes, or the one with the highest score where
    the weight makes that decide. It gives its room back when kube-scheduler asks about it again, when it goes, or when
    nobody saw it bound in time; a watch that sees it on another node moves it.
    """

    def __init__(
        self,
        cluster: KnownCluster,
        profile: Profile,
        settings: ExtenderSettings | None = None,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings or ExtenderSettings()
        self._cluster = cluster
        self._profile = profile
        self._now_s = now_s
        self._recent: OrderedDict[str, tuple[str, PodSpec]] = OrderedDict()
        self._assumed: OrderedDict[Hashable, float] = OrderedDict()
        self._last: tuple[object, Decision | None] = (None, None)
        self._rows_of: OrderedDict[bytes, tuple[int, Rows]] = OrderedDict()
        self._writer = protocol.ScoreWriter()
        self._samples = SampleWatch()

    # --- the verbs ---------------------------------------------------------------------------------------------------

    def filter(self, args: ExtenderArgs) -> bytes:
        """The nodes that pass the profile's filters, and why the others do not."""
        rows, pod = self._rows(args), self._asked_again(args)
        verdict = self._judge(pod, args, rows, self._decision(pod))
        if not verdict.any() and not args.has_nodes:
            if len(rows) == 1:
                self._assume(pod, int(rows[0]))
            return protocol.all_pass_answer(args)
        passing = [name for name, code in zip(args.names, verdict.tolist(), strict=True) if not code]
        if len(passing) == 1:
            self._assume(pod, self._cluster.table.row_of[passing[0]])
        return protocol.filter_answer(args, passing, self._refusals(pod, args, rows, verdict))

    def choose(self, args: ExtenderArgs) -> bytes:
        """The answer to a filter request by the one node that is best, which kube-scheduler then takes unscored."""
        rows, pod = self._rows(args), self._asked_again(args)
        decision = self._decision(pod)
        verdict = self._judge(pod, args, rows, decision)
        outcome = decision.best_of(rows[rows >= 0])
        if isinstance(outcome, NoFit):
            return protocol.filter_answer(args, [], self._refusals(pod, args, rows, verdict))
        return self._chosen(pod, args, outcome.row)

    def choose_at_once(self, args: ExtenderArgs) -> bytes | None:
        """The same without a look at every name; None if that will not do.

        Where a node's total depends on that node alone, the first of all nodes in the order of their totals that is
        asked about is the best of those that are.
        """
        if self.settings.tells or args.has_nodes or not self._profile.remembers_totals or self._profile.tie is not None:
            return None
        pod, table = self._asked_again(args), self._cluster.table
        for row in islice(self._decision(pod).best_first(), _MOST_TRIES):
            if args.has_name(table.names[row]):
                self._look_for_samples(pod, args.count_names())
                return self._chosen(pod, args, row)
        return None

    def prioritize(self, args: ExtenderArgs) -> bytes:
        """Scores from 0 to 10; nodes that do not pass the filters any more get 0. Those with 0 are left out."""
        rows = self._rows(args)
        pod = self._asked_again(args)
        table = self._cluster.table
        decision = self._decision(pod)
        places = np.flatnonzero(_at(rows, decision.verdict) == 0)
        scores = np.zeros(len(rows), dtype=np.int64)
        if len(places):
            feasible: Rows = rows[places]
            ranking = decision.rank(feasible)
            decides = self.settings.decides
            best = int(np.flatnonzero(feasible == ranking.best)[0]) if decides else None
            scores[places] = to_scores(ranking.totals, best)
            if decides:
                self._assume(pod, ranking.best)
        told = np.flatnonzero(scores)
        return self._writer.answer([table.names[row] for row in rows[told].tolist()], scores[told].tolist())

    def preempt(self, args: ExtenderPreemptionArgs) -> bytes:
        """Of the nodes that are to be cleared for a pod, those that then pass the profile's filters."""
        pod = self._pod(args.args())
        table = self._cluster.table
        kept = {}
        for node, (uids, broken) in args.victims().items():
            row = table.row_of.get(node)
            if row is None:
                continue
            victims = [placed for uid in uids if (placed := table.placed.get(uid)) is not None and placed.row == row]
            with Without(table, victims):
                if not refusal(pod, table, self._profile, row):
                    kept[node] = (uids, broken)
        return protocol.preemption_answer(kept)

    def place(self, uid: str, name: str, node: str) -> tuple[int, ...]:
        """Book a pod that is about to be bound; returns its GPU devices on that node."""
        table = self._cluster.table
        row = table.row_of.get(node)
        if row is None:
            raise InputError(f"the extender's watch does not know node {node} yet; kube-scheduler will ask again")
        held = table.placed.get(uid)
        if held is None or held.row != row:
            self.release(uid)
            self._assume(self._known_pod(uid, name), row)
            held = table.placed[uid]
        return held.devices

    def release(self, uid: Hashable) -> None:
        """Give back the room of a pod that was assumed, unless a watch has seen it bound."""
        if self._assumed.pop(uid, None) is None:
            return
        seen = self._cluster.pods.get(uid)
        if uid in self._cluster.table.placed and not (seen is not None and seen.node):
            self._cluster.table.forget(uid)

    @property
    def assumed(self) -> int:
        """Pods that hold room though no watch has told of it; some may have been seen since."""
        return len(self._assumed)

    @property
    def node_count(self) -> int:
        return self._cluster.table.count

    def knows_nodes(self, args: ExtenderArgs) -> bool:
        """Whether the watch has told of all nodes of a request."""
        return bool((self._rows(args) >= 0).all())

    # --- parts -------------------------------------------------------------------------------------------------------

    def _asked_again(self, args: ExtenderArgs) -> Pod:
        """The pod of a request. It has not got the node that we took for certain when we were asked before."""
        pod = self._pod(args)
        self.release(pod.uid)
        self._release_late()
        return pod

    def _judge(self, pod: Pod, args: ExtenderArgs, rows: Rows, decision: Decision) -> Verdicts:
        """The verdicts about the nodes of a filter request."""
        verdict = decision.verdict
        self._look_for_samples(pod, len(rows))
        if self.settings.tells:
            self._tell(pod, args.names, verdict)
        return _at(rows, verdict)

    def _look_for_samples(self, pod: Pod, sent: int) -> None:
        count = self._cluster.table.count
        if sent < count and not self.settings.sampled:
            self._samples.look(sent, count - int(np.count_nonzero(self._decision(pod).verdict)), count)

    def _refusals(self, pod: Pod, args: ExtenderArgs, rows: Rows, verdict: Verdicts) -> dict[str, str]:
        """Why each node does not pass that does not."""
        said: dict[int, str] = {}
        refused = {}
        for name, row, code in zip(args.names, rows.tolist(), verdict.tolist(), strict=True):
            if row < 0:
                refused[name] = "the extender's watch does not know this node yet"
            elif code:
                if code not in said:
                    said[code] = ", ".join(reasons_of(pod, self._profile, code))
                refused[name] = said[code]
        return refused

    def _chosen(self, pod: Pod, args: ExtenderArgs, row: int) -> bytes:
        self._assume(pod, row)
        return protocol.filter_answer(args, [self._cluster.table.names[row]], {})

    def _rows(self, args: ExtenderArgs) -> Rows:
        """Row of each node that is asked about, -1 for one that no watch has told of."""
        if args.has_nodes and not self.settings.force:
            raise InputError(
                "the request carries whole nodes, and kube-scheduler 1.33 and later then scores nodes as if they were "
                "empty; set nodeCacheCapable: true for this extender (foresail extender --print-config shows how), "
                "or start it with --force"
            )
        # The same names come again and again: for both verbs of a pod, and mostly for the next pods too.
        key, table = bytes(args.NodeNames), self._cluster.table
        structure, rows = self._rows_of.get(key, (-1, _NO_ROWS))
        if structure != table.structure or args.has_nodes:
            rows = np.array(list(map(table.row_of.get, args.names, repeat(-1))), dtype=np.int64)
            if len(self._rows_of) >= _MOST_LISTS:
                self._rows_of.popitem(last=False)
            self._rows_of[key] = (table.structure, rows)
        return rows

    def _pod(self, args: ExtenderArgs) -> Pod:
        """The pod of a request; filter and prioritize bring the same one, so it is read once."""
        head = args.head().metadata
        known, cached = self._recent.get(head.uid), self._cluster.pods.get(head.uid)
        if cached is not None and cached.version == head.resourceVersion and not cached.unreadable:
            spec = cached.spec
        elif known is not None and known[0] == head.resourceVersion:
            spec = known[1]
        else:
            try:
                spec = pod_spec_of(args.pod())
            except RequestError as error:
                raise InputError(f"pod {qualified(head.namespace, head.name)}: {error}") from error
            if len(self._recent) >= _MOST_RECENT:
                self._recent.popitem(last=False)
            self._recent[head.uid] = (head.resourceVersion, spec)
        return Pod(qualified(head.namespace, head.name), self._cluster.table.shape(spec), uid=head.uid)

    def _known_pod(self, uid: str, name: str) -> Pod:
        recent, cached = self._recent.get(uid), self._cluster.pods.get(uid)
        spec = recent[1] if recent is not None else None if cached is None else cached.spec
        if spec is None:
            raise InputError(f"pod {name} is not known to the extender; kube-scheduler will ask again")
        return Pod(name, self._cluster.table.shape(spec), uid=uid)

    def _decision(self, pod: Pod) -> Decision:
        """About all nodes; that of the filter request serves prioritize too unless something has changed."""
        table = self._cluster.table
        state = (pod.shape, table.structure, table.touches, self._profile.lessons)
        last, decision = self._last
        if decision is None or last != state:
            decision = Decision(pod, table, self._profile)
            # Asking may itself make the table grow (a resource that only this pod names).
            is_new = (pod.shape, table.structure, table.touches, self._profile.lessons)
            self._last = (state if state == is_new else None, decision)
        return decision

    def _assume(self, pod: Pod, row: int) -> None:
        table = self._cluster.table
        if pod.uid in table.placed:
            return
        table.assume(pod, Placement(row, table.names[row], self._profile.devices_on(row, pod, table.all)))
        self._assumed[pod.uid] = self._now_s() + self.settings.assume_s

    def _release_late(self) -> None:
        now_s = self._now_s()
        while self._assumed:
            uid, deadline_s = next(iter(self._assumed.items()))
            if deadline_s > now_s:
                break
            seen = self._cluster.pods.get(uid)
            if uid in self._cluster.table.placed and not (seen is not None and seen.node):
                get_logger().warning("assumed_pod_not_bound", uid=uid, waited_s=self.settings.assume_s)
            self.release(uid)

    def _tell(self, pod: Pod, names: list[str], verdict: Verdicts) -> None:
        here = {self._cluster.table.names[row] for row in np.flatnonzero(verdict == 0)}
        get_logger().debug(
            "filtered",
            pod=pod.name,
            asked=len(names),
            only_kube_scheduler=sorted(set(names) - here),
            only_here=sorted(here - set(names)),
        )


def _at(rows: Rows, verdict: Verdicts) -> Verdicts:
    """The verdicts about these rows; no node that no watch has told of passes."""
    found: Verdicts = np.append(verdict, np.uint16(1))[rows]  # row -1 finds the last place
    return found
