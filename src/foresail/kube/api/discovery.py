"""Which APIs a server really offers."""

from __future__ import annotations

from collections.abc import Mapping

from foresail.kube.api.client import Client
from foresail.kube.api.errors import NotFound


async def is_served(api: Client, path: str) -> bool:
    """Whether there is such a collection, as `Kind.path` names it. Every account may ask this.

    What is not served is forbidden to an account without rights on it, not missing: the right is looked at first.
    """
    version, _, plural = path.rpartition("/")
    try:
        found = await api.get(version)
    except NotFound:
        return False
    resources = found.get("resources") or ()
    return any(isinstance(one, Mapping) and one.get("name") == plural for one in resources)
