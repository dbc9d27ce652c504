"""A small client of the lab's API server: plain HTTPS with the lab's certificates."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from foresail.kube.objects.values import Object as Object  # noqa: PLC0414 - what a client answers with is part of it
from foresail.lab.errors import LabError

JSON = "application/json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
_POLL_S = 0.15


class ApiError(LabError):
    """An answer other than 2xx."""

    def __init__(self, status: int, method: str, path: str, message: str) -> None:
        self.status = status
        super().__init__(f"{method} {path}: {status} {message}")


class Api:
    """One connection to an API server; not for several threads at once."""

    def __init__(self, url: str, *, ca: Path, certificate: Path, key: Path, timeout_s: float = 30.0) -> None:
        try:
            context = ssl.create_default_context(cafile=str(ca))
            context.load_cert_chain(certificate, key)
        except OSError as error:
            raise LabError(
                f"{ca.parent} lacks the certificates to talk to {url}: {error}; see: foresail lab status"
            ) from error
        at = urlsplit(url)
        self._connection = http.client.HTTPSConnection(at.hostname or "", at.port, context=context, timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def text(self, path: str) -> str:
        """GET something that is no JSON, such as /readyz or a log."""
        return self._send("GET", path, None, JSON).decode("utf-8", errors="replace")

    def get(self, path: str) -> Object:
        return self._json("GET", path)

    def items(self, path: str) -> list[Object]:
        found: list[Object] = self.get(path)["items"]
        return found

    def create(self, path: str, body: Mapping[str, Any]) -> Object:
        return self._json("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any], content_type: str = STRATEGIC_MERGE) -> Object:
        return self._json("PATCH", path, body, content_type)

    def delete(self, path: str, body: Mapping[str, Any] | None = None) -> Object:
        return self._json("DELETE", path, body)

    def wait(self, path: str, until: Callable[[Object], bool], *, within_s: float = 60.0) -> Object:
        """GET until the answer is as wanted; raises with the last answer's status if it never is."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                found: Object | None = self.get(path)
            except ApiError as error:
                if error.status != http.client.NOT_FOUND:
                    raise
                found = None
            if found is not None and until(found):
                return found
            if time.monotonic() > deadline:
                last = "not found" if found is None else json.dumps(found.get("status", {}))[:2000]
                raise LabError(f"{path} was not as awaited within {within_s:g} s; last seen: {last}")
            time.sleep(_POLL_S)

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None, content_type: str = JSON) -> Object:
        found: Object = json.loads(self._send(method, path, body, content_type))
        return found

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str) -> bytes:
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "*/*", "Content-Type": content_type}
        try:
            answer, received = self._exchange(method, path, sent, headers)
        except (OSError, http.client.HTTPException) as error:
            raise LabError(
                f"{method} {path}: the API server does not answer ({error}); see: foresail lab status"
            ) from error
        if answer.status >= http.client.MULTIPLE_CHOICES:
            raise ApiError(answer.status, method, path, _message(received))
        return received

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        # An idle connection may be that of an API server that has been restarted since; asking twice does no harm.
        attempts = 2 if method == "GET" and self._connection.sock is not None else 1
        while True:
            attempts -= 1
            try:
                self._connection.request(method, path, body=body, headers=headers)
                answer = self._connection.getresponse()
                return answer, answer.read()
            except (OSError, http.client.HTTPException):
                # The next request opens a new connection.
                self._connection.close()
                if not attempts:
                    raise


def _message(received: bytes) -> str:
    try:
        return str(json.loads(received)["message"])
    except (ValueError, KeyError, TypeError):
        return received.decode("utf-8", errors="replace").strip()[:500]
