"""Nodes and pods as Kubernetes writes them: YAML and JSON files in, the same files out."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import structlog
import yaml

from foresail.core.spec import WHOLE_GPU_MILLI, Gang, NodeSpec, PodSpec, Taint, Toleration, Workload
from foresail.errors import InputError, did_you_mean
from foresail.traces.quantity import (
    LARGEST,
    NANO_PER_MILLI,
    NANO_PER_UNIT,
    Amounts,
    RequestError,
    amounts,
    effective_requests,
    mapping,
    rounded,
    sequence,
)

JSON_ENDINGS = frozenset({".json", ".jsonl", ".ndjson"})
YAML_ENDINGS = frozenset({".yaml", ".yml"})

GPU_COUNT = "alibabacloud.com/gpu-count"
GPU_MILLI = "alibabacloud.com/gpu-milli"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
CREATED = "alibabacloud.com/creation-time"
DELETED = "alibabacloud.com/deletion-time"
NVIDIA_GPU = "nvidia.com/gpu"
NVIDIA_MODEL = "nvidia.com/gpu.product"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
GANG = "foresail.dev/gang"
GANG_MIN = "foresail.dev/gang-min"
GANG_TIMEOUT_S = "foresail.dev/gang-timeout-s"
ARRIVAL_S = "foresail.dev/arrival-s"
DURATION_S = "foresail.dev/duration-s"
OWNER = "foresail.dev/owner"
OUR_MODEL = "foresail.dev/gpu-model"
ADDED_MODEL_LABEL = "foresail.dev/added-model-label"

_BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PLACED_VOLUMES = frozenset(
    {
        *("persistentVolumeClaim", "ephemeral", "csi", "awsElasticBlockStore", "azureDisk", "gcePersistentDisk"),
        *("iscsi", "rbd"),
    }
)
"""Volumes that tie a pod to nodes. The others (config maps, secrets, empty folders) go anywhere."""
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_LAST_STAMP_S = 1e10
_DEEPEST = 200

log = structlog.get_logger()


# ------------------------------------------------------------------------------------------------ files and documents


class PlainLoader(yaml.CSafeLoader):
    """Safe YAML in which times stay text, so that an unquoted RFC 3339 time reads like a quoted one."""

    depth = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        # The C parser calls itself for every level and would crash the whole program on a hostile file.
        self.depth += 1
        if self.depth > _DEEPEST:
            raise yaml.YAMLError(f"it nests more than {_DEEPEST} levels deep")
        super().descend_resolver(current_node, current_index)

    def ascend_resolver(self) -> None:
        self.depth -= 1
        super().ascend_resolver()


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, shape) for tag, shape in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Found:
    """One Kubernetes object and where it stands."""

    kind: str
    value: Mapping[str, Any]
    place: str
    line: int | None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path`, of the same ending; it takes the place of `path` at the end, or vanishes after an error."""
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=path) from error
    finally:
        part.unlink(missing_ok=True)


