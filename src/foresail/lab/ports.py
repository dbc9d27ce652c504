"""Ports and subnets that nobody uses yet."""

from __future__ import annotations

import ipaddress
import random
import socket
from collections.abc import Iterable

from foresail.lab.errors import LabError

FIRST_PORT, LAST_PORT = 20_000, 32_000
"""Below the range from which Linux gives ports to outgoing connections, which would take one between choice and use."""
_LAB_NETWORKS = [ipaddress.IPv4Network(f"10.{second}.0.0/16") for second in range(200, 250)]


def free_ports(count: int, candidates: Iterable[int] | None = None) -> list[int]:
    """Ports of 127.0.0.1 that can be listened on now, all different."""
    if candidates is None:
        # Two labs that start at the same time rarely try the same ones.
        candidates = random.SystemRandom().sample(range(FIRST_PORT, LAST_PORT), LAST_PORT - FIRST_PORT)
    found: list[int] = []
    for port in candidates:
        if len(found) == count:
            break
        if port not in found and _is_free(port):
            found.append(port)
    if len(found) < count:
        raise LabError(f"only {len(found)} free ports of the {count} needed on 127.0.0.1; stop some servers")
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_network(taken: Iterable[str]) -> ipaddress.IPv4Network:
    """A /16 for the pods of a lab that overlaps none of the networks taken ("10.0.0.0/8", "default")."""
    others = [ipaddress.ip_network(text, strict=False) for text in taken if text != "default"]
    for network in _LAB_NETWORKS:
        if not any(network.overlaps(other) for other in others if other.version == 4):
            return network
    raise LabError(f"every network from {_LAB_NETWORKS[0]} to {_LAB_NETWORKS[-1]} is in use; remove a route or a lab")
