"""Decisions carried out on a real cluster: binds in parallel, and the reason told to every pod that must wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import NamedTuple

from foresail.core.backoff import Backoff
from foresail.core.gang_search import NoRoomTogether
from foresail.core.journal import Journal, What
from foresail.core.lifecycle import Lives, State
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.preempting import Preempting
from foresail.core.preemption import Preemption
from foresail.core.scheduler import Scheduler
from foresail.core.spec import Gang
from foresail.errors import PolicyError
from foresail.kube.api.client import Client
from foresail.live.actions.binding import Binder, BindResult, Ending
from foresail.live.actions.evicting import Evictor
from foresail.live.actions.volumes import VolumeBinder
from foresail.live.cache.cache import Cache
from foresail.live.cache.pods import CachedPod
from foresail.live.scheduler.conditions import SCHEDULER_ERROR, UNSCHEDULABLE, PodConditions
from foresail.live.scheduler.metrics import ERROR, SCHEDULED, Metrics
from foresail.live.scheduler.metrics import UNSCHEDULABLE as UNSCHEDULABLE_RESULT
from foresail.logs import get_logger

MOST_BINDS = 128
"""Binds under way at once; decisions wait when the API server does not keep up."""

_AFTER_GIVING_UP_S = 30.0
_AFTER_ERROR_S = 10.0


class BindTarget(NamedTuple):
    """Where a pod that is being bound goes."""

    pod: Pod
    placement: Placement
    overfills: bool
    """Whether the node had too little room even when it was chosen; a profile may have no filter that counts room."""


class LiveCluster:
    """The `Cluster` that core's scheduler drives; `scheduler` is set once both exist."""

    scheduler: Scheduler

    def __init__(
        self,
        api: Client,
        cache: Cache,
        lives: Lives,
        journal: Journal,
        metrics: Metrics,
        *,
        changed: Callable[[], None],
        backoff: Backoff,
    ) -> None:
        """`changed` is called whenever there may be something to decide again; pods whose bind failed back off. Pods
        that wait are in `lives` already.
        """
        self.table = cache.table
        self.cache = cache
        self.lives = lives
        self.journal = journal
        self.conditions = PodConditions(api, self._waiting)
        self.preemption = Preempting(may_preempt=self._may_preempt)
        self.clearing: dict[str, asyncio.Task[None]] = {}
        """Pods for which others are being made to go."""
        self.binding: dict[str, asyncio.Task[None]] = {}
        """Pods with a decision that is not carried out yet."""
        self.paused: dict[str, asyncio.TimerHandle] = {}
        """Pods that are given a rest before they are decided about again."""
        self._targets: dict[str, BindTarget] = {}
        """Of every pod in `binding`."""
        self.policy_error = ""
        """What a policy failed on, until a decision succeeds."""
        self.bind_error = ""
        """Why the last bind could not be carried out, until one is."""
        self.awaiting_volumes: set[str] = set()
        """Those of `binding` that wait for others to bind their claims, which may take minutes."""
        self.may_bind: Callable[[], bool] = lambda: True
        """Whether binds are ours to make, asked right before each."""
        self._binder = Binder(api)
        self._volumes = VolumeBinder(api, cache)
        self.table.volume_taking = cache.volumes
        self._evictor = Evictor(api, cache, journal)
        self._metrics = metrics
        self._changed = changed
        self._backoff = backoff
        self._failures: dict[str, int] = {}
        self._second_try: asyncio.TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        return len(self.binding) - len(self.awaiting_volumes) >= MOST_BINDS

    def lead(self, *, leads: bool) -> None:
        """Whether this process places pods. One that does no longer leaves volumes that are not bound yet to the next,
        which finds in the claims where they are to be.
        """
        if leads:
            self._volumes.stopped = ""
        else:
            self._volumes.stop("this scheduler stopped placing pods while the volumes were being bound")

    # --- what the scheduler asks for -------------------------------------------------------------------------------

    def bind(self, pod: Pod, placement: Placement) -> None:
        self.policy_error = ""
        self._metrics.attempts[SCHEDULED].inc()
        uid = _uid(pod)
        self.lives.turn(uid, State.BINDING)
        self._targets[uid] = target = BindTarget(pod, placement, self._overfills(pod, placement))
        self.binding[uid] = asyncio.create_task(self._bind(self.cache.pods[uid], target), name=f"bind {pod.name}")

    def refuse(self, pod: Pod, why: NoFit) -> None:
        self._metrics.attempts[UNSCHEDULABLE_RESULT].inc()
        message = availability(why)
        # The others of its lane were not tried, but wait for the same reason.
        for other in self.scheduler.queue.same_lane(pod.uid):
            self._tell(other.uid, UNSCHEDULABLE, message)

    def give_up(self, gang: Gang, members: list[Pod], why: str) -> float:
        get_logger().warning("gang_given_up", gang=gang.name, members=len(members), why=why)
        for pod in members:
            self._tell(pod.uid, UNSCHEDULABLE, why, What.GIVE_UP)
            self._rest(pod, _AFTER_GIVING_UP_S)
        return _AFTER_GIVING_UP_S

    def preempt(self, pod: Pod, plan: Preemption) -> None:
        uid = _uid(pod)
        self._metrics.victims.observe(len(plan.victims))
        self.journal.note(What.PREEMPT, pod=pod.name, node=plan.node, detail=str(plan))
        self.clearing[uid] = asyncio.create_task(self._clear(self.cache.pods[uid], plan), name=f"clear for {pod.name}")

    async def _clear(self, pod: CachedPod, plan: Preemption) -> None:
        uid = pod.uid

        def is_wanted() -> bool:
            return self.may_bind() and self._holds(uid, plan.node)

        try:
            cleared = await self._evictor.clear(pod, plan, wanted=is_wanted)
        finally:
            del self.clearing[uid]
        if not cleared and self._holds(uid, plan.node):
            # The node is not to be had this way, or another leads by now: held for a pod for which nobody leaves, it
            # would be so for ever. The pod is tried again as one that holds no node, here or by whoever leads.
            self.preemption.withdraw(uid)
            self._try_again_later()
        elif uid in self.scheduler.queue:
            # It may have had its turn meanwhile, when it could not make others go.
            self._try_again()

    def _holds(self, uid: str, node: str) -> bool:
        """Whether a node is held for a pod: it has not found another, nor gone."""
        held = self.preemption.nominated(uid)
        return held is not None and held.node == node

    def _may_preempt(self, pod: Pod) -> bool:
        cached = self.cache.pods.get(_uid(pod))
        return cached is not None and cached.preemption_policy != "Never" and cached.uid not in self.clearing

    def policy_failed(self, pods: list[Pod], error: PolicyError) -> None:
        self._metrics.attempts[ERROR].inc()
        self.policy_error = str(error)
        get_logger().error("policy_failed", pods=[pod.name for pod in pods[:5]], error=str(error))
        for pod in pods:
            for other in self.scheduler.queue.same_lane(pod.uid):
                self._tell(other.uid, SCHEDULER_ERROR, str(error))
        self._try_again_later()

    def _try_again_later(self) -> None:
        if self._second_try is None:
            self._second_try = asyncio.get_running_loop().call_later(_AFTER_ERROR_S, self._try_again)

    def _try_again(self) -> None:
        if self._second_try is not None:
            self._second_try.cancel()
            self._second_try = None
        self.scheduler.queue.wake_all()
        self._changed()

    # --- what pods are told ----------------------------------------------------------------------------------------

    def same_refusal(self, pod: Pod) -> None:
        """A pod has joined a lane that sleeps: it waits for the same reason as the others there."""
        for other in self.scheduler.queue.same_lane(pod.uid):
            told = self.conditions.told(_uid(other))
            if told is not None:
                self._tell(pod.uid, *told)
                return

    def gang_is_incomplete(self, gang: Gang, members: list[Pod], more: int) -> None:
        """Too few of a gang have come for a turn of it."""
        why = f"waiting for {more} more of the {gang.at_once} pods of gang {gang.name}"
        for pod in members:
            self._tell(pod.uid, UNSCHEDULABLE, why)

    def explain_wait(self, pod: CachedPod, why: str) -> None:
        """A pod cannot be queued yet."""
        self._tell(pod.uid, UNSCHEDULABLE, why)

    def _tell(self, uid: Hashable, reason: str, message: str, what: What = What.REFUSE) -> None:
        pod = self.cache.pods.get(str(uid))
        if pod is not None and self.conditions.tell(pod.uid, reason, message):
            self.journal.note(what, pod=pod.full_name, detail=message)

    def _waiting(self, uid: str) -> CachedPod | None:
        pod = self.cache.pods.get(uid)
        return None if pod is None or pod.node or uid in self.binding else pod

    # --- binds -----------------------------------------------------------------------------------------------------

    async def _bind(self, cached: CachedPod, target: BindTarget) -> None:
        pod, placement, _ = target
        started_s = time.perf_counter()
        try:
            ended = await self._bind_volumes(cached, target)
            if ended is None:
                started_s = time.perf_counter()  # volumes take as long as others take to make them
                ended = await self._binder.bind(
                    cached,
                    placement.node,
                    placement.devices,
                    version=self.cache.pods.get(cached.uid, cached).version,
                    obstacle=lambda: self._obstacle(target),
                )
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the pod must not be lost
            get_logger().exception("bind_broke", pod=pod.name)
            ended = BindResult(Ending.FAILED, f"{type(error).__name__}: {error}")
        del self.binding[cached.uid], self._targets[cached.uid]
        self._metrics.bind_s.observe(time.perf_counter() - started_s)
        self._metrics.binds.labels(ended.ending.value).inc()
        self._conclude(cached, pod, placement, ended)
        self._changed()

    async def _bind_volumes(self, cached: CachedPod, target: BindTarget) -> BindResult | None:
        """How it ended for a pod whose volumes were not to be had; None if it can be bound now."""
        uid = cached.uid
        taken = self.cache.volumes.by_pod.get(uid)
        if taken is None:
            return None
        why = self._obstacle(target) or await self._volumes.write(uid, taken)
        if not why:
            self.awaiting_volumes.add(uid)
            try:
                why = await self._volumes.wait(uid, taken)
            finally:
                self.awaiting_volumes.discard(uid)
        if not why:
            return None
        return BindResult(Ending.NO_VOLUMES if uid in self.cache.pods else Ending.GONE, why)

    def nodes_changed(self) -> None:
        """A node that went has taken assumed pods with it. If it is back while their binds are still on the way, they
        hold their room again, or others would get it too.
        """
        table = self.table
        for uid, (pod, placement, _) in self._targets.items():
            row = table.row_of.get(placement.node)
            cached = self.cache.pods.get(uid)
            if row is None or cached is None or cached.node or cached.ended or uid in table.placed:
                continue
            table.widen(1 + max(placement.devices, default=-1))
            table.assume(pod, Placement(row, placement.node, placement.devices))

    def _obstacle(self, target: BindTarget) -> str:
        node = target.placement.node
        if not self.may_bind():
            return "another replica may lead by now"
        # The API server would bind a pod to a node that does not exist, and to one that is full.
        if node not in self.table.row_of:
            return f"node {node} went away before the pod was bound to it"
        if not target.overfills and self._overfills(target.pod, target.placement):
            return f"node {node} was filled by another scheduler before the pod was bound to it"
        return ""

    def _overfills(self, pod: Pod, placement: Placement) -> bool:
        """Whether the node, with the pod on it, has given more than it has of something that the pod asks for."""
        table, row = self.table, self.table.row_of[placement.node]
        return bool(
            (table.free[row][pod.request > 0] < 0).any()
            or 0 < table.max_pods[row] < table.pod_count[row]
            or any(table.gpu_free[row, device] < 0 for device in placement.devices)
        )

    def _conclude(self, cached: CachedPod, pod: Pod, placement: Placement, ended: BindResult) -> None:
        uid = cached.uid
        if ended.ending is Ending.BOUND:
            if self.lives.of(uid) is State.BINDING:  # the watch may have told so already, or that it has ended since
                self.lives.turn(uid, State.RUNNING)
            self.bind_error = ""
            self._failures.pop(uid, None)
            self.conditions.forget(uid)
            self._metrics.sli_s.observe(max(0.0, time.time() - cached.created_s))
            self.journal.note(What.START, pod=cached.full_name, node=placement.node)
            return
        get_logger().warning("bind_failed", pod=pod.name, node=placement.node, ending=ended.ending.value, why=ended.why)
        self.cache.give_back(uid)
        now = self.cache.pods.get(uid)
        # A pod that was deleted while its bind was under way, or that has a node by now, does not wait again.
        waits = now is not None and not now.node
        if waits and ended.ending in {Ending.FAILED, Ending.NO_VOLUMES}:
            if ended.ending is Ending.FAILED:
                self.bind_error = ended.why
            self._tell(uid, SCHEDULER_ERROR, ended.why)
            failures = self._failures[uid] = self._failures.get(uid, 0) + 1
            self._rest(pod, self._backoff.pause_s(failures))
        else:
            self.forget(uid)

    # --- pods that rest --------------------------------------------------------------------------------------------

    def _rest(self, pod: Pod, pause_s: float) -> None:
        uid = _uid(pod)
        if uid in self.cache.pods:
            self.lives.turn(uid, State.RESTING)
            self.paused[uid] = asyncio.get_running_loop().call_later(pause_s, self._resume, uid)

    def _resume(self, uid: str) -> None:
        self.paused.pop(uid, None)
        # As it is now: labels or gates may have changed while it rested.
        pod = self.cache.waiting(uid)
        if pod is None:
            self.lives.forget(uid)
            return
        self.lives.turn(uid, State.WAITING)
        if pod.gang is not None:
            self.scheduler.queue.members_placed(pod.gang, self.cache.placed_members(pod.gang.name))
        self.scheduler.submit(pod)
        self._changed()

    def forget(self, uid: str) -> None:
        """The pod is gone, or somebody else has placed it."""
        self.lives.forget(uid)
        self._failures.pop(uid, None)
        if not self._failures:
            self.bind_error = ""  # nobody is left who could not be bound
        self.conditions.forget(uid)
        timer = self.paused.pop(uid, None)
        if timer is not None:
            timer.cancel()


def availability(why: NoFit) -> str:
    """A refusal in kube-scheduler's words, which autoscalers and people know: "0/3 nodes are available: …"."""
    if not why.node_count:
        return "no nodes available to schedule pods"
    reasons = sorted(f"{count} {reason}" for reason, count in why.reasons.items())
    ended = f" {why.ended[0].upper()}{why.ended[1:]}." if isinstance(why, NoRoomTogether) else ""
    return f"0/{why.node_count} nodes are available: {', '.join(reasons)}.{ended}"


def _uid(pod: Pod) -> str:
    return str(pod.uid)
