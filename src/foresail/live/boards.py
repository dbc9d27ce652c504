"""Our own connection to a cluster, for boards: those speak to the API server by the standard library alone."""

from __future__ import annotations

import asyncio

from foresail.kube.api.connect import Connection
from foresail.kube.api.credentials import Fixed
from foresail.kube.api.errors import ClusterError
from foresail.workloads.supersteps.api_server import ApiAccess
from foresail.workloads.supersteps.board import StoreTroubleError


def api_access(connection: Connection) -> ApiAccess:
    """The same server and the same identity; boards wait, so they are for threads without an event loop."""
    credential = connection.credential

    def authorization() -> str | None:
        if isinstance(credential, Fixed):
            return credential.header
        try:
            return asyncio.run(credential.authorization())
        except ClusterError as error:
            raise StoreTroubleError(str(error)) from error

    return ApiAccess(connection.url, connection.context, authorization, connection.headers, connection.server_name)
