"""Decide again what kube-scheduler decided, and list where the answers differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from foresail.core.explain import Explanation, explain
from foresail.core.model import NoFit
from foresail.core.profile import Profile
from foresail.errors import InputError
from foresail.parity.recorded import Recorded, replay
from foresail.policies.kubernetes import PLUGIN_OF_SCORE

FEASIBLE, REASONS, FINAL, DECISION = "feasible nodes", "reasons", "final score", "decision"
"""What is compared beside the plug-ins' scores."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that came out otherwise than recorded."""

    case: str
    what: str
    """The plug-in whose score differs, or one of `FEASIBLE`, `REASONS`, `FINAL`, `DECISION`."""
    node: str
    """Empty where the difference is about the whole decision."""
    recorded: str
    computed: str

    def __str__(self) -> str:
        where = f" on {self.node}" if self.node else ""
        return f"{self.case}: {self.what}{where}: recorded {self.recorded}, computed {self.computed}"


@dataclass(slots=True)
class Comparison:
    """All differences of one file."""

    path: Path
    cases: int = 0
    clusters: int = 0
    schedulable: int = 0
    """Cases with at least one feasible node in the recording."""
    scores: int = 0
    """Single scores that were compared."""
    scores_by_plugin: Counter[str] = field(default_factory=Counter)
    """The same, by the plug-in as the recording names it."""
    refused_by_filter: Counter[str] = field(default_factory=Counter)
    """Nodes that each of Foresail's filters refused; a node counts under the first one."""
    differences: list[Difference] = field(default_factory=list)

    @property
    def by_plugin(self) -> dict[str, int]:
        """Number of differences by what differs, the most frequent first."""
        return dict(Counter(difference.what for difference in self.differences).most_common())


def compare_file(path: Path, profile: Profile, progress: Callable[[], None] | None = None) -> Comparison:
    """Decide again about every pod of a file; `progress` is called after each one."""
    result = Comparison(path)
    # Filters that never refuse a node are to be seen too.
    result.refused_by_filter.update(dict.fromkeys((used.name for used in profile.filters), 0))
    result.scores_by_plugin.update(
        dict.fromkeys((PLUGIN_OF_SCORE.get(used.name, used.name) for used in profile.scores), 0)
    )
    seeds = set()
    for recorded, pod, table in replay(path, profile.devices, progress):
        computed = explain(pod, table, profile, top=table.count)
        result.cases += 1
        seeds.add(recorded.seed)
        result.clusters = len(seeds)
        result.schedulable += bool(recorded.feasible)
        for plugins in recorded.scores.values():
            result.scores += len(plugins)
            result.scores_by_plugin.update(plugins.keys())
        asked = [step.asked for step in computed.filters] + [computed.feasible]
        for step, left in zip(computed.filters, asked[1:], strict=True):
            result.refused_by_filter[step.name] += step.asked - left
        result.differences += _differences(recorded, computed)
    if not result.cases:
        raise InputError("has no recorded decisions; foresail parity --lab records some", path=path)
    return result


def _differences(recorded: Recorded, computed: Explanation) -> Iterable[Difference]:
    def differs(what: str, was: object, now: object, node: str = "") -> Iterable[Difference]:
        return [Difference(recorded.name, what, node, str(was), str(now))] if was != now else []

    feasible = frozenset(candidate.node for candidate in computed.candidates)
    yield from differs(FEASIBLE, sorted(recorded.feasible), sorted(feasible))
    if recorded.failed is not None:
        failed: dict[str, int] = {}
        for step in computed.filters:
            for reason, count in step.refused.items():
                failed[reason] = failed.get(reason, 0) + count
        yield from differs(REASONS, dict(sorted(recorded.failed.items())), dict(sorted(failed.items())))
    for candidate in computed.candidates:
        was = recorded.scores.get(candidate.node)
        if was is None:
            continue  # one feasible node is taken without scores; a node that should not be feasible is told above
        now = {PLUGIN_OF_SCORE.get(line.name, line.name): line.normalized * line.weight for line in candidate.scores}
        for plugin in sorted(was.keys() | now.keys()):
            # A plug-in that had nothing to say about the pod is not recorded, and adds nothing.
            yield from differs(plugin, _shown(was.get(plugin, 0)), _shown(now.get(plugin, 0)), candidate.node)
        yield from differs(FINAL, _shown(recorded.final[candidate.node]), _shown(candidate.total), candidate.node)
    yield from _decision(recorded, computed, differs)


def _shown(score: float) -> str:
    """Kubernetes scores in whole numbers; anything else is shown with all its digits."""
    return str(int(score)) if float(score).is_integer() else repr(float(score))


def _decision(
    recorded: Recorded, computed: Explanation, differs: Callable[[str, object, object], Iterable[Difference]]
) -> Iterable[Difference]:
    """Whether `decide`, which remembers, answers what was worked out afresh and recorded."""
    outcome = computed.outcome
    if isinstance(outcome, NoFit):
        yield from differs(DECISION, not recorded.feasible, True)  # noqa: FBT003 - two values to compare
        if recorded.failed is not None:
            yield from differs(DECISION, recorded.failed, dict(outcome.reasons))
    elif recorded.final:
        best = max(recorded.final.values())
        tied = sorted(node for node, total in recorded.final.items() if total == best)
        if outcome.node not in tied or outcome.score != best:
            yield from differs(DECISION, f"{best} on {' or '.join(tied)}", f"{outcome.score:g} on {outcome.node}")
    else:
        yield from differs(DECISION, sorted(recorded.feasible), [outcome.node])
