"""Files of Kubernetes objects, as `trace generate` writes them."""

from pathlib import Path

from foresail.kube.objects.write import node_objects, pod_objects, write_objects


def write_nodes(path, nodes):
    write_objects(Path(path), node_objects(nodes))


def write_pods(path, workload):
    write_objects(Path(path), pod_objects(workload))
