"""An ASGI application on a socket: uvicorn, TLS with client certificates, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foresail.errors import OptionError

_STOP_WITHIN_S = 5
_KEEP_ALIVE_S = 300
"""Longer than Go's clients keep an idle connection, so that they and not we close it."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where a server listens and whom it talks to."""

    host: str = "127.0.0.1"
    port: int = 8888
    """0 for any free one."""
    certificate: Path | None = None
    """PEM file with the server's certificate and its chain; with `key` it makes the server speak TLS."""
    key: Path | None = None
    client_ca: Path | None = None
    """PEM file of the authorities whose client certificates are let in."""

    @property
    def is_tls(self) -> bool:
        return self.certificate is not None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"

    def url_of(self, at: socket.socket) -> str:
        """The URL of a socket that listens; its port is a real one."""
        return replace(self, port=at.getsockname()[1]).url

    def check(self) -> None:
        """Refuse what would let strangers in or cannot work."""
        self.check_tls()
        if self.client_ca is not None and not self.is_tls:
            raise OptionError("--client-ca is given without --tls-cert and --tls-key; client certificates need TLS")
        _check_files({"tls-cert": self.certificate, "tls-key": self.key, "client-ca": self.client_ca})
        if not is_loopback(self.host) and self.client_ca is None:
            raise OptionError(
                f"--address is {self.host}:{self.port}, which other machines can reach, and anybody who asks would be "
                "answered; give --tls-cert, --tls-key and --client-ca (kube-scheduler shows a client certificate with "
                "tlsConfig), or listen on 127.0.0.1"
            )

    def check_tls(self) -> None:
        """Refuse a certificate without its key, and a key without its certificate."""
        if (self.certificate is None) != (self.key is None):
            missing, given = ("--tls-key", "--tls-cert") if self.key is None else ("--tls-cert", "--tls-key")
            raise OptionError(f"{given} is given without {missing}; TLS needs both")


def check_metrics(settings: ServerSettings, token_file: Path | None) -> None:
    """Refuse to show metrics to strangers; /healthz and /readyz say nothing that is worth hiding."""
    settings.check_tls()
    _check_files({"tls-cert": settings.certificate, "tls-key": settings.key, "token-file": token_file})
    if not is_loopback(settings.host) and (not settings.is_tls or token_file is None):
        raise OptionError(
            f"--address is {settings.host}:{settings.port}, which other machines can reach; give --tls-cert, --tls-key "
            "and --token-file, or listen on 127.0.0.1"
        )


def check_tls_files(settings: ServerSettings) -> None:
    """Refuse files that are no certificate and its key, before anything is begun that would have to be broken off."""
    if settings.certificate is None or settings.key is None:
        return
    try:
        # Without a password given, OpenSSL would ask on the terminal and wait.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certificate, settings.key, password="")
    except (OSError, ValueError) as error:
        raise _unusable(error) from error


def _unusable(error: Exception) -> OptionError:
    return OptionError(
        f"the TLS files cannot be used ({error}); give PEM files, unencrypted, and the key that belongs to the "
        "certificate"
    )


def _check_files(given: Mapping[str, Path | None]) -> None:
    for option, path in given.items():
        if path is not None and not path.is_file():
            raise OptionError(f"--{option} is {path}; there is no such file")


def parse_address(text: str, option: str = "--address") -> tuple[str, int]:
    """Host and port of `127.0.0.1:8888`, `[::1]:8888` or `:8888` (all addresses)."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise OptionError(f'{option} is "{text}"; write host and port, as in 127.0.0.1:8888')
    return host or "0.0.0.0", int(port)  # noqa: S104 - only with TLS, see `check` and `check_metrics`


def listen(settings: ServerSettings, option: str = "--address") -> socket.socket:
    """A socket that listens; port 0 is then a real one. `option` says where."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=1024)
    except OSError as error:
        # Python adds the address once more, in its own notation; names that are not known have numbers below 0.
        why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or error
        raise OptionError(
            f"cannot listen on {settings.host}:{settings.port}: {why}; "
            f"give another {option}, or port 0 for any free one"
        ) from error


async def serve(app: Any, at: socket.socket, settings: ServerSettings, *, guarded: bool = False) -> None:
    """Serve until cancelled; requests under way are answered. `guarded`: strangers ask here, see `limits`."""
    import uvicorn  # noqa: PLC0415 - only servers need it

    from foresail.live.serving.gathering import WholeAnswers  # noqa: PLC0415 - so do these
    from foresail.live.serving.limits import Guarded  # noqa: PLC0415 - see above

    config = uvicorn.Config(
        app,
        http=Guarded if guarded else WholeAnswers,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_WITHIN_S,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        ssl_ca_certs=None if settings.client_ca is None else str(settings.client_ca),
        ssl_cert_reqs=ssl.CERT_NONE if settings.client_ca is None else ssl.CERT_REQUIRED,
    )
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        raise _unusable(error) from error
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals are for the whole process to take, see `on_stop_signals`

    server = Server(config)
    try:
        await server.serve(sockets=[at])
    finally:
        # Cancelled, uvicorn goes on listening.
        for one in getattr(server, "servers", ()):
            one.close()
        at.close()


def on_stop_signals(stop: Callable[[], None]) -> None:
    """Call `stop` at SIGINT and SIGTERM, instead of breaking off."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)


async def first_of(tasks: Sequence[asyncio.Task[None]], stop: asyncio.Event) -> None:
    """Wait for the first of these to end, or for `stop`; an error of theirs is raised, and the others go on."""
    stopped = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
    for task in tasks:
        if task in done:
            task.result()


async def end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
