"""Who we are to an API server: headers and certificates that may be renewed while we run.

What goes wrong here may pass while we run, so it is a ClusterError: whoever asks the API server again asks here again.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from foresail.errors import InputError
from foresail.kube.api.errors import ClusterError

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_S = 60.0
_RENEW_BEFORE_S = 10.0
"""A credential that is about to expire would do so on the way."""


class Credential(Protocol):
    """What makes the Authorization header, and perhaps the client certificate."""

    certificates: int
    """How many client certificates there have been; connections opened earlier still show the older ones."""

    async def authorization(self) -> str | None:
        """The header's value as it is now; None if the certificate says it all."""

    async def renew(self) -> bool:
        """After a 401: get a new one; returns whether there is reason to try again."""


@dataclass
class Fixed:
    """A header that stays: a token in the file, a password, or none."""

    header: str | None = None
    certificates: int = 0

    async def authorization(self) -> str | None:
        return self.header

    async def renew(self) -> bool:
        return False


class TokenFile:
    """A token that something else keeps fresh in a file, as the kubelet does for service accounts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] = (0, 0)
        self._header = ""
        self.certificates = 0

    async def authorization(self) -> str:
        try:
            # A projected token is a link to a new file each time: its inode tells, should its time not.
            found = os.stat(self._path)  # noqa: PTH116 - asked before every request; Path.stat takes twice as long
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp:
                self._read()
                self._stamp = stamp
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
            raise ClusterError(
                f"{self._path}: the token cannot be read: {why}; put a valid one there, it is read anew"
            ) from error
        return self._header

    async def renew(self) -> bool:
        was = self._header
        self._stamp = (0, 0)
        return await self.authorization() != was

    def _read(self) -> None:
        token = self._path.read_text(encoding="utf-8").strip()
        if not token:
            raise ClusterError(f"{self._path}: the token file is empty; put a valid one there, it is read anew")
        self._header = f"Bearer {token}"


@dataclass
class ExecPlugin:
    """A program that prints a credential, as cloud providers have them; asked again when it expires."""

    place: str
    """File and user, for errors."""
    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    install_hint: str = ""
    interactive: str = "IfAvailable"
    """Never, IfAvailable or Always: whether the program may ask on the terminal."""
    cluster: Mapping[str, Any] | None = None
    """What the program is told of the cluster, if it wants to know."""
    context: ssl.SSLContext | None = None
    """Where a client certificate goes that the program prints."""
    certificates: int = 0
    _header: str | None = None
    _expires_s: float = 0.0
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def authorization(self) -> str | None:
        if time.time() < self._expires_s:
            return self._header
        async with self._asking:
            if time.time() >= self._expires_s:
                await self._ask()
        return self._header

    async def renew(self) -> bool:
        was = self._header, self.certificates
        async with self._asking:
            # Many requests may be refused at once; the program runs once for all of them.
            if (self._header, self.certificates) == was:
                await self._ask()
        return True

    async def _ask(self) -> None:
        terminal = self.interactive != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if self.interactive == "Always" and not terminal:
            raise ClusterError(f"{self.place}: {self.command} needs a terminal to log in, and here is none")
        spec: dict[str, Any] = {"interactive": terminal}
        if self.cluster is not None:
            spec["cluster"] = dict(self.cluster)
        told = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        try:
            process = await asyncio.create_subprocess_exec(
                self.command,
                *self.arguments,
                env={**os.environ, **self.environment, "KUBERNETES_EXEC_INFO": json.dumps(told)},
                stdin=None if terminal else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"; {self.install_hint.strip()}" if self.install_hint else ""
            raise ClusterError(
                f"{self.place}: the credential plug-in {self.command} cannot be started: {error.strerror}{hint}"
            ) from error
        try:
            async with asyncio.timeout(_EXEC_S):
                printed, _ = await process.communicate()
        except TimeoutError:
            raise ClusterError(f"the credential plug-in {self.command} took longer than {_EXEC_S:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise ClusterError(
                f"the credential plug-in {self.command} ended with {process.returncode}; run it by hand to see why"
            )
        self._take(printed)

    def _take(self, printed: bytes) -> None:
        try:
            found = json.loads(printed)
            version, status = found["apiVersion"], found["status"]
            token, expires = status.get("token"), status.get("expirationTimestamp")
            certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
            if not all(isinstance(one, str | None) for one in (token, certificate, key)):
                raise TypeError("token, certificate and key are text")  # noqa: TRY301 - one place tells of all bad answers
            expires_s = datetime.fromisoformat(expires).timestamp() if expires else float("inf")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ClusterError(f"the credential plug-in {self.command} printed no ExecCredential ({error})") from error
        if version != self.api_version:
            raise ClusterError(
                f"the credential plug-in {self.command} printed {version}, but the kubeconfig says {self.api_version}"
            )
        if not token and not (certificate and key):
            raise ClusterError(f"the credential plug-in {self.command} printed neither token nor certificate")
        if certificate and key and self.context is not None:
            try:
                load_certificate(self.context, certificate.encode(), key.encode(), place=self.command)
            except InputError as error:
                raise ClusterError(str(error)) from error
            self.certificates += 1
        self._header = f"Bearer {token}" if token else None
        self._expires_s = expires_s - _RENEW_BEFORE_S


def load_certificate(
    context: ssl.SSLContext, certificate: bytes | Path, key: bytes | Path, *, place: str | Path
) -> None:
    """Show this client certificate on connections opened from now on."""
    with ExitStack() as files:
        paths = []
        for given in (certificate, key):
            if isinstance(given, Path):
                paths.append(given)
                continue
            # OpenSSL reads files only; this one is for our eyes only, and gone in a moment.
            file = files.enter_context(tempfile.NamedTemporaryFile(prefix="foresail-"))
            file.write(given)
            file.flush()
            paths.append(Path(file.name))
        try:
            # Without a password given, OpenSSL would ask on the terminal and wait.
            context.load_cert_chain(paths[0], paths[1], password="")
        except (OSError, ValueError) as error:
            raise InputError(
                f"client certificate and key cannot be used ({error}); are they PEM, unencrypted, and a pair?",
                path=place,
            ) from error
