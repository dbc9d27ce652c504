"""Boards by their addresses: lease://NAMESPACE/NAME and zookeeper://HOST:PORT/PATH."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from foresail.workloads.supersteps.api_server import ApiAccess, in_cluster
from foresail.workloads.supersteps.board import BoardError, BoardStore
from foresail.workloads.supersteps.leases import LeaseStore

FORMS = "lease://NAMESPACE/NAME or zookeeper://HOST:PORT[,HOST:PORT…]/PATH"
LOGIN = "FORESAIL_ZOOKEEPER_LOGIN"
"""Environment variable with USER:PASSWORD for ZooKeeper: an address is shown, this is not."""
_HOSTS = re.compile(r"[^\s,:/@]+(:\d{1,5})?(,[^\s,:/@]+(:\d{1,5})?)*")
_PATH = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")


def connect(address: str, access: Callable[[], ApiAccess] = in_cluster) -> BoardStore:
    """Where the records of a board are kept; `access` says which API server Leases are on, by default the pod's."""
    at = urlsplit(address)
    if at.scheme == "lease" and at.netloc and at.path.strip("/"):
        return LeaseStore(access(), at.netloc, at.path.strip("/"))
    if at.scheme == "zookeeper" and _HOSTS.fullmatch(at.netloc) and _PATH.fullmatch(at.path.rstrip("/")):
        try:
            # Tasks that meet on the API server need the standard library alone.
            from foresail.workloads.supersteps.zookeeper import ZooKeeperStore  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise BoardError(
                f'{address} needs the Python package {error.name}; run: pip install "foresail[bsp]", or in an image '
                "without pip: apt-get install python3-kazoo"
            ) from error
        return ZooKeeperStore(at.netloc, at.path, login=os.environ.get(LOGIN, ""))
    raise BoardError(f'the board is "{address}"; write {FORMS}')
