"""Images that nodes pull: a node has an image once a pod with it has started there."""

from __future__ import annotations

from dataclasses import replace

from foresail.core.kubernetes import KubernetesNode
from foresail.core.spec import PodSpec
from foresail.core.table import NodeTable


class PulledImages:
    """Gives nodes the images of the pods that start on them, all of one size."""

    def __init__(self, table: NodeTable, size_bytes: int) -> None:
        self._table = table
        self._size_bytes = size_bytes

    def pull(self, spec: PodSpec, row: int) -> None:
        """A pod of this kind starts on the node; its images stay there, as Kubernetes' own scheduler would see them."""
        node = self._table.specs[row]
        has = node.kubernetes or KubernetesNode()
        there = {name for name, _ in has.images}
        new = [name for name in (spec.kubernetes.images if spec.kubernetes else ()) if name not in there]
        if new:
            images = (*has.images, *((name, self._size_bytes) for name in dict.fromkeys(new)))
            self._table.put_nodes([replace(node, kubernetes=replace(has, images=images))])
