"""Made-up clusters and traces of any size, with the node shapes, pod classes and lifetimes of the openb ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foresail.core.spec import WHOLE_GPU_MILLI, Gang, NodeSpec, PodSpec, Workload
from foresail.errors import OptionError, did_you_mean
from foresail.traces.generate.catalogue import BOUND_REQUESTS, CATALOGUE, CLASS_PODS, NODE_SHAPES

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ARRIVALS = ("poisson", "uniform", "diurnal", "burst")
LONGEST_S = 1.25e7
"""No pod of the openb trace lived longer."""
_QUARTILE = 0.6744897501960817  # the 75 % point of the standard normal distribution
_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateSettings:
    """What to make. The same settings give the same bytes, whatever the machine."""

    nodes: int = 100
    """Number of nodes, shaped in the proportions of the openb GPU cluster."""
    pods: int = 2000
    """Number of pods, in the proportions of the openb default trace."""
    seed: int = 0
    """Start of the random numbers, 0 or more."""
    arrivals: str = "poisson"
    """poisson: independent; uniform: evenly spaced; diurnal: by day more than by night; burst: in clumps."""
    load_factor: float = 1.0
    """Offered load: GPU time that the pods ask, over GPU time that the nodes have while pods arrive (CPU time if no
    pod or no node has a GPU). Above 1 the queue grows. Not used where `rate_per_s` is given."""
    rate_per_s: float | None = None
    """Mean pods a second, instead of `load_factor`."""
    day_s: float = 86_400.0
    """diurnal: length of one period in seconds."""
    day_swing: float = 0.8
    """diurnal: how far the rate swings around its mean, 0 (flat) to 1 (no arrivals at the lowest point)."""
    burst_pods: int = 50
    """burst: mean pods in one clump."""
    burst_spread_s: float = 10.0
    """burst: seconds over which the pods of a clump arrive."""
    median_s: float = 540.0
    """Median lifetime of a pod in seconds; lifetimes are lognormal."""
    p75_s: float = 1972.0
    """Three quarters of the lifetimes are shorter than this many seconds. None is longer than 1.25e7 s."""
    time_step_s: float = 1.0
    """Times are multiples of this many seconds: 1 or a half, quarter, … of it, so that differences stay exact."""
    spec_share: float = 0.0
    """Share of the GPU pods that name the GPU models they accept, 0 to 1."""
    gangs: float = 0.0
    """Share of the pods that belong to gangs, 0 to 1. Members ask the same, arrive together and run equally long."""
    gang_sizes: tuple[int, ...] = (2, 4, 8)
    """Sizes of gangs, each as likely as the others."""
    gang_min: float = 1.0
    """Share of its members that a gang needs to start, above 0 and up to 1."""
    priorities: tuple[tuple[int, float], ...] = ((0, 1.0),)
    """Priority classes: (priority, weight). All members of a gang have the same."""
    replica_sets: int = 0
    """Number of replica sets that own pods. Pods of one set ask the same; each set adds one distinct spec."""
    replica_share: float = 0.5
    """Share of the pods outside gangs that a replica set owns, as far as the sets' requests occur, 0 to 1."""

    def check(self) -> None:
        """Raise an `OptionError` for the first value that makes no sense."""
        _require(self.nodes >= 1, "nodes", self.nodes, "make 1 or more")
        _require(self.pods >= 1, "pods", self.pods, "make 1 or more")
        _require(self.seed >= 0, "seed", self.seed, "write 0 or more")
        near = did_you_mean(self.arrivals, ARRIVALS)
        _require(self.arrivals in ARRIVALS, "arrivals", self.arrivals, f"write one of {', '.join(ARRIVALS)}{near}")
        for name in ("spec_share", "gangs", "day_swing", "replica_share"):
            _require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "write a share from 0 to 1")
        for name in ("load_factor", "day_s", "median_s", "rate_per_s"):
            value = getattr(self, name)
            _require(value is None or 0 < value < math.inf, name, value, "write a number above 0")
        _require(0 <= self.burst_spread_s < math.inf, "burst_spread_s", self.burst_spread_s, "write 0 or more seconds")
        _require(self.burst_pods >= 1, "burst_pods", self.burst_pods, "write 1 or more")
        _require(
            self.median_s <= self.p75_s < math.inf, "p75_s", self.p75_s, f"it is at least the median, {self.median_s:g}"
        )
        exact = 2.0**-20 <= self.time_step_s <= 1 and math.frexp(self.time_step_s)[0] == 0.5
        _require(exact, "time_step_s", self.time_step_s, "write 1, 0.5, 0.25 or a further half")
        _require(
            bool(self.gang_sizes) and min(self.gang_sizes) >= 2, "gang_sizes", self.gang_sizes, "a gang has 2 or more"
        )
        _require(0 < self.gang_min <= 1, "gang_min", self.gang_min, "write a share above 0 and up to 1")
        weights = [weight for _, weight in self.priorities]
        sound = bool(weights) and all(0 <= weight < math.inf for weight in weights) and sum(weights) > 0
        _require(sound, "priorities", self.priorities, "give weights of 0 or more, one of them above 0")
        _require(self.replica_sets >= 0, "replica_sets", self.replica_sets, "write 0 or more")


