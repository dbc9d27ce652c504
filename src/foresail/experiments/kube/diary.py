"""What became of the pods of a run on a cluster, as tables like a simulated run's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foresail.core.control import View
from foresail.core.journal import Considered, Record, What
from foresail.core.lifecycle import State
from foresail.core.spec import Workload
from foresail.core.table import CPU, GPU, MEMORY, NodeTable
from foresail.results import metrics
from foresail.results.candidates import candidate_tables
from foresail.results.job_samples import JobSamples
from foresail.results.tables import FRAGMENT_CLASSES, Columns, journal_columns
from foresail.sim.node_table import node_columns


@dataclass(slots=True)
class Story:
    """What happened to one pod, or to the job that it is; times in seconds from the start of the run."""

    submit_s: float
    start_s: float = math.nan
    """When it last got a node."""
    end_s: float = math.nan
    node: str = ""
    wait_s: float = 0.0
    run_s: float = 0.0
    starts: int = 0
    failed: str = ""
    """Why it failed; empty for one that did not."""
    waits_since_s: float = field(default=math.nan)

    @property
    def outcome(self) -> State:
        if self.failed:
            return State.FAILED
        if not math.isnan(self.end_s):
            return State.FINISHED
        return State.WAITING if math.isnan(self.start_s) or not math.isnan(self.waits_since_s) else State.RUNNING


class RunDiary:
    """Keeps the journal of a run and looks at its jobs now and then; makes tables of both at the end."""

    def __init__(self, workload: Workload, *, look_every_s: float, begun_s: float) -> None:
        """`begun_s` is when the run begins, on the clock of its journal."""
        self._workload = workload
        self._begun_s = begun_s
        self._records: list[Record] = []
        self._considered: list[Considered] = []
        self._samples = JobSamples(look_every_s, name_of=lambda one: self.name_of(one.pod.name))
        self._timeline: list[tuple[float, ...]] = []
        self.stories: dict[str, Story] = {}
        """By the name that the trace has for the pod, in the order of submission."""
        self._story_of: dict[str, str] = {}

    # --- while it goes on ------------------------------------------------------------------------------------------

    def met(self, pod: str, story: str) -> None:
        """A pod of the cluster, with its namespace, belongs to a story."""
        self._story_of[pod] = story

    def name_of(self, pod: str) -> str:
        """What the trace calls a pod of the cluster; its own name for one that nobody has met."""
        return self._story_of.get(pod, pod)

    def submitted(self, name: str, time_s: float) -> None:
        self.stories[name] = Story(time_s, waits_since_s=time_s)

    def started(self, name: str, node: str, time_s: float) -> None:
        story = self.stories[name]
        if not math.isnan(story.waits_since_s):
            story.wait_s += time_s - story.waits_since_s
        story.start_s, story.node, story.waits_since_s = time_s, node, math.nan
        story.starts += 1

    def left(self, name: str, time_s: float) -> None:
        """Its pod is gone, and it is not done: a successor waits, or will."""
        story = self.stories[name]
        if math.isnan(story.waits_since_s):
            story.run_s += time_s - story.start_s
            story.waits_since_s = time_s

    def ended(self, name: str, time_s: float, why_failed: str = "") -> None:
        story = self.stories[name]
        if not math.isnan(story.start_s) and math.isnan(story.waits_since_s):
            story.run_s += time_s - story.start_s
        story.waits_since_s = math.nan
        story.failed = why_failed
        if not why_failed:
            story.end_s = time_s

    def note(self, record: Record) -> None:
        self._records.append(record._replace(time_s=record.time_s - self._begun_s))

    def consider(self, considered: Considered) -> None:
        self._considered.append(considered._replace(time_s=considered.time_s - self._begun_s))

    def look(self, view: View) -> None:
        """Take in what the nodes have given away, and how the jobs get on."""
        now_s = view.now_s - self._begun_s
        if now_s < self._samples.next_s:
            return
        self._samples.take(View(now_s, view.table, view.running, view.telemetry))
        used = view.table.allocatable.sum(axis=0) - view.table.free.sum(axis=0)
        outcomes = [story.outcome for story in self.stories.values()]
        counts = [outcomes.count(state) for state in (State.RUNNING, State.WAITING, State.FAILED, State.FINISHED)]
        self._timeline.append((now_s, *(float(used[at]) for at in (GPU, CPU, MEMORY)), *map(float, counts)))

    # --- at the end ------------------------------------------------------------------------------------------------

    def tables(self, table: NodeTable, controllers: Sequence[Any] = ()) -> dict[str, Columns]:
        """What happened; with what `controllers` weighed where they tell."""
        considered = [one._replace(pod=self.name_of(one.pod), job=self.name_of(one.pod)) for one in self._considered]
        return {
            "placements": self._placements(),
            "timeline": self._timeline_columns(table),
            "nodes": node_columns(table),
            "pods": self._pods(),
            "journal": journal_columns(one._replace(pod=self.name_of(one.pod)) for one in self._records),
            "jobs": self._samples.columns(),
            **candidate_tables(considered, controllers),
        }

    def _pods(self) -> Columns:
        stories = list(self.stories.values())

        def column(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
            return np.array([getattr(story, name) for story in stories], dtype=np.float64)

        return {
            "pod": list(self.stories),
            "submit_s": column("submit_s"),
            "start_s": column("start_s"),
            "end_s": column("end_s"),
            "wait_s": column("wait_s"),
            "run_s": column("run_s"),
            # How long a pod would run alone is not known here.
            "slowdown": np.full(len(stories), math.nan),
            "outcome": [story.outcome.value for story in stories],
            "restarts": np.array([max(0, story.starts - 1) for story in stories], dtype=np.int64),
            "reason": [story.failed for story in stories],
        }

    def _placements(self) -> Columns:
        by_start = sorted(self.stories.items(), key=lambda one: (math.isnan(one[1].start_s), one[1].start_s))
        return {
            "order": np.arange(len(by_start), dtype=np.int64),
            "pod": [name for name, _ in by_start],
            "node": [story.node for _, story in by_start],
            "devices": [""] * len(by_start),
            "time_s": np.array([story.start_s for _, story in by_start]),
        }

    def _timeline_columns(self, table: NodeTable) -> Columns:
        rows = np.array(self._timeline).reshape(-1, 8)
        whole = rows.astype(np.int64)
        submitted = np.array([story.submit_s for story in self.stories.values()])
        requested = [spec.gpu_count * spec.gpu_milli for spec in self._workload.specs]
        arrived = [requested[self._workload.spec_of[index]] for index in np.argsort(self._workload.arrival_s)]
        sums = np.concatenate([[0], np.cumsum(arrived)]).astype(np.int64)
        unknown = np.full(len(rows), math.nan)
        return {
            "time_s": rows[:, 0],
            "arrived_gpu_milli": sums[np.searchsorted(np.sort(submitted), rows[:, 0], side="right")],
            "used_gpu_milli": whole[:, 1],
            "used_cpu_milli": whole[:, 2],
            "used_memory_bytes": whole[:, 3],
            "idle_gpu_milli": int(table.allocatable[:, GPU].sum()) - whole[:, 1],
            "fragment_milli": unknown,
            **dict.fromkeys(FRAGMENT_CLASSES, unknown),
            "running": whole[:, 4],
            "waiting": whole[:, 5],
            "failed": whole[:, 6],
            "finished": whole[:, 7],
        }

    def summary(self, *, end_s: float) -> dict[str, Any]:
        pods = self._pods()
        outcomes = [story.outcome for story in self.stories.values()]
        waits_s, actions = metrics.waits_s(pods), [record.what for record in self._records if record.by]
        return {
            "pods": len(self.stories),
            **{
                state.value: outcomes.count(state)
                for state in (State.FINISHED, State.RUNNING, State.WAITING, State.FAILED)
            },
            "restarted_pods": sum(story.starts > 1 for story in self.stories.values()),
            "actions": {what.value: actions.count(what) for what in (What.MOVE, What.RESIZE, What.HOLD, What.DECLINE)},
            "wait_s": {**metrics.spread(waits_s), "max": metrics.most(waits_s)},
            "completion_s": metrics.spread(metrics.completions_s(pods)),
            "makespan_s": metrics.makespan_s(pods),
            "end_s": end_s,
            "allocation": {"gpu_pct": None, "cpu_pct": None, "memory_pct": None},
        }


def names_of(stories: Sequence[str], limit: int = 3) -> str:
    """Some names, for a message."""
    shown = ", ".join(stories[:limit])
    return shown if len(stories) <= limit else f"{shown} and {len(stories) - limit} more"
