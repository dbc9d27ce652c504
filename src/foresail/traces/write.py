"""A cluster and a trace as two files, in the formats that their endings name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from foresail.atomic import replacing
from foresail.core.spec import NodeSpec, Workload
from foresail.errors import InputError
from foresail.formats import OBJECT_ENDINGS, TABLE_ENDINGS, refuse_other_endings
from foresail.traces.training.models import shipped_models


def write(
    nodes_path: str | Path,
    pods_path: str | Path,
    nodes: Sequence[NodeSpec],
    workload: Workload,
    *,
    progress: Callable[[], None] | None = None,
) -> None:
    """Write both files, or neither. The endings pick the format: .csv, .parquet, .yaml, .json or .jsonl.

    `progress` is called after every pod that becomes a Kubernetes object; tables are written at once.
    """
    nodes_path, pods_path = Path(nodes_path), Path(pods_path)
    _refuse_unknown_trainings(workload)
    for path in (nodes_path, pods_path):
        refuse_other_endings(path, OBJECT_ENDINGS | TABLE_ENDINGS)
    with replacing(nodes_path) as nodes_part:
        _write_nodes(nodes_part, nodes)
        # Inside, so that nodes take their place only after the pods have; an error names the file it is about.
        with replacing(pods_path) as pods_part:
            _write_pods(pods_part, workload, progress)


def _refuse_unknown_trainings(workload: Workload) -> None:
    """Files name the model alone, so only a model that comes with Foresail would be read back as it was."""
    for training in workload.trainings:
        model = shipped_models().find(training.name)
        if model is None or model.training != training:
            raise InputError(
                f'a pod trains "{training.name}", which is none of the models that come with Foresail; files cannot '
                "hold it"
            )


def _write_nodes(path: Path, nodes: Sequence[NodeSpec]) -> None:
    if path.suffix.lower() in OBJECT_ENDINGS:
        from foresail.kube.objects.write import node_objects, write_objects  # noqa: PLC0415 - tables need no YAML

        write_objects(path, node_objects(nodes))
    else:
        from foresail.traces.openb.write import node_table, write_table  # noqa: PLC0415 - objects need no polars

        write_table(path, node_table(nodes))


def _write_pods(path: Path, workload: Workload, progress: Callable[[], None] | None) -> None:
    if path.suffix.lower() in OBJECT_ENDINGS:
        from foresail.kube.objects.write import pod_objects, write_objects  # noqa: PLC0415 - see above

        write_objects(path, pod_objects(workload, progress))
    else:
        from foresail.traces.openb.write import pod_table, write_table  # noqa: PLC0415 - see above

        write_table(path, pod_table(workload))
