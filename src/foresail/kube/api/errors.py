"""What goes wrong between us and a cluster, with the remedy.

ClusterError             a cluster that cannot be reached, or that refuses
├── Unreachable          no answer: refused connection, name, certificate, timeout
└── ApiError             an answer other than 2xx
    ├── Unauthorized     401: credentials missing, wrong or expired
    ├── Forbidden        403: names the RBAC rule that is missing
    ├── NotFound         404
    ├── Conflict         409: somebody else was quicker
    ├── Gone             410: the version asked for is no longer kept
    └── TooManyRequests  429: says when to come back
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from foresail.errors import ForesailError

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class ClusterError(ForesailError):
    """A cluster that cannot be reached, or that refuses."""


class Unreachable(ClusterError):
    """No answer. Whether a request that was under way had its effect is not known."""


class ApiError(ClusterError):
    """An answer other than 2xx."""

    remedy = ""

    def __init__(
        self,
        status: int,
        method: str,
        path: str,
        *,
        reason: str = "",
        message: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        """The one-word reason of the API server's Status, such as AlreadyExists."""
        self.message = message
        self.method = method
        self.path = path
        """Path and query as they were asked for."""
        self.retry_after_s = retry_after_s
        said = f"{method} {path}: {status} {reason}".rstrip() + (f": {message}" if message else "")
        super().__init__(said + self._advice())

    def _advice(self) -> str:
        return f"; {self.remedy}" if self.remedy else ""


class Unauthorized(ApiError):
    """Credentials missing, wrong or expired."""

    remedy = "log in to the cluster again, or give a kubeconfig whose token or certificate is still valid"


class Forbidden(ApiError):
    """A verb that our account may not use."""

    @property
    def missing(self) -> str:
        """What is to be added where, to tell where one goes on without it."""
        access = Access.of(self.method, self.path)
        return f"{access.place} lacks the rule: {access.rule}"

    def _advice(self) -> str:
        return f"; {self.missing}"


class NotFound(ApiError):
    """No such object, or an API that this cluster does not serve."""


class Conflict(ApiError):
    """Somebody else was quicker."""


class Gone(ApiError):
    """The version asked for is no longer kept: list again."""


class TooManyRequests(ApiError):
    """The API server is busy, or a disruption budget allows no eviction now."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}


def api_error(
    status: int, method: str, path: str, said: Mapping[str, Any], retry_after_s: float | None = None
) -> ApiError:
    """The error for an answer's status and its Status body."""
    kind = _BY_STATUS.get(status, ApiError)
    reason, message = str(said.get("reason") or ""), str(said.get("message") or "")
    if retry_after_s is None:
        details = said.get("details")
        seconds = details.get("retryAfterSeconds") if isinstance(details, Mapping) else None
        retry_after_s = float(seconds) if isinstance(seconds, int) else None
    return kind(status, method, path, reason=reason, message=message, retry_after_s=retry_after_s)


class Access(NamedTuple):
    """What a request asks of RBAC."""

    verb: str
    group: str
    resource: str
    """With its subresource, such as pods/binding; a path if it is no resource."""
    namespace: str
    """Empty for what stands in no namespace, and for all namespaces at once."""

    @classmethod
    def of(cls, method: str, path: str) -> Access:
        """Worked out as the API server does from method, path and query."""
        bare, _, query = path.partition("?")
        parts = bare.strip("/").split("/")
        prefix = {"api": 2, "apis": 3}.get(parts[0], 0)
        rest = parts[prefix:]
        if not prefix or not rest:
            return cls(method.lower(), "", "/" + bare.strip("/"), "")
        group = parts[1] if parts[0] == "apis" else ""
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
            namespace, rest = rest[1], rest[2:]
        named = len(rest) > 1
        if method in {"GET", "HEAD"}:
            watching = any(one in query.split("&") for one in ("watch=true", "watch=1"))
            verb = "watch" if watching else "get" if named else "list"
        else:
            verb = _VERBS.get(method, method.lower())
            verb = "deletecollection" if verb == "delete" and not named else verb
        return cls(verb, group, "/".join([rest[0], *rest[2:3]]), namespace)

    @property
    def rule(self) -> str:
        """One line to paste below `rules:` of a role."""
        if self.resource.startswith("/"):
            return f'- {{nonResourceURLs: ["{self.resource}"], verbs: ["{self.verb}"]}}'
        return f'- {{apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: ["{self.verb}"]}}'

    @property
    def place(self) -> str:
        if self.namespace:
            return f"our ClusterRole (or a Role in namespace {self.namespace})"
        return "our ClusterRole"