def _require(holds: bool, name: str, value: object, remedy: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise OptionError(f"{name} is {value}; {remedy}")


def generate(settings: GenerateSettings) -> tuple[list[NodeSpec], Workload]:
    """Make a cluster and a trace. Pods are in order of arrival; names sort as they arrive."""
    settings.check()
    random = np.random.Generator(np.random.PCG64(settings.seed))
    nodes = _make_nodes(settings.nodes)
    specs, counts = _requests(settings, frozenset(node.gpu_model for node in nodes))

    # A unit is what comes and goes as one: a single pod, or all members of a gang.
    gang_sizes = _gang_sizes(settings, random)
    gang_specs, counts = _gang_requests(gang_sizes, counts, random)
    sizes = np.concatenate([gang_sizes, np.ones(settings.pods - int(gang_sizes.sum()), dtype=np.int64)])
    unit_specs = np.concatenate([gang_specs, np.repeat(np.arange(len(specs)), counts)])
    order = random.permutation(len(sizes))
    sizes, unit_specs = sizes[order], unit_specs[order]

    unit_of = np.repeat(np.arange(len(sizes)), sizes)
    spec_of = unit_specs[unit_of]
    duration_s = _durations(settings, len(sizes), random)[unit_of]
    span_s = _span_s(settings, nodes, specs, spec_of, duration_s)
    arrival_s = _on_grid(_unit_arrivals(settings, sizes, span_s, random), settings.time_step_s)[unit_of]
    values = np.array([priority for priority, _ in settings.priorities], dtype=np.int64)
    weights = np.array([weight for _, weight in settings.priorities], dtype=np.float64)
    priority = values[random.choice(len(values), size=len(sizes), p=weights / weights.sum())][unit_of]

    in_gang = (sizes > 1)[unit_of]
    gang_of = np.where(in_gang, (np.cumsum(sizes > 1) - 1)[unit_of], -1)
    gangs = [
        Gang(name, max(1, math.ceil(size * settings.gang_min)))
        for name, size in zip(_numbered("gang", int((sizes > 1).sum()), 6), sizes[sizes > 1].tolist(), strict=True)
    ]
    specs, spec_of = _by_appearance(*_owned(settings, specs, spec_of, ~in_gang, random))
    names = _numbered("pod", settings.pods, 7)
    return nodes, Workload(names, specs, spec_of, arrival_s, duration_s, priority, gang_of, gangs)


def largest_remainder(total: int, weights: Sequence[float] | Floats | Ints) -> Ints:
    """Split `total` into whole parts in proportion to the weights; the parts sum to `total` exactly."""
    exact = total * (np.asarray(weights, dtype=np.float64) / np.sum(weights))
    parts: Ints = np.floor(exact).astype(np.int64)
    # The stable sort gives equal remainders to the earlier entries, on every machine.
    most = np.argsort(parts - exact, kind="stable")[: total - int(parts.sum())]
    parts[most] += 1
    return parts


def _numbered(stem: str, count: int, digits: int) -> list[str]:
    width = max(digits, len(str(count - 1)))
    return [f"{stem}-{number:0{width}d}" for number in range(count)]


def _make_nodes(count: int) -> list[NodeSpec]:
    names = iter(_numbered("node", count, 6))
    shares = largest_remainder(count, [weight for *_, weight in NODE_SHAPES])
    return [
        NodeSpec(next(names), vcpu * 1000, gib * _GIB, gpus, model)
        for (model, gpus, vcpu, gib, _), many in zip(NODE_SHAPES, shares.tolist(), strict=True)
        for _ in range(many)
    ]


def _requests(settings: GenerateSettings, models: frozenset[str]) -> tuple[list[PodSpec], Ints]:
    """All distinct requests and how many pods have each."""
    specs: list[PodSpec] = []
    counts: list[Ints] = []
    by_class = largest_remainder(settings.pods, list(CLASS_PODS.values())).tolist()
    for name, pods in zip(CLASS_PODS, by_class, strict=True):
        rows = CATALOGUE[name]
        plain = [PodSpec(vcpu * 1000, gib * _GIB, gpus, milli) for vcpu, gib, gpus, milli, _ in rows]
        # A model that a small cluster lacks is not asked for: such pods could never be placed.
        bound = [
            (replace(plain[row], gpu_models=allowed), weight)
            for row, listed, weight in BOUND_REQUESTS.get(name, ())
            if (allowed := tuple(model for model in listed.split("|") if model in models))
        ]
        named = round(pods * settings.spec_share) if bound else 0
        specs += plain
        counts.append(largest_remainder(pods - named, [weight for *_, weight in rows]))
        if named:
            specs += [spec for spec, _ in bound]
            counts.append(largest_remainder(named, [weight for _, weight in bound]))
    return specs, np.concatenate(counts)


def _gang_sizes(settings: GenerateSettings, random: np.random.Generator) -> Ints:
    budget = round(settings.pods * settings.gangs)
    most = budget // min(settings.gang_sizes)
    sizes = random.choice(np.array(settings.gang_sizes, dtype=np.int64), size=most)
    return np.asarray(sizes[np.cumsum(sizes) <= budget], dtype=np.int64)


def _gang_requests(sizes: Ints, counts: Ints, random: np.random.Generator) -> tuple[Ints, Ints]:
    """One request for each gang, and how many single pods remain for each request.

    Gangs are laid end to end along the pods sorted by request, and take the one that they begin on: so requests
    keep their proportions, and what gangs took is missing from the singles.
    """
    if not len(sizes):
        return np.empty(0, dtype=np.int64), counts
    begins = (np.cumsum(sizes) - sizes + random.random() * sizes[0]) / sizes.sum()
    bounds = np.cumsum(counts) / counts.sum()
    chosen = np.minimum(np.searchsorted(bounds, begins, side="right"), len(counts) - 1)
    taken = np.bincount(chosen, weights=sizes, minlength=len(counts)).astype(np.int64)
    singles = int(counts.sum() - sizes.sum())
    left = np.maximum(counts - taken, 0)
    return chosen, largest_remainder(singles, left) if singles else np.zeros_like(counts)


def _durations(settings: GenerateSettings, count: int, random: np.random.Generator) -> Floats:
    sigma = math.log(settings.p75_s / settings.median_s) / _QUARTILE
    drawn = settings.median_s * np.exp(sigma * random.standard_normal(count))
    return np.maximum(_on_grid(np.minimum(drawn, LONGEST_S), settings.time_step_s), settings.time_step_s)


def _on_grid(seconds: Floats, step_s: float) -> Floats:
    return np.rint(seconds / step_s) * step_s


def _span_s(
    settings: GenerateSettings, nodes: list[NodeSpec], specs: list[PodSpec], spec_of: Ints, duration_s: Floats
) -> float:
    """How long pods keep arriving, so that rate or load is as asked."""
    if settings.rate_per_s is not None:
        return settings.pods / settings.rate_per_s
    gpu = np.array([spec.gpu_count * spec.gpu_milli for spec in specs], dtype=np.float64)
    cpu = np.array([spec.cpu_milli for spec in specs], dtype=np.float64)
    gpu_work = float(gpu[spec_of] @ duration_s)
    gpus = sum(node.gpu_count for node in nodes) * WHOLE_GPU_MILLI
    if gpu_work and gpus:
        return gpu_work / (settings.load_factor * gpus)
    return float(cpu[spec_of] @ duration_s) / (settings.load_factor * sum(node.cpu_milli for node in nodes))


def _unit_arrivals(settings: GenerateSettings, sizes: Ints, span_s: float, random: np.random.Generator) -> Floats:
    """Ascending arrival times of the units in seconds, spread over about `span_s`."""
    count = len(sizes)
    if settings.arrivals == "uniform":
        return np.arange(count, dtype=np.float64) * (span_s / count)
    if settings.arrivals == "burst":
        clumps = max(1, round(int(sizes.sum()) / settings.burst_pods))
        begins = np.cumsum(random.standard_exponential(clumps)) * (span_s / clumps)
        within = random.random(count) * settings.burst_spread_s
        return np.sort(np.asarray(begins[random.integers(clumps, size=count)] + within, dtype=np.float64))
    # Conditioned on nothing but the mean: the last arrival falls near the span, not exactly on it.
    even = np.cumsum(random.standard_exponential(count)) * (span_s / count)
    return even if settings.arrivals == "poisson" else _by_day(even, settings)


def _by_day(even: Floats, settings: GenerateSettings) -> Floats:
    """Bend evenly random times so that the rate is 1 - swing·cos(2πt/day) of the mean: lowest at the start of a day."""
    phase = np.linspace(0.0, 1.0, 4097)
    passed = phase - settings.day_swing * np.sin(2 * np.pi * phase) / (2 * np.pi)
    days, part = np.divmod(even / settings.day_s, 1.0)
    return (days + np.interp(part, passed, phase)) * settings.day_s


def _owned(
    settings: GenerateSettings,
    specs: list[PodSpec],
    spec_of: Ints,
    free: npt.NDArray[np.bool_],
    random: np.random.Generator,
) -> tuple[list[PodSpec], Ints]:
    """Give replica sets their pods; every set owns pods of one request."""
    counts = np.bincount(spec_of[free], minlength=len(specs))
    if not settings.replica_sets or not counts.sum():
        return specs, spec_of
    sets = largest_remainder(settings.replica_sets, counts)
    reach = int(counts[sets > 0].sum())
    chance = min(1.0, settings.replica_share * int(counts.sum()) / reach)
    first = len(specs) + np.cumsum(sets) - sets
    owned = free & (sets[spec_of] > 0) & (random.random(len(spec_of)) < chance)
    which = (random.random(len(spec_of)) * sets[spec_of]).astype(np.int64)
    names = _numbered("rs", settings.replica_sets, 4)
    request_of_set = np.repeat(np.arange(len(specs)), sets).tolist()
    more = [
        replace(specs[request], owner=f"ReplicaSet/{name}") for request, name in zip(request_of_set, names, strict=True)
    ]
    return specs + more, np.where(owned, first[spec_of] + which, spec_of)


def _by_appearance(specs: list[PodSpec], spec_of: Ints) -> tuple[list[PodSpec], Ints]:
    """Number the specs in the order in which pods first ask them, as a reader of the written files does."""
    used, first, code = np.unique(spec_of, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return [specs[index] for index in used[order].tolist()], rank[code]
