"""A node table in words, to compare two that came about differently."""

import numpy as np

from foresail.core.table import NodeTable

ZONE = "topology.kubernetes.io/zone"


def by_name(table: NodeTable) -> dict[str, object]:
    """All that a table knows of each node, with codes and rows turned into names."""
    at = table.row_of
    shown: dict[str, object] = {
        name: (
            table.specs[row],
            dict(zip(table.resources, zip(table.allocatable[row], table.free[row], strict=True), strict=True)),
            int(table.gpu_count[row]),
            np.trim_zeros(table.gpu_free[row], "b").tolist(),
            np.trim_zeros(table.gpu_pods[row], "b").tolist(),
            table.models[table.gpu_model[row]],
            table.taint_sets[table.taint_set[row]],
            [int(column[row]) for column in (table.pod_count, table.max_pods, table.unschedulable, table.down)],
            [["", *table.label_values(key)][table.label(key)[row] + 1] for key in (ZONE, "disk")],
            [int(table.peers(group)[row]) for group in ("gang/g", "owner/default/ReplicaSet/web")],
            table.tenants.held[row].tolist(),
        )
        for name, row in at.items()
    }
    tenants = table.tenants
    for kind in (tenants.labels, tenants.ports, tenants.volumes, tenants.terms):
        for key, rows in kind.items():
            shown[repr(key)] = {table.names[row]: count for row, count in rows.items()}
    shown["values"] = [sorted(table.label_values(key)) for key in (ZONE, "disk")]
    shown["taints"] = set(table.taint_sets)
    shown["rank"] = [table.names[row] for row in table.by_rank]
    shown["placed"] = {
        uid: (held.pod.spec, held.pod.group, table.names[held.row], held.devices) for uid, held in table.placed.items()
    }
    return shown
