"""The resizes of one node: who gives back goes first, who grows waits for room, and what fails is undone.

At no time do pods request more together than the node has, than is held there for others leaves, and than they did
before or will do after: a waiting pod that fits now, or will fit then, is shut out at no moment between.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from foresail.core.columns import CPU
from foresail.core.journal import What
from foresail.kube.api.errors import ClusterError, Conflict, Forbidden
from foresail.kube.api.retries import may_arrive
from foresail.live.actions.resizing import Stage, planned, word_of
from foresail.live.cache.pods import CachedPod
from foresail.live.records import ReplacedError
from foresail.live.resizes.record import Batch, KeptBatch, PodChange, to_give_back
from foresail.live.resizes.tools import Outcome, ResizeEnd, ResizeTools
from foresail.logs import get_logger

GONE = "the pod is gone"
_FIRST_LOOK_S = 0.05
_MOST_LOOK_S = 1.0
_AFTER_FAILURE_S = 5.0
_CAME_TO_NOTHING = frozenset(
    {Outcome.INFEASIBLE, Outcome.DEFERRED, Outcome.NO_ROOM, Outcome.REFUSED, Outcome.GONE, Outcome.CHANGED}
)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a controller wants a pod to have."""

    pod: CachedPod
    cpu_milli: int
    cpu_limit_milli: int | None
    by: str
    at_s: float
    """On the clock."""


@dataclass(slots=True)
class Step:
    """A change as it goes on."""

    change: PodChange
    asked_s: float
    since_s: float
    """Since when it goes the way it goes."""
    is_sent: bool = False
    allocated_s: float | None = None
    outcome: Outcome | None = None
    """What came of it; once it is `settled` that is its end."""
    why: str = ""
    settled: bool = False
    told: Outcome | None = None
    """The end that was told last."""

    @property
    def wanted_milli(self) -> int:
        """What the pod is to request in all."""
        return self.change.pod_milli(self.change.target)


