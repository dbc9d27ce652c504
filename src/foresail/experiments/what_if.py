"""From a snapshot to its answer: which pods would fit, and where, under a policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.table import Table
from rich.text import Text

from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide
from foresail.core.model import Pod
from foresail.core.resource_claims import named_claims
from foresail.core.spec import Gang
from foresail.experiments.inputs import input_hashes
from foresail.experiments.request import WhatIfRequest
from foresail.formats import OBJECT_ENDINGS, TABLE_ENDINGS, refuse_other_endings
from foresail.kube.objects.cluster_objects import read_objects
from foresail.kube.objects.documents import Found
from foresail.live.cache.cache import Cache
from foresail.live.snapshot import cluster_of
from foresail.policies.kubernetes import FILTERS
from foresail.policies.profiles.load import load_profile
from foresail.results.folder import write_run
from foresail.results.result import RunResult
from foresail.settings import plain
from foresail.sim.protocols.snapshot import Measured, PodOutcome, place_all, workload_of
from foresail.traces.kubernetes import read_pods
from foresail.traces.snapshot import read_snapshot
from foresail.traces.trace import load_workload, models_of

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class WhatIf:
    """The answer: what became of each pod."""

    request: WhatIfRequest
    policy: str
    answers: list[PodOutcome]
    result: RunResult | None = None
    """The run as a results folder keeps it, if that was asked for."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Pods that wait but cannot be placed by anyone now, such as gated ones, and why."""
    dropped_rows: int = 0

    @property
    def name(self) -> str:
        return Path(self.request.snapshot).stem

    @property
    def summary(self) -> str:
        fit = sum(answer.placement is not None for answer in self.answers)
        aside = f", {len(self.left_out)} left out" if self.left_out else ""
        return f"{fit} of {len(self.answers)} pods fit{aside}"


def what_if(
    request: WhatIfRequest,
    *,
    measure: bool = False,
    on_progress: Progress | None = None,
    decide: Decide = decide_alone,
) -> WhatIf:
    """Place the waiting pods, and those to try, on the cluster of the snapshot.

    `measure`: also work out what a results folder holds. `decide` may be one that listens in.
    """
    profile = load_profile(request.policy, filters=FILTERS)
    found = read_snapshot(Path(request.snapshot))
    cache = cluster_of(found, profile.devices)
    table = cache.table
    new, dropped = ([], 0) if request.pods is None else _new_pods(request, found, cache)
    waiting, left_out = _waiting(cache) if request.waiting else ([], {})
    moved = _evicted(cache) if request.evict_all else []
    pods = [*moved, *waiting, *new]
    expected = workload_of([pod.spec for pod in cache.pods.values()] + [pod.spec for pod in new])
    profile.seed(request.seed)
    profile.learn(expected, table.all)
    measured = Measured(table, expected) if measure else None
    gone = Counter(pod.gang.name for pod in moved if pod.gang is not None)
    answers = place_all(
        table,
        pods,
        profile,
        placed_members=lambda gang: cache.placed_members(gang) - gone[gang],
        on_progress=on_progress,
        decide=decide,
    )
    answer = WhatIf(request, profile.name, answers, left_out=left_out, dropped_rows=dropped)
    if measured is not None:
        answer.result = measured.result(answers, profile, name=answer.name, seed=request.seed)
    return answer


def _waiting(cache: Cache) -> tuple[list[Pod], dict[str, str]]:
    """Pods that wait for a node, whoever is to place them, in the order of their names; and those left out."""
    pods: list[Pod] = []
    left_out: dict[str, str] = {}
    for cached in sorted(cache.pods.values(), key=lambda cached: (cached.full_name, cached.uid)):
        if cached.node or cached.ended or cached.terminating:
            continue
        pod = cache.as_waiting(cached.uid)
        if cached.gated:
            left_out[cached.full_name] = "it is held back by scheduling gates"
        elif isinstance(pod, str):
            left_out[cached.full_name] = pod
        else:
            pods.append(pod)
    return pods, left_out


def _evicted(cache: Cache) -> list[Pod]:
    """Take pods off their nodes, but for those that end there anyway and those that a node runs by itself."""
    moved = []
    for cached in sorted(cache.pods.values(), key=lambda cached: (cached.full_name, cached.uid)):
        stays = cached.terminating or cached.unreadable or cached.spec.owner.startswith("Node/")
        held = cache.table.placed.get(cached.uid)
        # Whose resource claims are allocated runs where they are: nobody here could allocate them elsewhere.
        if held is not None and not stays and not named_claims(held.pod):
            moved.append(cache.table.forget(cached.uid).pod)
    return moved


def _new_pods(request: WhatIfRequest, found: Sequence[Found], cache: Cache) -> tuple[list[Pod], int]:
    """Pods that the cluster does not have; they come after all that wait already."""
    path, table = Path(str(request.pods)), cache.table
    models = models_of(table.specs)
    if path.suffix.lower() in TABLE_ENDINGS:
        workload, dropped = load_workload(path, models=models, skip_bad_rows=request.skip_bad_rows)
    else:
        refuse_other_endings(path, TABLE_ENDINGS | OBJECT_ENDINGS)
        workload, dropped = read_pods(path, models=models, skip_bad_rows=request.skip_bad_rows, cluster=found)
        read_objects(path, table.objects)  # services, claims and the like that the pods bring with them
        table.objects_changed()
    latest_s = max((cached.created_s for cached in cache.pods.values()), default=0.0)
    pods = []
    for copy in range(1, request.replicas + 1):
        ending = f"-{copy}" if request.replicas > 1 else ""
        gangs = [_named(gang, ending) for gang in workload.gangs]
        for index, name in enumerate(workload.names):
            full_name = f"{_full(name)}{ending}"
            pods.append(
                Pod(
                    full_name,
                    table.shape(workload.spec(index)),
                    uid=f"new {full_name}",
                    priority=int(workload.priority[index]),
                    gang=gangs[workload.gang_of[index]] if workload.gang_of[index] >= 0 else None,
                    arrival_s=latest_s + float(workload.arrival_s[index]),
                )
            )
    return pods, dropped


def _full(name: str) -> str:
    """As the cluster names it; traces leave the namespace `default` out."""
    return name if "/" in name else f"default/{name}"


def _named(gang: Gang, ending: str) -> Gang:
    return replace(gang, name=f"{_full(gang.name)}{ending}")


def what_if_table(answer: WhatIf) -> Table:
    """One row a pod."""
    table = Table("pod", "node", "GPUs", "why not", title=Text(f"{answer.policy} on {answer.name}"))
    table.title_justify = "left"
    for one in answer.answers:
        node = "" if one.placement is None else one.placement.node
        # Text, not markup: a pod may be called "[red]".
        table.add_row(*[Text(cell) for cell in (one.pod.name, node, one.devices.replace("-", ", "), one.why)])
    for name, why in answer.left_out.items():
        table.add_row(Text(name), "", "", Text(f"left out: {why}"))
    return table


def store_what_if(out: Path, answer: WhatIf, *, overwrite: bool = False) -> None:
    """Write the results folder of an answer that was measured."""
    if answer.result is None:
        raise ValueError("nothing was measured; call what_if with measure=True")
    request = answer.request
    extra = {
        "command": request.command,
        "request": plain(request),
        "inputs": input_hashes(request),
        "left_out": answer.left_out,
    }
    write_run(out, answer.result, manifest_extra=extra, overwrite=overwrite)
