"""NodePorts: two pods cannot take one port of a node."""

from __future__ import annotations

from foresail.core.model import Mask, Nodes, Pod
from foresail.policies.kubernetes.selecting import special


class KubeNodePorts:
    """Keep to nodes where the host ports that the pod asks for are free; as kube-scheduler's NodePorts.

    A port is taken if protocol and number are the same and the addresses are, or one of them is 0.0.0.0.
    """

    row_wise = True
    only_worsens = True
    reason = "node(s) didn't have free ports for the requested pod ports"

    def passes(self, pod: Pod, nodes: Nodes) -> Mask:
        tenants = nodes.table.tenants
        wanted = special(pod).host_ports
        taken = tenants.anywhere(
            rows
            for ports, rows in tenants.ports.items()
            if any(port.conflicts(other) for port in wanted for other in ports)
        )
        return ~taken[nodes.index]

    def skips(self, pod: Pod, _nodes: Nodes) -> bool:
        return not special(pod).host_ports
