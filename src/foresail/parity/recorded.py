"""Decisions that a kube-scheduler made, one JSON object a line, and the clusters they were made on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foresail.core.kubernetes import KubernetesPod
from foresail.core.model import Placement, Pod
from foresail.core.policy import DeviceRule
from foresail.core.spec import PodSpec
from foresail.core.table import NodeTable
from foresail.errors import InputError
from foresail.kube.objects.cluster_objects import put_object
from foresail.kube.objects.documents import read_text
from foresail.kube.objects.node import node_spec
from foresail.kube.objects.pod import pod_spec_of
from foresail.kube.objects.quantity import RequestError

_AVAILABLE = re.compile(r"0/(?P<nodes>\d+) nodes are available: (?P<reasons>.*?)(?:\. .*|\.?)", re.DOTALL)
_COUNTED = re.compile(r"(?P<count>\d+) (?P<reason>.*)", re.DOTALL)

_CLUSTER_KINDS = {
    "services": "Service",
    "replicasets": "ReplicaSet",
    "replicationcontrollers": "ReplicationController",
    "statefulsets": "StatefulSet",
    "storageclasses": "StorageClass",
    "csinodes": "CSINode",
    "csidrivers": "CSIDriver",
    "csistoragecapacities": "CSIStorageCapacity",
    "volumeattachments": "VolumeAttachment",
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """What kube-scheduler answered about one pod."""

    path: Path
    line: int
    seed: int
    case: int
    pod: str
    feasible: frozenset[str]
    failed: dict[str, int] | None
    """Reason to the nodes it was told of; None where the file keeps it only for pods that got no node."""
    scores: dict[str, dict[str, int]]
    """Node to plug-in to its weighted score; empty with fewer than two feasible nodes."""
    final: dict[str, int]
    """Node to its total; empty with fewer than two feasible nodes."""

    @property
    def name(self) -> str:
        return f"{self.path.name}:{self.line} (seed {self.seed}, case {self.case}, pod {self.pod})"


Case = tuple[Recorded, Pod, NodeTable]
"""What was answered, the pod it was about, and the cluster as it was then."""


def replay(path: Path, devices: DeviceRule, progress: Callable[[], None] | None = None) -> Iterator[Case]:
    """All decisions of a file in order. A table is only as stated until the next case is asked for."""
    cluster: _ReplayedCluster | None = None
    for number, text in enumerate(read_text(path).splitlines(), start=1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            if not isinstance(line, dict):
                raise RequestError("the line is no JSON object; write one decision a line")  # noqa: TRY301 - one place tells of all bad lines
            if line.get("nodes") is not None:
                cluster = _ReplayedCluster(line, devices)
            if cluster is None or cluster.seed != line.get("seed"):
                raise RequestError(f"seed {line.get('seed')} begins without nodes; its case 0 must list them")  # noqa: TRY301 - see above
            pod = cluster.advance(line)
            recorded = _recorded(path, number, line)
        except json.JSONDecodeError as error:
            raise InputError(f"is no JSON: {error.msg} (column {error.colno})", path=path, line=number) from error
        except RecursionError as error:
            raise InputError("nests too deeply to be read", path=path, line=number) from error
        except RequestError as error:
            raise InputError(str(error), path=path, line=number) from error
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(
                f"is no recorded decision ({type(error).__name__}: {error}); a line has seed, case, nodes or null, "
                "existing, pod, weighted_scores, final, node and unschedulable",
                path=path,
                line=number,
            ) from error
        yield recorded, pod, cluster.table
        if progress is not None:
            progress()


class _ReplayedCluster:
    """The cluster of one seed, brought from line to line."""

    def __init__(self, line: Mapping[str, Any], devices: DeviceRule) -> None:
        self.seed = line["seed"]
        self.table = NodeTable([node_spec(node) for node in line["nodes"]])
        self._devices = devices
        self._specs: dict[str, PodSpec] = {}
        self._on: dict[str, tuple[str, bool]] = {}
        stated = line.get("cluster") or {}
        for namespace in stated.get("namespaces") or []:
            put_object(self.table.objects, "Namespace", {"metadata": namespace})
        for field, kind in _CLUSTER_KINDS.items():
            for value in stated.get(field) or []:
                put_object(self.table.objects, kind, value)

    def advance(self, line: Mapping[str, Any]) -> Pod:
        """Make the cluster what it was when this line was written, and return the pod that was decided about."""
        changed = [put_object(self.table.objects, value["kind"], value) for value in line.get("objects") or []]
        if any(changed):
            self.table.objects_changed()
        wanted = {
            standing["pod"]: (standing["node"], bool(standing.get("terminating"))) for standing in line["existing"]
        }
        for name in [name for name, on in self._on.items() if wanted.get(name) != on]:
            self.table.forget(name)
            del self._on[name]
        for name, on in wanted.items():
            if name not in self._on:
                self._place(name, *on)
                self._on[name] = on
        name = line["pod"]["metadata"]["name"]
        self._specs[name] = pod_spec_of(line["pod"])
        return self.table.pod(name, self._specs[name])

    def _place(self, name: str, node: str, terminating: bool) -> None:  # noqa: FBT001 - as the file has it
        if name not in self._specs or node not in self.table.row_of:
            what = f'node "{node}"' if name in self._specs else f'pod "{name}"'
            raise RequestError(f"existing names {what}, which no earlier line of the seed has")
        spec = self._specs[name]
        if terminating:
            spec = replace(spec, kubernetes=replace(spec.kubernetes or KubernetesPod(), terminating=True))
        pod = self.table.pod(name, spec)
        row = self.table.row_of[node]
        devices = self._devices.devices(pod, self.table.all, row) if pod.gpu_count else ()
        self.table.assume(pod, Placement(row, node, devices))


def _recorded(path: Path, number: int, line: Mapping[str, Any]) -> Recorded:
    final = _whole_numbers(line["final"] or {}, "final")
    scores = {
        name: _whole_numbers(plugins, f"weighted_scores.{name}")
        for name, plugins in dict(line["weighted_scores"] or {}).items()
    }
    if scores.keys() != final.keys():
        raise RequestError(f"weighted_scores are of {sorted(scores)}, final totals of {sorted(final)}")
    node, message = line["node"], line["unschedulable"]
    if line.get("feasible") is not None:
        feasible = frozenset(line["feasible"])
    else:
        feasible = frozenset(final or ([node] if node else []))
    failed = None if line.get("failed") is None else _whole_numbers(line["failed"], "failed")
    if failed is None and message:
        failed = counted_reasons(message)
    elif message and counted_reasons(message) != failed:
        raise RequestError(f"failed is {failed}, but the message counts {counted_reasons(message)}")
    return Recorded(
        path=path,
        line=number,
        seed=line["seed"],
        case=line["case"],
        pod=line["pod"]["metadata"]["name"],
        feasible=feasible,
        failed=failed,
        scores=scores,
        final=final,
    )


def _whole_numbers(value: object, field: str) -> dict[str, int]:
    if not isinstance(value, dict) or not all(isinstance(number, int) for number in value.values()):
        raise RequestError(f"{field} is {json.dumps(value)}; write whole numbers by name")
    return dict(value)


def counted_reasons(message: str) -> dict[str, int]:
    """The reasons of "0/15 nodes are available: 3 Insufficient cpu, …"; one without a count stands for all nodes."""
    matched = _AVAILABLE.fullmatch(message)
    if matched is None:
        raise RequestError(f'unschedulable is "{message}"; it begins with "0/N nodes are available:"')
    reasons: dict[str, int] = {}
    for part in matched["reasons"].split(", "):
        counted = _COUNTED.fullmatch(part)
        reason, count = (counted["reason"], int(counted["count"])) if counted else (part, int(matched["nodes"]))
        reasons[reason] = reasons.get(reason, 0) + count
    return reasons
