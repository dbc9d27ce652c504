"""Bridges of a lab's nodes: made by the lab, seen by nobody outside the machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from ipaddress import IPv4Interface, IPv4Network
from itertools import islice
from pathlib import Path
from typing import Any

from foresail.lab.errors import LabError


def bridge_name(lab_id: str, node: int) -> str:
    """At most 15 characters, all that Linux allows."""
    return f"fs{lab_id}n{node}"


def node_network(network: str, node: int) -> IPv4Network:
    """The /24 of a node's pods."""
    return next(islice(IPv4Network(network).subnets(new_prefix=24), node, None))


def gateway(network: str, node: int) -> IPv4Interface:
    """The bridge's own address, under which the node is known too."""
    own = node_network(network, node)
    return IPv4Interface(f"{own[1]}/{own.prefixlen}")


def routes() -> list[str]:
    """Where this machine already sends packets: the networks that a lab must not use."""
    return [route["dst"] for route in _ip("-json", "-4", "route", "show", "table", "all") if "dst" in route]


def make_bridge(name: str, address: IPv4Interface) -> None:
    """Make a bridge and give it its address; one that is there stays."""
    links = [link["ifname"] for link in _ip("-json", "link", "show", "type", "bridge")]
    if name not in links:
        _ip("link", "add", name, "type", "bridge")
    _ip("address", "replace", str(address), "dev", name)
    _ip("link", "set", name, "up")


def remove_bridge(name: str) -> None:
    """Remove a bridge and the ends of pods' cables that are still in it."""
    links = {link["ifname"]: link.get("master", "") for link in _ip("-json", "link", "show")}
    if name not in links:
        return
    for cable, master in links.items():
        if master == name:
            _ip("link", "delete", cable, fails=False)
    _ip("link", "delete", name)


def cni_config(bridge: str, network: str, node: int, nodes: int, data: Path) -> dict[str, Any]:
    """How containerd connects a pod: to the bridge, with routes to the lab's other nodes and nowhere else."""
    return {
        "cniVersion": "0.4.0",
        "name": bridge,
        "plugins": [
            {
                "type": "bridge",
                "bridge": bridge,
                "isGateway": True,
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(data),
                    "ranges": [[{"subnet": str(node_network(network, node))}]],
                    # No default route: a pod that tries to leave the lab hears "network is unreachable".
                    "routes": [{"dst": str(node_network(network, other))} for other in range(nodes) if other != node],
                },
            }
        ],
    }


def _ip(*arguments: str, fails: bool = True) -> list[dict[str, Any]]:
    command: Sequence[str] = ["ip", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - as written here
    if ran.returncode and fails:
        raise LabError(f"{' '.join(command)} failed: {ran.stderr.strip()}")
    found: list[dict[str, Any]] = json.loads(ran.stdout or "[]") if "-json" in arguments else []
    return found