def read_text(path: Path) -> str:
    """The file as text; a missing or undecodable file is an `InputError`."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text (byte {error.start}); convert it to UTF-8", path=path) from error


def json_documents(path: Path, text: str) -> Iterator[tuple[Any, int]]:
    """Every JSON value of the text with its first line: one document, or JSON lines."""
    decoder = json.JSONDecoder()
    at = line = 0
    while (start := _after_space(text, at)) < len(text):
        line += text.count("\n", at, start)
        try:
            value, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            raise InputError(f"is no JSON: {error.msg} (column {error.colno})", path=path, line=error.lineno) from error
        except RecursionError as error:
            raise InputError("nests too deeply to be read", path=path, line=line + 1) from error
        yield value, line + 1
        line += text.count("\n", start, end)
        at = end


def objects(path: Path) -> Iterator[Found]:
    """All objects of a file in order; lists (`List`, `NodeList`, a plain JSON list) are opened."""
    text = read_text(path)
    ending = path.suffix.lower()
    as_json = ending in JSON_ENDINGS or (ending not in YAML_ENDINGS and text.lstrip()[:1] in {"{", "["})
    documents = _json_values(path, text) if as_json else _yaml_values(path, text)
    for number, (value, line, item_lines) in enumerate(documents, 1):
        yield from _opened(path, value, "", f"document {number}", line, item_lines)


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _json_values(path: Path, text: str) -> Iterator[tuple[Any, int | None, list[int]]]:
    for value, line in json_documents(path, text):
        yield value, line, []


def _yaml_values(path: Path, text: str) -> Iterator[tuple[Any, int | None, list[int]]]:
    try:
        loader = PlainLoader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                return
            yield loader.construct_document(node), node.start_mark.line + 1, _item_lines(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise InputError(f"is no YAML: {said}", path=path, line=mark.line + 1 if mark else None) from error
    except yaml.YAMLError as error:
        raise InputError(f"is no YAML: {error}", path=path) from error
    except (RecursionError, ValueError) as error:
        raise InputError(f"is no YAML that can be read: {error}", path=path) from error


def _item_lines(node: yaml.Node) -> list[int]:
    items: yaml.Node = node
    if isinstance(node, yaml.MappingNode):
        items = next((value for key, value in node.value if key.value == "items"), node)
    return [item.start_mark.line + 1 for item in items.value] if isinstance(items, yaml.SequenceNode) else []


def _opened(
    path: Path, value: object, kind: str, place: str, line: int | None, item_lines: list[int]
) -> Iterator[Found]:
    if value is None:
        return
    items: object = value
    if isinstance(value, Mapping):
        kind = value.get("kind") or kind
        if not isinstance(kind, str) or not kind:
            raise InputError(f"{place} has no kind; a Kubernetes object says what it is", path=path, line=line)
        if not (kind.endswith("List") and "items" in value):
            yield Found(kind, value, place, line)
            return
        items = value["items"] or []
        kind = kind.removesuffix("List")
    if not isinstance(items, list):
        raise InputError(f"{place} is no Kubernetes object", path=path, line=line)
    for index, item in enumerate(items):
        at = item_lines[index] if index < len(item_lines) else line
        yield from _opened(path, item, kind, f"{place} item {index + 1}", at, [])


@dataclass(slots=True)
class _BadObjects:
    """Objects that cannot be used: all are counted, the first one is told."""

    path: Path
    skip: bool
    first: tuple[str, int | None] | None = None
    count: int = 0

    def add(self, found: Found, error: RequestError) -> None:
        self.count += 1
        if self.first is None:
            name = mapping_or_empty(found.value.get("metadata")).get("name")
            self.first = f"{found.place} ({found.kind} {name or 'without name'}): {error}", found.line

    def settle(self) -> int:
        if self.first is None or self.skip:
            return self.count
        many = f"{self.count} such objects" if self.count > 1 else "it"
        raise InputError(f"{self.first[0]} (--skip-bad-rows drops {many})", path=self.path, line=self.first[1])


def mapping_or_empty(value: object) -> Mapping[str, Any]:
    """`value` if it is a mapping; for places where a wrong shape is told elsewhere."""
    return value if isinstance(value, Mapping) else {}


# ------------------------------------------------------------------------------------------------------ single values


def _string(value: object, field_name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RequestError(f"{field_name} is {json.dumps(value, default=str)}, not text; write it in quotes")
    return value


def _key(pair: tuple[object, object]) -> str:
    return str(pair[0])


def _strings(value: object, field_name: str) -> dict[str, str]:
    texts = mapping(value, field_name)
    return {
        _string(key, field_name): _string(text, f"{field_name}.{key}") for key, text in sorted(texts.items(), key=_key)
    }


def _whole(value: object, field_name: str, *, least: int = 0) -> int:
    try:
        number = int(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None or not least <= number <= LARGEST:
        raise RequestError(f'{field_name} is "{value}"; write a whole number of {least} or more')
    return number


def _seconds(value: object, field_name: str) -> float:
    try:
        seconds = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise RequestError(f'{field_name} is "{value}"; write seconds, 0 or more')
    return seconds


def _time(value: object, field_name: str) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        time = datetime.fromisoformat(value.upper()) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise RequestError(f'{field_name} is "{value}"; write an RFC 3339 time such as "2023-01-31T08:00:00Z"')
    return time


def _count(amount: int, field_name: str) -> int:
    if amount % NANO_PER_UNIT:
        raise RequestError(f"{field_name} is not a whole number; devices are asked for whole")
    return amount // NANO_PER_UNIT


def _column(amount: int, divisor: int, field_name: str) -> int:
    value = rounded(amount, divisor)
    if value > LARGEST:
        raise RequestError(f"{field_name} is too large ({value}); the largest value is {LARGEST}")
    return value


def _extended(found: Amounts, field_name: str) -> tuple[tuple[str, int], ...]:
    known = {"cpu", "memory", "pods", GPU_COUNT, GPU_MILLI, NVIDIA_GPU}
    return tuple(
        (name, _column(amount, NANO_PER_UNIT, f"{field_name}.{name}"))
        for name, amount in sorted(found.items())
        if amount and name not in known
    )


def _metadata(value: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    metadata = mapping(value.get("metadata"), "metadata")
    name = _string(metadata.get("name"), "metadata.name")
    if not name:
        raise RequestError("metadata.name is missing; give the object a name")
    return metadata, name


def _qualified(namespace: str, name: str) -> str:
    return name if namespace == "default" else f"{namespace}/{name}"


# -------------------------------------------------------------------------------------------------------------- nodes


def read_nodes(path: str | Path, *, skip_bad_rows: bool = False) -> tuple[list[NodeSpec], int]:
    """All Node objects of a file in its order, and how many were dropped (0 unless `skip_bad_rows`)."""
    path = Path(path)
    bad = _BadObjects(path, skip_bad_rows)
    nodes: dict[str, NodeSpec] = {}
    kinds: Counter[str] = Counter()
    for found in objects(path):
        kinds[found.kind] += 1
        if found.kind != "Node":
            continue
        try:
            node = _node(found.value)
            if node.name in nodes:
                raise RequestError(f'metadata.name is "{node.name}" a second time; node names are unique')  # noqa: TRY301 - one place tells all bad objects
        except RequestError as error:
            bad.add(found, error)
            continue
        nodes[node.name] = node
    dropped = bad.settle()
    _refuse_none(path, "Node", nodes, kinds)
    return list(nodes.values()), dropped


def _refuse_none(path: Path, kind: str, taken: Iterable[str], kinds: Counter[str]) -> None:
    if any(True for _ in taken):
        return
    held = ", ".join(f"{count} {name}" for name, count in sorted(kinds.items())) or "nothing"
    raise InputError(f"holds no usable {kind} objects (it holds {held})", path=path)


def _node(value: Mapping[str, Any]) -> NodeSpec:
    metadata, name = _metadata(value)
    spec = mapping(value.get("spec"), "spec")
    status = mapping(value.get("status"), "status")
    where = "allocatable" if status.get("allocatable") is not None else "capacity"
    offered = amounts(status.get(where), f"status.{where}")
    labels = _strings(metadata.get("labels"), "metadata.labels")
    annotations = _strings(metadata.get("annotations"), "metadata.annotations")
    model = annotations.get(OUR_MODEL, _labelled_model(labels))
    if annotations.get(ADDED_MODEL_LABEL) == GPU_MODEL:
        labels.pop(GPU_MODEL, None)
    return NodeSpec(
        name=name,
        cpu_milli=_column(offered.get("cpu", 0), NANO_PER_MILLI, f"status.{where}.cpu"),
        memory_bytes=_column(offered.get("memory", 0), NANO_PER_UNIT, f"status.{where}.memory"),
        gpu_count=_node_gpus(offered, f"status.{where}"),
        gpu_model=model,
        max_pods=_column(offered.get("pods", 0), NANO_PER_UNIT, f"status.{where}.pods"),
        labels=tuple(labels.items()),
        taints=tuple(_taint(taint, index) for index, taint in enumerate(sequence(spec.get("taints"), "spec.taints"))),
        extended=_extended(offered, f"status.{where}"),
        # A limit of 0 pods admits none, while max_pods 0 means no limit: such a node is closed.
        unschedulable=bool(spec.get("unschedulable")) or offered.get("pods") == 0,
    )


def _labelled_model(labels: Mapping[str, str]) -> str:
    return labels.get(GPU_MODEL) or labels.get(NVIDIA_MODEL, "")


def _node_gpus(offered: Amounts, field_name: str) -> int:
    milli = offered.get(GPU_MILLI)
    if GPU_COUNT in offered:
        count = _count(offered[GPU_COUNT], f"{field_name}.{GPU_COUNT}")
        if milli is not None and milli != count * WHOLE_GPU_MILLI * NANO_PER_UNIT:
            raise RequestError(
                f'{field_name}.{GPU_MILLI} is "{milli // NANO_PER_UNIT}" for {count} GPUs; '
                f"write {count * WHOLE_GPU_MILLI}, 1000 for each"
            )
        return count
    if milli is not None:
        return _count(milli // WHOLE_GPU_MILLI, f"{field_name}.{GPU_MILLI} / 1000")
    return _count(offered.get(NVIDIA_GPU, 0), f"{field_name}.{NVIDIA_GPU}")


def _taint(value: object, index: int) -> Taint:
    place = f"spec.taints[{index}]"
    taint = mapping(value, place)
    effect = _string(taint.get("effect"), f"{place}.effect")
    if effect not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
        raise RequestError(f'{place}.effect is "{effect}"; write NoSchedule, PreferNoSchedule or NoExecute')
    return Taint(_string(taint.get("key"), f"{place}.key"), _string(taint.get("value"), f"{place}.value"), effect)


# --------------------------------------------------------------------------------------------------------------- pods


def read_pods(
    path: str | Path, *, models: frozenset[str] | None = None, skip_bad_rows: bool = False
) -> tuple[Workload, int]:
    """All Pod objects of a file in its order, and how many were dropped (0 unless `skip_bad_rows`).

    `models` are the GPU models the cluster has; a pod that names none of them is a bad object. Fields that
    placement does not honour yet are told once in a warning, with the number of pods that carry them.
    """
    path = Path(path)
    bad = _BadObjects(path, skip_bad_rows)
    kinds: Counter[str] = Counter()
    waiting: list[Found] = []
    classes = _PriorityClasses()
    groups: dict[str, tuple[int | None, float | None]] = {}
    for found in objects(path):
        kinds[found.kind] += 1
        try:
            if found.kind == "Pod":
                waiting.append(found)
            elif found.kind == "PriorityClass":
                classes.add(found.value)
            elif found.kind == "PodGroup":
                name, group = _pod_group(found.value)
                groups[name] = group
        except RequestError as error:
            bad.add(found, error)
    # Priority classes and pod groups may stand after the pods that name them, so pods are read last.
    pods = _Pods(classes, groups, models)
    for found in waiting:
        try:
            pods.add(found.value)
        except RequestError as error:
            bad.add(found, error)
    dropped = bad.settle()
    _refuse_none(path, "Pod", pods.row_of, kinds)
    if pods.ignored:
        log.warning("pod_fields_ignored", path=str(path), pods_by_field=dict(sorted(pods.ignored.items())))
    return pods.workload(), dropped


@dataclass(slots=True)
class _PriorityClasses:
    values: dict[str, int] = field(default_factory=lambda: dict(_BUILT_IN_PRIORITIES))
    default: int = 0

    def add(self, value: Mapping[str, Any]) -> None:
        _, name = _metadata(value)
        self.values[name] = _whole(value.get("value"), "value", least=-(2**31))
        if value.get("globalDefault"):
            self.default = self.values[name]

    def priority(self, spec: Mapping[str, Any]) -> int:
        if spec.get("priority") is not None:
            return _whole(spec["priority"], "spec.priority", least=-(2**31))
        name = _string(spec.get("priorityClassName"), "spec.priorityClassName")
        if not name:
            return self.default
        if name not in self.values:
            raise RequestError(
                f'spec.priorityClassName is "{name}"{did_you_mean(name, self.values)}; '
                f"add the PriorityClass to the file or write spec.priority"
            )
        return self.values[name]


def _pod_group(value: Mapping[str, Any]) -> tuple[str, tuple[int | None, float | None]]:
    metadata, name = _metadata(value)
    spec = mapping(value.get("spec"), "spec")
    policy = mapping(spec.get("schedulingPolicy"), "spec.schedulingPolicy")
    gang = mapping(policy.get("gang"), "spec.schedulingPolicy.gang")
    least: int | None = None
    for place, number in (
        ("spec.minMember", spec.get("minMember")),
        ("spec.minCount", spec.get("minCount")),
        ("spec.schedulingPolicy.gang.minCount", gang.get("minCount")),
    ):
        if number is not None:
            least = _whole(number, place, least=1)
    if least is None and "basic" in policy:
        least = 1  # a basic group has no all-or-nothing rule
    timeout = spec.get("scheduleTimeoutSeconds")
    timeout_s = None if timeout is None else _seconds(timeout, "spec.scheduleTimeoutSeconds")
    namespace = _string(metadata.get("namespace"), "metadata.namespace") or "default"
    return _qualified(namespace, name), (least, timeout_s)


class _Pods:
    """Gathers pods into columns; a pod is added whole or not at all."""

    def __init__(
        self,
        classes: _PriorityClasses,
        groups: Mapping[str, tuple[int | None, float | None]],
        models: frozenset[str] | None,
    ) -> None:
        self.classes = classes
        self.groups = groups
        self.models = models
        self.row_of: dict[str, int] = {}
        self.ignored: Counter[str] = Counter()
        self._specs: dict[PodSpec, int] = {}
        self._spec_of: list[int] = []
        self._arrival_s: list[float | None] = []
        self._created: list[datetime | None] = []
        self._duration_s: list[float] = []
        self._priority: list[int] = []
        self._gang_of: list[int] = []
        self._gangs: dict[str, int] = {}
        self._gang_limits: list[tuple[int | None, float | None]] = []

    def add(self, value: Mapping[str, Any]) -> None:
        metadata, short = _metadata(value)
        spec = mapping(value.get("spec"), "spec")
        namespace = _string(metadata.get("namespace"), "metadata.namespace") or "default"
        name = _qualified(namespace, short)
        if name in self.row_of:
            raise RequestError(f'the pod "{namespace}/{short}" stands here a second time; pod names are unique')
        labels = _strings(metadata.get("labels"), "metadata.labels")
        annotations = _strings(metadata.get("annotations"), "metadata.annotations")
        ignored: set[str] = set()
        asked = _asked(spec, metadata, labels, annotations, namespace, ignored)
        self._check_models(asked.gpu_models if asked.gpu_count else ())
        priority = self.classes.priority(spec)
        arrival_s, created, duration_s = _times(metadata, annotations)
        gang, limits = self._gang(spec, labels, annotations, namespace)
        ignored |= _ignored_fields(spec)

        self.row_of[name] = len(self.row_of)
        self.ignored.update(ignored)
        self._spec_of.append(self._specs.setdefault(asked, len(self._specs)))
        self._arrival_s.append(arrival_s)
        self._created.append(created)
        self._duration_s.append(duration_s)
        self._priority.append(priority)
        if gang and gang not in self._gangs:
            self._gangs[gang] = len(self._gangs)
            self._gang_limits.append(limits)
        self._gang_of.append(self._gangs[gang] if gang else -1)

    def workload(self) -> Workload:
        # Times of day count from the earliest pod; our own annotation already counts from the start of the trace.
        stamped = [time for time, at in zip(self._created, self._arrival_s, strict=True) if time and at is None]
        start = min(stamped, default=None)
        arrival_s = [
            at if at is not None else (time - start).total_seconds() if time and start else 0.0
            for time, at in zip(self._created, self._arrival_s, strict=True)
        ]
        members = Counter(self._gang_of)
        gangs = []
        for name, index in self._gangs.items():
            least, timeout_s = self._gang_limits[index]
            most = members[index]
            if least is not None and least > most:
                log.warning("gang_never_complete", gang=name, members=most, min_members=least)
            gang = Gang(name, most if least is None else least)
            gangs.append(gang if timeout_s is None else Gang(name, gang.min_members, timeout_s))
        return Workload(
            names=list(self.row_of),
            specs=list(self._specs),
            spec_of=np.array(self._spec_of, dtype=np.int64),
            arrival_s=np.array(arrival_s, dtype=np.float64),
            duration_s=np.array(self._duration_s, dtype=np.float64),
            priority=np.array(self._priority, dtype=np.int64),
            gang_of=np.array(self._gang_of, dtype=np.int64),
            gangs=gangs,
        )

    def _check_models(self, asked: tuple[str, ...]) -> None:
        if self.models is None or not asked or self.models.intersection(asked):
            return
        near = did_you_mean(asked[0], self.models)
        raise RequestError(
            f'metadata.annotations.{GPU_MODEL} is "{"|".join(asked)}"{near}; the nodes have '
            f"{', '.join(sorted(self.models)) or 'no GPUs'}"
        )

    def _gang(
        self, spec: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str], namespace: str
    ) -> tuple[str, tuple[int | None, float | None]]:
        group = mapping(spec.get("schedulingGroup"), "spec.schedulingGroup")
        short = (
            _string(group.get("podGroupName"), "spec.schedulingGroup.podGroupName")
            or labels.get(POD_GROUP)
            or labels.get(GANG)
        )
        if not short:
            return "", (None, None)
        gang = _qualified(namespace, short)
        if gang in self.groups:
            return gang, self.groups[gang]
        least = timeout_s = None
        if GANG_MIN in annotations:
            least = _whole(annotations[GANG_MIN], f"metadata.annotations.{GANG_MIN}", least=1)
        if GANG_TIMEOUT_S in annotations:
            timeout_s = _seconds(annotations[GANG_TIMEOUT_S], f"metadata.annotations.{GANG_TIMEOUT_S}")
        limits = (least, timeout_s)
        before = self._gang_limits[self._gangs[gang]] if gang in self._gangs else limits
        if before != limits:
            raise RequestError(
                f'metadata.annotations.{GANG_MIN} and {GANG_TIMEOUT_S} of gang "{gang}" are {limits} here and {before} '
                "on an earlier member; give all members the same"
            )
        return gang, limits


def _asked(
    spec: Mapping[str, Any],
    metadata: Mapping[str, Any],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    namespace: str,
    ignored: set[str],
) -> PodSpec:
    asked = effective_requests(spec)
    count, milli = _pod_gpus(asked, annotations)
    models = annotations.get(GPU_MODEL, "")
    return PodSpec(
        cpu_milli=_column(asked.get("cpu", 0), NANO_PER_MILLI, "the CPU request"),
        memory_bytes=_column(asked.get("memory", 0), NANO_PER_UNIT, "the memory request"),
        gpu_count=count,
        gpu_milli=milli,
        gpu_models=tuple(model for model in models.split("|") if model),
        extended=_extended(asked, "the request for"),
        node_selector=tuple(_strings(spec.get("nodeSelector"), "spec.nodeSelector").items()),
        tolerations=_tolerations(spec, ignored),
        # A gang is a column of its own; left among the labels it would give every gang its own spec.
        labels=tuple((key, text) for key, text in labels.items() if key not in {POD_GROUP, GANG}),
        namespace=namespace,
        owner=_owner(metadata, annotations),
    )


def _pod_gpus(asked: Amounts, annotations: Mapping[str, str]) -> tuple[int, int]:
    count = milli = None
    if GPU_COUNT in annotations:
        count = _whole(annotations[GPU_COUNT], f"metadata.annotations.{GPU_COUNT}")
    elif GPU_COUNT in asked:
        count = _count(asked[GPU_COUNT], f"the request for {GPU_COUNT}")
    if GPU_MILLI in annotations:
        milli = _whole(annotations[GPU_MILLI], f"metadata.annotations.{GPU_MILLI}")
    elif GPU_MILLI in asked:
        milli = _count(asked[GPU_MILLI], f"the request for {GPU_MILLI}")
    if count is None and milli is None:
        count = _count(asked.get(NVIDIA_GPU, 0), f"the request for {NVIDIA_GPU}")
    if count is None:
        count = 1 if milli else 0
    if milli is None:
        milli = WHOLE_GPU_MILLI if count else 0
    if milli > WHOLE_GPU_MILLI:
        raise RequestError(f'{GPU_MILLI} is "{milli}"; one device has 1000 milli, ask for more with {GPU_COUNT}')
    if (count == 0) != (milli == 0) or (count > 1 and milli < WHOLE_GPU_MILLI):
        raise RequestError(
            f'{GPU_COUNT} is "{count}" and {GPU_MILLI} is "{milli}"; write 1 to 1000 milli of one GPU, '
            "1000 of several, or neither"
        )
    return count, milli


def _tolerations(spec: Mapping[str, Any], ignored: set[str]) -> tuple[Toleration, ...]:
    taken = []
    for index, value in enumerate(sequence(spec.get("tolerations"), "spec.tolerations")):
        place = f"spec.tolerations[{index}]"
        parts = {
            name: _string(text, f"{place}.{name}") for name, text in mapping(value, place).items() if name in _PARTS
        }
        operator = parts.get("operator") or "Equal"
        if operator in {"Gt", "Lt"}:
            ignored.add(f"spec.tolerations with operator {operator}")
            continue
        if operator not in {"Equal", "Exists"}:
            raise RequestError(f'{place}.operator is "{operator}"; write Equal or Exists')
        taken.append(Toleration(parts.get("key", ""), operator, parts.get("value", ""), parts.get("effect", "")))
    return tuple(taken)


_PARTS = ("key", "operator", "value", "effect")


def _owner(metadata: Mapping[str, Any], annotations: Mapping[str, str]) -> str:
    if OWNER in annotations:
        return annotations[OWNER]
    for index, value in enumerate(sequence(metadata.get("ownerReferences"), "metadata.ownerReferences")):
        place = f"metadata.ownerReferences[{index}]"
        reference = mapping(value, place)
        if reference.get("controller") is True:
            return f"{_string(reference.get('kind'), place)}/{_string(reference.get('name'), place)}"
    return ""


def _times(metadata: Mapping[str, Any], annotations: Mapping[str, str]) -> tuple[float | None, datetime | None, float]:
    created = _time(annotations.get(CREATED), f"metadata.annotations.{CREATED}")
    deleted = _time(annotations.get(DELETED), f"metadata.annotations.{DELETED}")
    created = created or _time(metadata.get("creationTimestamp"), "metadata.creationTimestamp")
    arrival_s = None
    if ARRIVAL_S in annotations:
        arrival_s = _seconds(annotations[ARRIVAL_S], f"metadata.annotations.{ARRIVAL_S}")
        if arrival_s == math.inf:
            raise RequestError(f'metadata.annotations.{ARRIVAL_S} is "inf"; write seconds from the start of the trace')
    if DURATION_S in annotations:
        return arrival_s, created, _seconds(annotations[DURATION_S], f"metadata.annotations.{DURATION_S}")
    if deleted is None:
        return arrival_s, created, math.inf
    if created is None or deleted < created:
        began = "there is no creation time" if created is None else f"the pod was created {created.isoformat()}"
        raise RequestError(
            f'metadata.annotations.{DELETED} is "{annotations[DELETED]}" but {began}; '
            f"write a deletion time at or after the creation time, or {DURATION_S}"
        )
    return arrival_s, created, (deleted - created).total_seconds()


def _ignored_fields(spec: Mapping[str, Any]) -> set[str]:
    names = {f"spec.affinity.{kind}" for kind, terms in mapping(spec.get("affinity"), "spec.affinity").items() if terms}
    names |= {
        f"spec.{name}"
        for name in ("topologySpreadConstraints", "nodeName", "schedulingGates", "resourceClaims")
        if spec.get(name)
    }
    volumes = sequence(spec.get("volumes"), "spec.volumes")
    if any(_PLACED_VOLUMES.intersection(mapping_or_empty(volume)) for volume in volumes):
        names.add("spec.volumes")
    for place in ("containers", "initContainers"):
        for container in sequence(spec.get(place), f"spec.{place}"):
            ports = sequence(mapping_or_empty(container).get("ports"), f"spec.{place}.ports")
            if any(mapping_or_empty(port).get("hostPort") for port in ports):
                names.add("hostPort")
    return names


# ------------------------------------------------------------------------------------------------------------ writing


def write_nodes(path: str | Path, nodes: Iterable[NodeSpec]) -> None:
    """Write nodes so that `read_nodes` gives equal specs; the ending picks YAML, JSON or JSON lines."""
    _write(Path(path), map(_node_object, nodes))


def write_pods(path: str | Path, workload: Workload, *, progress: Callable[[], None] | None = None) -> None:
    """Write pods so that `read_pods` gives an equal workload; `progress` is called after every pod."""

    def written() -> Iterator[dict[str, Any]]:
        for index in range(len(workload)):
            yield _pod_object(workload, index)
            if progress is not None:
                progress()

    _write(Path(path), written())


def _write(path: Path, documents: Iterable[dict[str, Any]]) -> None:
    ending = path.suffix.lower()
    if ending not in JSON_ENDINGS | YAML_ENDINGS:
        known = ", ".join(sorted(JSON_ENDINGS | YAML_ENDINGS))
        raise InputError(f"cannot tell the format from its ending; use one of {known}", path=path)
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="\n") as out:
        if ending in YAML_ENDINGS:
            yaml.dump_all(
                documents, out, Dumper=yaml.CSafeDumper, sort_keys=False, explicit_start=True, allow_unicode=True
            )
            return
        whole = ending == ".json"
        if whole:
            out.write('{"apiVersion": "v1", "kind": "List", "items": [')
        for index, document in enumerate(documents):
            out.write((",\n" if index else "\n") if whole else "")
            out.write(json.dumps(document) + ("" if whole else "\n"))
        if whole:
            out.write("\n]}\n")


def _node_object(node: NodeSpec) -> dict[str, Any]:
    labels = dict(node.labels)
    annotations = {}
    if node.gpu_model != _labelled_model(labels):
        # Others look for the model in this label; a node that had none loses it again when it is read back.
        if GPU_MODEL in labels or not node.gpu_model:
            annotations[OUR_MODEL] = node.gpu_model
        else:
            labels[GPU_MODEL] = node.gpu_model
            annotations[ADDED_MODEL_LABEL] = GPU_MODEL
    offered: dict[str, str] = {"cpu": f"{node.cpu_milli}m", "memory": str(node.memory_bytes)}
    if node.max_pods:
        offered["pods"] = str(node.max_pods)
    if node.gpu_count:
        offered[GPU_COUNT] = str(node.gpu_count)
        offered[GPU_MILLI] = str(node.gpu_count * WHOLE_GPU_MILLI)
    offered |= {name: str(amount) for name, amount in node.extended}
    spec: dict[str, Any] = {}
    if node.taints:
        spec["taints"] = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints]
    if node.unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _present(name=node.name, labels=labels, annotations=annotations),
        **_present(spec=spec),
        "status": {"allocatable": offered, "capacity": dict(offered)},
    }


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _pod_object(workload: Workload, index: int) -> dict[str, Any]:
    pod = workload.spec(index)
    prefix = "" if pod.namespace == "default" else f"{pod.namespace}/"
    labels = dict(pod.labels)
    annotations = _pod_annotations(workload, index)
    if workload.gang_of[index] >= 0:
        gang = workload.gangs[workload.gang_of[index]]
        labels[GANG] = gang.name.removeprefix(prefix)
        if not gang.name.startswith(prefix) or "/" in labels[GANG]:
            raise InputError(
                f'gang "{gang.name}" has a pod of namespace "{pod.namespace}"; a gang lives in one namespace and is '
                f'named after it: "{prefix}{gang.name.rpartition("/")[2]}"'
            )
        annotations[GANG_MIN] = str(gang.min_members)
        annotations[GANG_TIMEOUT_S] = repr(gang.timeout_s)
    kind, _, owner = pod.owner.partition("/")
    if pod.owner and not owner:
        annotations[OWNER] = pod.owner
    asked = {"cpu": f"{pod.cpu_milli}m", "memory": str(pod.memory_bytes)}
    asked |= {name: str(amount) for name, amount in pod.extended}
    container = {"name": "main", "image": "pause", "resources": {"requests": asked, "limits": dict(asked)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _present(
            name=workload.names[index].removeprefix(prefix),
            namespace=pod.namespace,
            labels=labels,
            annotations=annotations,
            ownerReferences=[{"kind": kind, "name": owner, "controller": True}] if owner else [],
        ),
        "spec": _present(
            priority=int(workload.priority[index]),
            nodeSelector=dict(pod.node_selector),
            tolerations=[_toleration_object(toleration) for toleration in pod.tolerations],
            containers=[container],
        ),
    }


def _toleration_object(toleration: Toleration) -> dict[str, str]:
    given = {name: getattr(toleration, name) for name in _PARTS}
    return {name: text for name, text in given.items() if text}


def _pod_annotations(workload: Workload, index: int) -> dict[str, str]:
    pod = workload.spec(index)
    annotations = {}
    if pod.gpu_count:
        annotations = {GPU_COUNT: str(pod.gpu_count), GPU_MILLI: str(pod.gpu_milli)}
    if pod.gpu_models:
        annotations[GPU_MODEL] = "|".join(pod.gpu_models)
    arrival_s, duration_s = float(workload.arrival_s[index]), float(workload.duration_s[index])
    # Times of day serve other programs; ours are exact to the last bit and say where the trace starts.
    if arrival_s < _LAST_STAMP_S:
        annotations[CREATED] = _stamp(arrival_s)
    if arrival_s + duration_s < _LAST_STAMP_S:
        annotations[DELETED] = _stamp(arrival_s + duration_s)
    annotations[ARRIVAL_S] = repr(arrival_s)
    annotations[DURATION_S] = repr(duration_s)
    return annotations


def _stamp(seconds: float) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
