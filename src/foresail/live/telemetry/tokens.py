"""Who may report progress: bearer tokens, from a file, or of the pods themselves by the API server's word.

A pod mounts a projected token of its service account with the audience `foresail-progress`. A TokenReview says whose it
is, and which pod it was made for: that pod may report for its own job and for no other. The answer holds for as long as
the token does and the pod runs.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ClusterError
from foresail.live.telemetry.jobs import Jobs, job_of, names_of
from foresail.live.telemetry.pace import Paces
from foresail.logs import get_logger

AUDIENCE = "foresail-progress"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_LONGEST = 16_384
_MOST_KNOWN = 1 << 14
_DOUBTED_S = 30.0
"""How long the answer holds for a token that is of no use, or does not say when it ends."""
_DEFAULT = "default"
"""The namespace of a job that is written without, as with kubectl."""
_NOT_OURS = "the pod of this token does not run, or is not one that Foresail looks after"
_REVIEWS_A_SECOND, _REVIEWS_AT_ONCE = 20.0, 200.0


class NotAllowed(Exception):  # noqa: N818 - it is an answer
    """Why a request is not for who asks, and the status that says so."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


JobFor = Callable[[str], str]
"""Which job a caller's report is of, from the name that the report says; NotAllowed if that is not the caller's."""


class Tokens(Protocol):
    """Knows who may report for whom."""

    problem: str
    """What keeps it from knowing; empty if nothing does."""

    async def caller(self, token: str) -> JobFor:
        """Who shows this token, empty for none; NotAllowed if nobody does who may report."""


def bearer(header: bytes) -> str:
    """The token of an Authorization header; empty for none."""
    kind, _, token = header.partition(b" ")
    return token.strip().decode("latin-1") if kind.lower() == b"bearer" else ""


def split_job(stated: str, namespace: str) -> tuple[str, str]:
    """Namespace and name of a job as reports write it: `NAME`, or `NAMESPACE/NAME`."""
    first, has_two, second = stated.partition("/")
    return (first, second) if has_two else (namespace, first)


class ListedTokens:
    """Tokens in a file, one a line: `NAMESPACE TOKEN` for the jobs of a namespace, `TOKEN` alone for all jobs.

    The file is read whenever it has changed, since files of Secrets do.
    """

    def __init__(self, path: Path, jobs: Jobs) -> None:
        self.problem = ""
        self._path = path
        self._jobs = jobs
        self._read_at: tuple[int, ...] = ()
        self._tokens: list[tuple[str, bytes]] = []

    async def caller(self, token: str) -> JobFor:
        allowed = self._namespace(token)

        def job_for(stated: str) -> str:
            namespace, name = split_job(stated, allowed or _DEFAULT)
            if allowed and namespace != allowed:
                raise NotAllowed(403, f"this token is for jobs of namespace {allowed}")
            return _known(self._jobs, namespace, name)

        return job_for

    def _namespace(self, token: str) -> str:
        """The namespace that a token is for, empty for all."""
        try:
            self._read()
            self.problem = ""
        except (OSError, ValueError) as error:
            self.problem = f"--progress-token-file {self._path} cannot be read: {error}"
            raise NotAllowed(503, "tokens cannot be checked now") from error
        given = token.encode("latin-1")
        found = None
        for namespace, known in self._tokens:  # all of them, so that the time it takes says nothing
            if hmac.compare_digest(given, known):
                found = namespace
        if found is None:
            raise NotAllowed(401, "send a token as: Authorization: Bearer TOKEN")
        return found

    def _read(self) -> None:
        about = self._path.stat()
        read_at = (about.st_ino, about.st_mtime_ns, about.st_size)
        if read_at != self._read_at:
            lines = self._path.read_text(encoding="ascii").splitlines()
            words = [line.split() for line in lines if line.strip() and not line.startswith("#")]
            self._tokens = [(of[0] if len(of) > 1 else "", of[-1].encode()) for of in words]
            self._read_at = read_at


class _Reviewed(NamedTuple):
    """What the API server has said of a token."""

    pod_uid: str
    """The pod it was made for; empty if it is of no use here."""
    why: str
    until_s: float