@dataclass(slots=True)
class NodeResizes:
    """What is to be resized on a node, and what is being."""

    node: str
    tools: ResizeTools
    waiting: dict[str, Ask] = field(default_factory=dict)
    """Those that are asked for and not begun, by uid; a newer one takes the place of an older one."""
    steps: dict[str, Step] = field(default_factory=dict)
    """Those under way, by uid."""
    planning: dict[str, Ask] = field(default_factory=dict)
    """Those whose pods are being looked at."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    _batch: Batch | None = None
    _kept: KeptBatch | None = None
    _look_s: float = _FIRST_LOOK_S

    def __contains__(self, uid: object) -> bool:
        step = self.steps.get(uid) if isinstance(uid, str) else None
        return uid in self.waiting or uid in self.planning or (step is not None and not step.settled)

    def aims(self) -> dict[str, int]:
        """What pods are to request in all after what is asked for, by uid."""
        under_way = {uid: step.wanted_milli for uid, step in self.steps.items() if not step.settled}
        return under_way | {uid: ask.cpu_milli for uid, ask in (*self.planning.items(), *self.waiting.items())}

    def is_asked(self, uid: str, cpu_milli: int, cpu_limit_milli: int | None) -> bool:
        """Whether just this is under way for a pod."""
        ask = self.waiting.get(uid) or self.planning.get(uid)
        if ask is not None:
            return (ask.cpu_milli, ask.cpu_limit_milli) == (cpu_milli, cpu_limit_milli)
        step = self.steps.get(uid)
        if step is None or step.settled:
            return False
        return step.wanted_milli == cpu_milli and cpu_limit_milli in {None, step.change.target.limit_milli}

    # --- batches ---------------------------------------------------------------------------------------------------

    async def run(self, kept: KeptBatch | None = None) -> None:
        """Carry out what is asked for until there is no more; first what another has begun."""
        try:
            if kept is not None:
                await self._go_on(kept)
            while self.waiting:
                self.planning, self.waiting = self.waiting, {}
                await self._begin()
        finally:
            self.tools.reserve.keep(self.node, 0, 0)

    async def _begin(self) -> None:
        steps = [step for ask in list(self.planning.values()) if (step := await self._planned(ask)) is not None]
        self.planning = {}
        if not steps:
            return
        self.steps = {step.change.uid: step for step in steps}
        table = self.tools.cache.table
        row = table.row_of.get(self.node)
        batch = Batch(
            node=self.node,
            changes=tuple(step.change for step in steps),
            free_milli=0 if row is None else max(0, int(table.free[row, CPU])),
            hand=self.tools.hand,
        )
        against = await self._write_down(batch)
        if against:
            for step in steps:
                self._settle(step, Outcome.REFUSED, against)
        else:
            await self._drive()

    async def _write_down(self, batch: Batch) -> str:
        """Why a batch cannot be begun; empty if it is. Where all give back there is nothing to go on with."""
        self._batch, self._kept = batch, None
        if all(one.more_milli <= 0 for one in batch.changes):
            return ""
        try:
            self._kept = await self.tools.records.create(batch)
        except Conflict:
            return "other resizes of its node are written down already"
        except ClusterError as error:
            return f"it cannot be written down: {error}"
        return ""

    async def _go_on(self, kept: KeptBatch) -> None:
        """Say in the record that it is ours from now on, so that whoever drove it before is refused; then drive it."""
        while True:
            try:
                mine = msgspec.structs.replace(kept.record, hand=self.tools.hand)
                self._kept = await self.tools.records.replace(kept, mine)
                break
            except ReplacedError:
                return
            except ClusterError as error:
                get_logger().warning("resizes_held_up", node=self.node, error=str(error))
                await asyncio.sleep(_AFTER_FAILURE_S)
        self._batch = self._kept.record
        now_s = self.tools.clock.now()
        # What it asks for is sent again; a pod that has it is found to have it.
        self.steps = {one.uid: _taken_over(one, now_s) for one in self._batch.changes}
        await self._drive()

    async def _drive(self) -> None:
        """Until every change has come to an end."""
        self._look_s = _FIRST_LOOK_S
        while True:
            try:
                if not self.tools.may_act():
                    await asyncio.sleep(_AFTER_FAILURE_S)  # until the lead is ours for certain, or lost
                    continue
                await self._merge()
                await self._send()
                if not self._open() and not await self._return_room():
                    if self._kept is not None:
                        await self.tools.records.delete(self._kept)
                    break
                await self._wait()
                await self._look()
            except ReplacedError as error:
                get_logger().info("resizes_left_to_another", node=self.node, why=str(error))
                break
            except Exception as error:  # noqa: BLE001 - what is begun is brought to an end, whatever goes wrong
                log = get_logger()
                tell = log.warning if isinstance(error, ClusterError) else log.exception
                tell("resizes_held_up", node=self.node, error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(_AFTER_FAILURE_S)
        self._batch = self._kept = None
        self.steps = {}
        self.tools.reserve.keep(self.node, 0, 0)

    def _open(self) -> list[Step]:
        return [step for step in self.steps.values() if not step.settled]

    async def _wait(self) -> None:
        """Let some time pass, or something happen on the node."""
        self.news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._look_s):
                await self.news.wait()
        self._look_s = min(_MOST_LOOK_S, 1.5 * self._look_s)

    # --- what is asked for -----------------------------------------------------------------------------------------

    async def _planned(self, ask: Ask, before: PodChange | None = None) -> Step | None:
        """What is to be done for one that asks, if anything can be; `before` is what it asked for till now."""
        why, outcome = GONE, Outcome.GONE
        try:
            found = await self.tools.resizer.find(ask.pod)
            if found is not None:
                restarts = self.tools.settings.restarts
                plan = planned(found, ask.cpu_milli, ask.cpu_limit_milli, may_restart=restarts)
                if not isinstance(plan, str):
                    change = PodChange(
                        namespace=ask.pod.namespace,
                        name=ask.pod.name,
                        uid=ask.pod.uid,
                        container=plan.container,
                        was=plan.was if before is None else before.was,
                        to=plan.to,
                        beside_milli=plan.beside_milli,
                        least_milli=plan.least_milli,
                        earlier=() if before is None else (before.to, *before.earlier),
                        by=ask.by,
                    )
                    return Step(change, ask.at_s, self.tools.clock.now())
                why, outcome = plan, Outcome.REFUSED
        except ClusterError as error:
            why, outcome = str(error), Outcome.REFUSED
        took_s = self.tools.clock.now() - ask.at_s
        self.tools.leave_alone(ask.pod.uid, outcome, why)
        self._tell(ask.pod.full_name, ask.by, ResizeEnd(outcome, took_s), why)
        return None

    async def _merge(self) -> None:
        """A newer amount for a pod takes the place of one that nothing has come of yet."""
        for uid, ask in list(self.waiting.items()):
            step = self.steps.get(uid)
            if step is None or step.settled or step.change.back or step.allocated_s is not None:
                continue
            del self.waiting[uid]
            self.planning[uid] = ask
            try:
                newer = await self._planned(ask, step.change)
            finally:
                self.planning.pop(uid, None)
            if newer is None:
                continue
            took_s = self.tools.clock.now() - step.asked_s
            self.tools.ended(ResizeEnd(Outcome.REPLACED, took_s))
            self.steps[uid] = newer
            await self._write([newer.change])

    # --- sending ---------------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        """Ask for what can be asked for now: all that gives back, then what there is room for."""
        for step in [one for one in self._open() if not one.is_sent and self._more_milli(one) <= 0]:
            await self._send_one(step)
        for step in [one for one in self._open() if not one.is_sent]:
            self._keep_room()
            if not self._against(step):
                await self.tools.pace.take()
                # What was free before may be taken by now.
                if not self._against(step):
                    await self._send_one(step, paced=True)
                    continue
            if self.tools.clock.now() - step.since_s > self.tools.settings.within_s:
                await self._fail(step, Outcome.NO_ROOM, self._against(step) or "its turn did not come in time")
        self._keep_room()

    def _more_milli(self, step: Step) -> int:
        """What a pod is to count for beyond what it counts for now."""
        counted_milli = self.tools.counted_milli(step.change.uid)
        return 0 if counted_milli is None else step.wanted_milli - counted_milli

    def _asked_milli(self) -> int:
        """What was asked for and is not counted yet."""
        return sum(max(0, self._more_milli(step)) for step in self._open() if step.is_sent)

    def _against(self, step: Step) -> str:
        """Why a pod cannot grow now; empty if it can."""
        if self._batch is None:
            return ""
        asked_milli = self._asked_milli()
        against = self.tools.against(step.change.uid, self.node, step.wanted_milli, asked_milli)
        counted_milli = sum(self.tools.counted_milli(uid) or 0 for uid in self.steps)
        together_milli = counted_milli + asked_milli + self._more_milli(step)
        if not against and together_milli > self._batch.ceiling_milli:
            return "others have not given back yet what it is to get"
        return against

    def _keep_room(self) -> None:
        """Keep what growths are about to take, as far as those that give back have given it."""
        growing = [step for step in self._open() if not step.is_sent and self._more_milli(step) > 0]
        to_come_milli = sum(max(0, -self._more_milli(step)) for step in self._open())
        milli = sum(self._more_milli(step) for step in growing) - to_come_milli
        pods = self.tools.cache.pods
        priority = max((pods[step.change.uid].priority for step in growing if step.change.uid in pods), default=0)
        self.tools.reserve.keep(self.node, max(0, milli), priority)

    async def _send_one(self, step: Step, *, paced: bool = False) -> None:
        if not paced:
            await self.tools.pace.take()
        if not self.tools.may_act():
            return
        change = step.change
        try:
            word = await self.tools.resizer.send(change, change.container, change.known, change.target)
        except ClusterError as error:
            if step.outcome in {None, Outcome.GIVEN_BACK}:
                step.is_sent = may_arrive(error)
                never = _never_said(error)
                await self._fail(step, Outcome.INFEASIBLE if never else Outcome.REFUSED, never or str(error))
                return
            raise  # it is to be undone, and that is tried until it is
        self._look_s = _FIRST_LOOK_S
        if word.stage is Stage.GONE:
            self._settle(step, Outcome.GONE, GONE)
        elif word.stage is Stage.CHANGED:
            self._settle(step, Outcome.CHANGED, "somebody else has resized it meanwhile")
        else:
            step.is_sent = True

    # --- what becomes of it ----------------------------------------------------------------------------------------

    async def _look(self) -> None:
        for step in [one for one in self._open() if one.is_sent]:
            change = step.change
            word = word_of(await self.tools.resizer.find(change), change.container, change.target, change.known)
            now_s = self.tools.clock.now()
            is_late = now_s - step.since_s > self.tools.settings.within_s
            if word.stage is Stage.GONE:
                self._settle(step, Outcome.GONE, GONE)
            elif word.stage in {Stage.CHANGED, Stage.UNSENT}:
                self._settle(step, Outcome.CHANGED, "somebody else has resized it meanwhile")
            elif word.stage is Stage.INFEASIBLE:
                await self._fail(step, Outcome.INFEASIBLE, f"infeasible: {word.why}")
            elif word.stage in {Stage.ALLOCATED, Stage.DONE}:
                if step.allocated_s is None:
                    step.allocated_s = now_s - step.asked_s
                if word.stage is Stage.DONE or is_late:
                    self._settle(step, Outcome.DONE if word.stage is Stage.DONE else Outcome.ALLOCATED, word.why)
            elif is_late:
                why = f"deferred: {word.why}" if word.stage is Stage.DEFERRED else "its kubelet does not answer"
                await self._fail(step, Outcome.DEFERRED, f"{why} (for {now_s - step.since_s:.0f} s)")

    async def _fail(self, step: Step, outcome: Outcome, why: str) -> None:
        """A change cannot be had: it goes the other way, or stays where it is if nothing was asked for."""
        if step.outcome is None:
            step.outcome, step.why = outcome, why
        elif step.outcome is Outcome.GIVEN_BACK:
            # What it had cannot be given back to it, so it keeps what it was to have.
            step.outcome = Outcome.DONE
            get_logger().warning("resize_not_given_back", pod=step.change.full_name, why=why)
        else:
            self._settle(step, step.outcome, step.why)  # it asks for what it had, and more cannot be done
            return
        if step.is_sent:
            await self._turn([step])
        else:
            self._settle(step, step.outcome, step.why)

    async def _turn(self, steps: Iterable[Step]) -> None:
        """Let changes go the other way from now on."""
        turned = []
        for step in steps:
            back = not step.change.back
            undone, why = (step.outcome or "", step.why) if back else ("", "")
            step.change = msgspec.structs.replace(step.change, back=back, undone=str(undone), why=why)
            step.is_sent, step.settled, step.since_s = False, False, self.tools.clock.now()
            turned.append(step.change)
        await self._write(turned)

    async def _write(self, changes: Iterable[PodChange], *, is_returned: bool = False) -> None:
        """Write down how changes go on, before anything of it is asked for."""
        if self._batch is None:
            return
        newer = {one.uid: one for one in changes}
        changed = tuple(newer.get(one.uid, one) for one in self._batch.changes)
        self._batch = msgspec.structs.replace(
            self._batch, changes=changed, is_returned=is_returned or self._batch.is_returned
        )
        if self._kept is not None:
            self._kept = await self.tools.records.replace(self._kept, self._batch)
        elif any(one.more_milli > 0 for one in changed):
            self._kept = await self.tools.records.create(self._batch)

    async def _return_room(self) -> bool:
        """All have come to an end: give back what was taken only for growths that came to nothing, if anything was."""
        batch = self._batch
        if batch is None or batch.is_returned:
            return False
        ended = {uid: step.outcome for uid, step in self.steps.items()}
        if not any(one.more_milli > 0 and ended[one.uid] in _CAME_TO_NOTHING for one in batch.changes):
            return False
        well = {uid for uid, outcome in ended.items() if outcome in {Outcome.DONE, Outcome.ALLOCATED}}
        back = [self.steps[uid] for uid in to_give_back(batch, well, well)]
        self._batch = msgspec.structs.replace(batch, is_returned=True)
        if not back:
            return False
        for step in back:
            step.outcome = Outcome.GIVEN_BACK
            step.why = "it had only made room for one that came to nothing"
        await self._turn(back)
        return True

    # --- ends ------------------------------------------------------------------------------------------------------

    def _settle(self, step: Step, outcome: Outcome, why: str) -> None:
        """A change has come to its end, be it the one that was asked for or the one before it."""
        step.settled = True
        has_left = outcome in {Outcome.GONE, Outcome.CHANGED}
        if step.outcome is None or (has_left and step.outcome in {Outcome.GIVEN_BACK, Outcome.DONE}):
            step.outcome, step.why = outcome, why
        if step.outcome is step.told:
            return
        step.told = step.outcome
        end = ResizeEnd(step.outcome, self.tools.clock.now() - step.asked_s, step.allocated_s)
        self.tools.leave_alone(step.change.uid, step.outcome, step.why)
        self._tell(step.change.full_name, step.change.by, end, step.why, step.change)

    def _tell(self, pod: str, by: str, end: ResizeEnd, why: str, change: PodChange | None = None) -> None:
        self.tools.ended(end)
        if end.outcome in {Outcome.DONE, Outcome.ALLOCATED} and change is not None:
            amounts = f"{change.pod_milli(change.was)} → {change.pod_milli(change.to)} milli-CPU"
            effect = (
                "in effect" if end.outcome is Outcome.DONE else f"set aside, not in effect yet ({why or 'no word'})"
            )
            detail = f"{amounts} {effect} after {end.took_s:.1f} s"
            self.tools.journal.note(What.RESIZED, pod=pod, node=self.node, detail=detail, by=by)
            return
        self.tools.journal.note(What.DECLINE, pod=pod, node=self.node, detail=f"resize declined: {why}", by=by)


def _never_said(error: ClusterError) -> str:
    """The API server's word that a node has not so much at all, which is no missing right; empty for other errors."""
    if isinstance(error, Forbidden) and "enough allocatable" in error.message:
        return f"infeasible: {error.message}"
    return ""


def _taken_over(change: PodChange, now_s: float) -> Step:
    """A change that another has begun. What it asks for is sent again; a pod that asks for it is left as it is."""
    step = Step(change, now_s, now_s)
    if change.back:
        step.outcome, step.why = Outcome(change.undone or Outcome.DEFERRED), change.why
    return step
