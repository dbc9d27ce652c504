"""What can be wrong with a trace: numbered findings, their explanations, and the checks on a trace that was read.

Readers report through `Findings` and raise from it, so a row is judged the same way by `trace check` and by a run.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

import numpy as np
import numpy.typing as npt

from foresail.core.spec import WHOLE_GPU_MILLI, NodeSpec, PodSpec, Workload
from foresail.errors import InputError
from foresail.traces.check.explanations import EXPLANATIONS

Ints = npt.NDArray[np.int64]
Severity = Literal["error", "warning", "note"]

KEPT_PER_CODE = 20
"""How many findings of one code are listed; a million bad rows are counted, not printed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or odd, with an input file. `line` counts from 1; the header of a CSV is line 1."""

    code: str
    severity: Severity
    path: str
    line: int | None
    message: str


class Findings:
    """All findings of one file: the first few of each code in full, the rest as a count."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._kept: list[Finding] = []
        self._count: Counter[str] = Counter()
        self.dropped_rows = 0
        """Rows with an error, which are left out of what the reader returns."""

    def add(self, code: str, message: str, line: int | None = None) -> None:
        self._count[code] += 1
        if self._count[code] <= KEPT_PER_CODE:
            self._kept.append(Finding(code, EXPLANATIONS[code].severity, self.path, line, message))

    def add_rows(self, code: str, rows: Ints, lines: Ints, describe: Callable[[int], str]) -> None:
        """Add one finding for each row; `describe` is asked only for those that are listed."""
        for row in rows[: max(0, KEPT_PER_CODE - self._count[code])].tolist():
            self._kept.append(
                Finding(code, EXPLANATIONS[code].severity, self.path, int(lines[row]), describe(int(row)))
            )
        self._count[code] += len(rows)

    def fail(self, code: str, message: str, line: int | None = None) -> NoReturn:
        """Add a finding that leaves nothing to read, and raise it."""
        self.add(code, message, line)
        raise InputError(message, path=self.path, line=line)

    def raise_first_error(self) -> None:
        """Raise the error that stands highest in the file, with what `--skip-bad-rows` would do."""
        errors = [finding for finding in self._kept if finding.severity == "error"]
        if not errors:
            return
        first = min(errors, key=lambda finding: finding.line or 0)
        such = self._count[first.code]
        dropped = f"--skip-bad-rows drops {such} such row{'s' if such > 1 else ''}"
        if self.dropped_rows > such:
            dropped += f", {self.dropped_rows} bad rows in all"
        raise InputError(f"{first.message} ({dropped})", path=self.path, line=first.line)

    def __iter__(self) -> Iterator[Finding]:
        """List by line, then what was counted but not listed."""
        yield from sorted(self._kept, key=lambda finding: finding.line or 0)
        for code, count in sorted(self._count.items()):
            if count > KEPT_PER_CODE:
                more = f"{count - KEPT_PER_CODE} more like this: {EXPLANATIONS[code].title.lower()}"
                yield Finding(code, EXPLANATIONS[code].severity, self.path, None, more)


class _Places:
    """Adds findings about items of a trace, with the line where the item stands if the reader knows it."""

    def __init__(self, findings: Findings, lines: Ints | None) -> None:
        self._findings = findings
        self._lines = lines

    def add(self, code: str, index: int, message: str) -> None:
        self._findings.add(code, message, None if self._lines is None else int(self._lines[index]))


def check_nodes(nodes: Sequence[NodeSpec], findings: Findings, lines: Ints | None = None) -> None:
    """Find what is odd about nodes, whatever file they came from."""
    places = _Places(findings, lines)
    for index, node in enumerate(nodes):
        if node.gpu_count == 0 and node.gpu_model:
            places.add("FS308", index, f'node "{node.name}" has 0 GPUs but the model "{node.gpu_model}"')
        if node.gpu_count > 0 and not node.gpu_model:
            places.add(
                "FS309",
                index,
                f'node "{node.name}" has {node.gpu_count} GPUs of no model; pods that name a model cannot use them',
            )


def check_workload(workload: Workload, findings: Findings, lines: Ints | None = None) -> None:
    """Find what is odd about pods, whatever file they came from."""
    places = _Places(findings, lines)
    first, count = _first_and_count(workload)
    for models, at, pods in _by_models(workload, first, count):
        repeated = sorted({model for model in models if models.count(model) > 1})
        if repeated:
            places.add("FS303", at, f'"{"|".join(models)}" names {", ".join(repeated)} more than once ({_pods(pods)})')
    instant = np.flatnonzero(workload.duration_s == 0)
    if len(instant):
        at = int(instant[0])
        places.add("FS304", at, f'pod "{workload.names[at]}" runs for 0 s ({_pods(len(instant))})')
    earlier = np.flatnonzero(np.diff(workload.arrival_s) < 0)
    if len(earlier):
        at = int(earlier[0]) + 1
        places.add(
            "FS305",
            at,
            f'pod "{workload.names[at]}" arrives at {workload.arrival_s[at]:g} s, '
            f"before the pod above it ({_pods(len(earlier))})",
        )
    for gang, members in zip(workload.gangs, _members(workload), strict=True):
        if gang.min_members > len(members):
            places.add(
                "FS307",
                int(members[0]) if len(members) else 0,
                f'gang "{gang.name}" waits for {gang.min_members} pods but has {len(members)}, so it never starts',
            )


