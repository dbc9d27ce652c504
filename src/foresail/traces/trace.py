"""A trace: the nodes of a cluster and the pods that come to it, read from the files a user names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from foresail.core.objects import ClusterObjects
from foresail.core.spec import NodeSpec, Workload
from foresail.errors import InputError
from foresail.formats import OBJECT_ENDINGS, TABLE_ENDINGS, refuse_other_endings
from foresail.traces.check.checks import Finding, Findings, Ints, check_fit, check_nodes, check_workload
from foresail.traces.openb import read as openb

_OPENB_PREFIX = "openb_pod_list_"


@dataclass(slots=True)
class Trace:
    """Nodes and pods.

    `dropped_rows` counts bad rows that were left out because the user asked for it. `objects` are the cluster's
    services, claims and the like, if a file of Kubernetes objects has some.
    """

    name: str
    nodes: list[NodeSpec]
    workload: Workload
    dropped_rows: int = 0
    objects: ClusterObjects = field(default_factory=ClusterObjects)


class _TraceReader(Protocol):
    """What a module for one kind of file offers."""

    def read_nodes(self, path: str | Path, *, skip_bad_rows: bool = False) -> tuple[list[NodeSpec], int]: ...

    def read_pods(
        self, path: str | Path, *, models: frozenset[str] | None = None, skip_bad_rows: bool = False
    ) -> tuple[Workload, int]: ...


def load(nodes_path: str | Path, pods_path: str | Path, *, skip_bad_rows: bool = False) -> Trace:
    """Read a node list and a pod list; a bad row fails unless bad rows are to be dropped and counted."""
    nodes, dropped_nodes = load_nodes(nodes_path, skip_bad_rows=skip_bad_rows)
    workload, dropped_pods = load_workload(pods_path, models=models_of(nodes), skip_bad_rows=skip_bad_rows)
    return Trace(
        name=trace_name(pods_path),
        nodes=nodes,
        workload=workload,
        dropped_rows=dropped_nodes + dropped_pods,
        objects=load_objects(nodes_path, pods_path),
    )


def load_nodes(path: str | Path, *, skip_bad_rows: bool = False) -> tuple[list[NodeSpec], int]:
    """Read nodes from any known kind of file, and count the bad rows that were dropped."""
    return _reader(path).read_nodes(path, skip_bad_rows=skip_bad_rows)


def load_workload(
    path: str | Path, *, models: frozenset[str] | None = None, skip_bad_rows: bool = False
) -> tuple[Workload, int]:
    """Read pods from any known kind of file, and count the bad rows that were dropped.

    With `models` a GPU pod that names only other models is bad: it could never be placed.
    """
    return _reader(path).read_pods(path, models=models, skip_bad_rows=skip_bad_rows)


def load_objects(*paths: str | Path) -> ClusterObjects:
    """Read what files of Kubernetes objects hold beside nodes and pods; tables hold nothing of that."""
    found = ClusterObjects()
    for path in dict.fromkeys(Path(path) for path in paths if not _is_table(path)):
        from foresail.kube.objects.cluster_objects import read_objects  # noqa: PLC0415 - as in _reader

        read_objects(path, found)
    return found


def models_of(nodes: list[NodeSpec]) -> frozenset[str]:
    return frozenset(node.gpu_model for node in nodes if node.gpu_model)


def trace_name(pods_path: str | Path) -> str:
    """The pod list's name, short for the public traces: `openb_pod_list_default.csv` is `default`."""
    return Path(pods_path).stem.removeprefix(_OPENB_PREFIX)


def check(nodes_path: str | Path | None, pods_path: str | Path | None) -> list[Finding]:
    """List everything that is wrong or odd with a node list, a pod list, or both together."""
    found: list[Findings] = []
    nodes: list[NodeSpec] | None = None
    if nodes_path is not None:
        found.append(Findings(str(nodes_path)))
        nodes = _checked_nodes(nodes_path, found[-1])
    if pods_path is not None:
        found.append(Findings(str(pods_path)))
        _check_pods(pods_path, nodes, found[-1])
    return [finding for findings in found for finding in findings]


def _checked_nodes(path: str | Path, findings: Findings) -> list[NodeSpec] | None:
    lines: Ints | None = None
    try:
        if _is_table(path):
            nodes, lines = openb.nodes_with_lines(path, findings)
        else:
            nodes, _ = load_nodes(path)
    except InputError as error:
        _note_failure(error, findings)
        return None
    check_nodes(nodes, findings, lines)
    return nodes or None


def _check_pods(path: str | Path, nodes: list[NodeSpec] | None, findings: Findings) -> None:
    lines: Ints | None = None
    try:
        if _is_table(path):
            workload, lines = openb.pods_with_lines(path, findings, None if nodes is None else models_of(nodes))
        else:
            workload, _ = load_workload(path)
    except InputError as error:
        _note_failure(error, findings)
        return
    check_workload(workload, findings, lines)
    if nodes is not None:
        check_fit(nodes, workload, findings, lines)


def _note_failure(error: InputError, findings: Findings) -> None:
    """Keep a failure as a finding, unless the reader has noted it already before it raised."""
    if not any(finding.severity == "error" for finding in findings):
        place = error.path if error.line is None else f"{error.path}:{error.line}"
        findings.add("FS100", str(error).removeprefix(f"{place}: "), error.line)


def _is_table(path: str | Path) -> bool:
    return Path(path).suffix.lower() in TABLE_ENDINGS


def _reader(path: str | Path) -> _TraceReader:
    refuse_other_endings(Path(path), TABLE_ENDINGS | OBJECT_ENDINGS)
    if _is_table(path):
        return openb
    # Only now: reading a CSV should not wait for the YAML library.
    from foresail.traces import kubernetes  # noqa: PLC0415 - see above

    return kubernetes
