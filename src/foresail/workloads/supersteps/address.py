"""Boards by their addresses: lease://NAMESPACE/NAME and zookeeper://HOST:PORT/PATH."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from foresail.workloads.supersteps.api_server import ApiAccess, in_cluster
from foresail.workloads.supersteps.board import BoardError, BoardStore
from foresail.workloads.supersteps.leases import LeaseStore

FORMS = "lease://NAMESPACE/NAME"


def connect(address: str, access: Callable[[], ApiAccess] = in_cluster) -> BoardStore:
    """Where the records of a board are kept; `access` says which API server Leases are on, by default the pod's."""
    at = urlsplit(address)
    if at.scheme == "lease" and at.netloc and at.path.strip("/"):
        return LeaseStore(access(), at.netloc, at.path.strip("/"))
    raise BoardError(f'the board is "{address}"; write {FORMS}')