def check_fit(nodes: Sequence[NodeSpec], workload: Workload, findings: Findings, lines: Ints | None = None) -> None:
    """Find pods and gangs that the nodes could not take even if they were empty."""
    places = _Places(findings, lines)
    known = frozenset(node.gpu_model for node in nodes if node.gpu_model)
    first, count = _first_and_count(workload)
    for models, at, pods in _by_models(workload, first, count):
        missing = sorted(set(models) - known)
        if unknown_models(models, known):
            places.add("FS211", at, no_such_model("|".join(models), known))
        elif missing:
            places.add(
                "FS302", at, f'"{"|".join(models)}" names {", ".join(missing)}, which no node has ({_pods(pods)})'
            )
    shapes = _distinct_shapes(nodes)
    for code, spec in enumerate(workload.specs):
        if (
            count[code]
            and not unknown_models(spec.gpu_models, known)
            and not any(_fits(spec, shape) for shape in shapes)
        ):
            at = int(first[code])
            places.add(
                "FS301",
                at,
                f'pod "{workload.names[at]}" asks {_text(spec)}; no empty node has that much ({_pods(count[code])})',
            )
    _check_gang_sizes(nodes, workload, places)


def _check_gang_sizes(nodes: Sequence[NodeSpec], workload: Workload, places: _Places) -> None:
    def requested(of: Callable[[PodSpec], int]) -> Ints:
        return np.array([of(spec) for spec in workload.specs], dtype=np.int64)[workload.spec_of]

    if not workload.gangs:
        return
    totals = (
        ("milli-CPU", requested(lambda spec: spec.cpu_milli), sum(node.cpu_milli for node in nodes)),
        ("bytes of memory", requested(lambda spec: spec.memory_bytes), sum(node.memory_bytes for node in nodes)),
        (
            "milli-GPU",
            requested(lambda spec: spec.gpu_count * spec.gpu_milli),
            sum(node.gpu_count for node in nodes) * WHOLE_GPU_MILLI,
        ),
    )
    for gang, members in zip(workload.gangs, _members(workload), strict=True):
        for unit, asked, total in totals:
            # The smallest members that make the gang start: if even these do not fit, it never does.
            needed = int(np.sort(asked[members])[: gang.min_members].sum())
            if needed > total:
                message = f'gang "{gang.name}" needs {needed} {unit} at once; the whole cluster has {total}'
                places.add("FS306", int(members[0]), message)
                break


def unknown_models(models: Iterable[str], known: frozenset[str]) -> bool:
    """Whether a pod names models and none of them exists, so that no node may ever take it."""
    wanted = set(models)
    return bool(wanted) and not wanted & known


def no_such_model(gpu_spec: str, known: frozenset[str]) -> str:
    have = ", ".join(sorted(known)) or "no GPU model at all"
    return f'gpu_spec is "{gpu_spec}"; no node has such a GPU, so the pod can never be placed (the nodes have {have})'


def _first_and_count(workload: Workload) -> tuple[Ints, Ints]:
    """For each spec the first pod that requests it, and how many do."""
    count = np.bincount(workload.spec_of, minlength=len(workload.specs))
    first = np.full(len(workload.specs), -1, dtype=np.int64)
    first[workload.spec_of[::-1]] = np.arange(len(workload) - 1, -1, -1)
    return first, count


def _by_models(workload: Workload, first: Ints, count: Ints) -> list[tuple[tuple[str, ...], int, int]]:
    """For each list of models that GPU pods name: the list, its first pod, how many pods name it."""
    found: dict[tuple[str, ...], tuple[int, int]] = {}
    for code, spec in enumerate(workload.specs):
        if spec.gpu_models and spec.gpu_count and count[code]:
            at, pods = found.get(spec.gpu_models, (int(first[code]), 0))
            found[spec.gpu_models] = (min(at, int(first[code])), pods + int(count[code]))
    return [(models, at, pods) for models, (at, pods) in found.items()]


def _members(workload: Workload) -> list[Ints]:
    """For each gang the indices of its pods."""
    by_gang = np.argsort(workload.gang_of, kind="stable")
    bounds = np.searchsorted(workload.gang_of[by_gang], np.arange(len(workload.gangs) + 1))
    return [by_gang[start:end] for start, end in itertools.pairwise(bounds.tolist())]


def _distinct_shapes(nodes: Sequence[NodeSpec]) -> list[NodeSpec]:
    shapes = {(n.cpu_milli, n.memory_bytes, n.gpu_count, n.gpu_model, n.extended): n for n in nodes}
    return list(shapes.values())


def _fits(spec: PodSpec, node: NodeSpec) -> bool:
    if spec.cpu_milli > node.cpu_milli or spec.memory_bytes > node.memory_bytes or spec.gpu_count > node.gpu_count:
        return False
    if spec.gpu_count and spec.gpu_models and node.gpu_model not in spec.gpu_models:
        return False
    has = dict(node.extended)
    return all(amount <= has.get(name, 0) for name, amount in spec.extended)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _text(spec: PodSpec) -> str:
    parts = [f"{spec.cpu_milli} milli-CPU", f"{spec.memory_bytes // 2**20} MiB"]
    if spec.gpu_count:
        models = f" of {'|'.join(spec.gpu_models)}" if spec.gpu_models else ""
        parts.append(f"{spec.gpu_count} x {spec.gpu_milli} milli-GPU{models}")
    parts += [f"{amount} {name}" for name, amount in spec.extended]
    return ", ".join(parts)