class PodTokens:
    """Tokens of pods, reviewed by the API server."""

    def __init__(
        self, api: Client, jobs: Jobs, *, open_to_all: bool = False, unix_s: Callable[[], float] = time.time
    ) -> None:
        """`open_to_all`: who shows no token may report for everybody; for an address that only this machine reaches."""
        self.problem = ""
        self._api = api
        self._jobs = jobs
        self._open_to_all = open_to_all
        self._unix_s = unix_s
        self._known: OrderedDict[bytes, _Reviewed] = OrderedDict()
        self._pace = Paces(_REVIEWS_A_SECOND, _REVIEWS_AT_ONCE)

    async def caller(self, token: str) -> JobFor:
        if not token and self._open_to_all:
            return lambda stated: _known(self._jobs, *split_job(stated, _DEFAULT))
        pod = self._jobs.pod(await self._pod_of(token))
        if pod is None:
            raise NotAllowed(403, _NOT_OURS)

        def job_for(stated: str) -> str:
            namespace, name = split_job(stated, pod.namespace)
            if stated and (namespace != pod.namespace or name not in names_of(pod)):
                names = " or ".join(names_of(pod))
                raise NotAllowed(403, f"this token is of pod {pod.full_name}, which may report as {names}")
            return job_of(pod)

        return job_for

    async def _pod_of(self, token: str) -> str:
        digest = hashlib.sha256(token.encode("latin-1")).digest()
        known = self._known.get(digest)
        if known is None or self._unix_s() >= known.until_s:
            claims = _claims(token)
            self._look_at(claims)
            if not self._pace.allows(""):
                raise NotAllowed(429, "too many tokens are new; come back in a second")
            known = self._known[digest] = await self._review(token, claims)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        if not known.pod_uid:
            raise NotAllowed(401, known.why)
        return known.pod_uid

    def _look_at(self, claims: dict[str, Any]) -> None:
        """Turn away what the API server need not be asked about; what a token claims can do no more than that."""
        audiences, ends_s = claims.get("aud"), claims.get("exp")
        if AUDIENCE not in (audiences if isinstance(audiences, list) else [audiences]):
            raise NotAllowed(401, f"the token is not for the audience {AUDIENCE}; project one that is into the pod")
        if isinstance(ends_s, int | float) and ends_s < self._unix_s():
            raise NotAllowed(401, "the token has expired; read its file anew before each request")
        if self._jobs.pod(_claimed_pod(claims)) is None:
            raise NotAllowed(403, _NOT_OURS)

    async def _review(self, token: str, claims: dict[str, Any]) -> _Reviewed:
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        try:
            answer = await self._api.post(REVIEWS, asked)
        except ClusterError as error:
            if not self.problem:
                get_logger().warning("token_review_failed", error=str(error))
            self.problem = f"tokens of pods cannot be reviewed: {error}"
            raise NotAllowed(503, "tokens cannot be checked now") from error
        self.problem = ""
        uid, why = _reviewed_pod(answer.get("status") or {})
        ends_s, now_s = claims.get("exp"), self._unix_s()
        lasts = uid and isinstance(ends_s, int | float)
        return _Reviewed(uid, why, float(ends_s) if lasts else now_s + _DOUBTED_S)  # type: ignore[arg-type]


def _known(jobs: Jobs, namespace: str, name: str) -> str:
    job = jobs.reported_as(namespace, name)
    if job is None:
        raise NotAllowed(404, f"no running pod of namespace {namespace} is, or has the label of, a job {name[:80]!r}")
    return job


def _claims(token: str) -> dict[str, Any]:
    """What a token says of itself, which anybody could have written."""
    parts = token.split(".")
    said = None
    if len(token) <= _LONGEST and len(parts) == 3:
        with contextlib.suppress(ValueError, RecursionError):
            said = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    if not isinstance(said, dict):
        raise NotAllowed(401, "send the pod's projected token as: Authorization: Bearer TOKEN")
    return said


def _claimed_pod(claims: dict[str, Any]) -> str:
    about = claims.get("kubernetes.io")
    pod = about.get("pod") if isinstance(about, dict) else None
    uid = pod.get("uid") if isinstance(pod, dict) else None
    return uid if isinstance(uid, str) else ""


def _reviewed_pod(status: Object) -> tuple[str, str]:
    """The uid of the pod that a token was made for; or empty, and why it is of no use."""
    if status.get("authenticated") is not True:
        return "", f"the API server does not know this token ({str(status.get('error') or 'not authenticated')[:200]})"
    # One that does not know of audiences answers without, and may have taken a token for somebody else.
    if AUDIENCE not in (status.get("audiences") or ()):
        return "", f"the API server does not say that the token is for the audience {AUDIENCE}"
    extra = (status.get("user") or {}).get("extra") or {}
    uids = extra.get("authentication.kubernetes.io/pod-uid") or [""]
    return str(uids[0]), "the token is bound to no pod; project it into one"
