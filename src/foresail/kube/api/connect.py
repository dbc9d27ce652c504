"""Find the cluster: a kubeconfig, or the service account of the pod we run in."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from foresail.addresses import basic_authorization, split_login, without_secret
from foresail.errors import InputError, did_you_mean
from foresail.kube.api.credentials import (
    EXEC_VERSIONS,
    Credential,
    ExecPlugin,
    Fixed,
    TokenFile,
    load_certificate,
)
from foresail.kube.api.errors import ClusterError
from foresail.yaml_files import read_yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECRET = frozenset({"server", "token", "username", "password", "client-key-data", "exec", "args", "env"})
"""Fields whose values are not shown: each may hold a password or a token."""


@dataclass
class Connection:
    """Where a cluster is and who we are to it."""

    url: str
    """Scheme, host, port, and a path if the API server stands below one; no slash at the end, and no password: it is
    shown in messages.
    """
    context: ssl.SSLContext | None = None
    """None for plain http."""
    credential: Credential = field(default_factory=Fixed)
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every request: whom we impersonate."""
    server_name: str | None = None
    """The name in the server's certificate, if it is another than in the URL."""
    namespace: str = "default"
    source: str = ""
    """Where this was found, for errors."""


def find_connection(
    kubeconfig: Path | None = None, context: str | None = None, *, account: Path = SERVICE_ACCOUNT
) -> Connection:
    """The cluster of the file given, of $KUBECONFIG, of ~/.kube/config, or the one around us; the first there is.

    As for kubectl, ~/.kube/config does not count where $KUBECONFIG is set: a slip in its name must not lead to another
    cluster.
    """
    if kubeconfig is not None:
        return _from_files([kubeconfig], context, required=True)
    stated = os.environ.get("KUBECONFIG")
    paths = [Path(one) for one in (stated or "").split(os.pathsep) if one] or [Path("~/.kube/config").expanduser()]
    if any(path.is_file() for path in paths):
        return _from_files(paths, context, required=False)
    if context is None and os.environ.get("KUBERNETES_SERVICE_HOST") and (account / "token").is_file():
        return _in_cluster(account)
    looked = f"no file in $KUBECONFIG ({stated})" if stated else "neither $KUBECONFIG nor ~/.kube/config"
    raise ClusterError(
        f"no cluster: there is {looked}, and this is no pod with a service account; name a file with --kubeconfig"
    )


def with_certificate(url: str, *, authority: Path, certificate: Path, key: Path, source: str) -> Connection:
    """A cluster that knows us by a client certificate."""
    context = _tls(authority, place=authority)
    load_certificate(context, certificate, key, place=certificate)
    return Connection(url, context, source=source)


def _in_cluster(account: Path) -> Connection:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    trusted = account / "ca.crt"
    namespace = account / "namespace"
    return Connection(
        url=f"https://{host}:{port}",
        context=_tls(trusted if trusted.is_file() else None, place=trusted),
        credential=TokenFile(account / "token"),
        namespace=namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else "default",
        source=f"service account in {account}",
    )


class _ConfigEntry:
    """One cluster, user or context of a kubeconfig; knows where it stands."""

    def __init__(self, path: Path, where: str, fields: Mapping[str, Any]) -> None:
        self.path = path
        self.where = where
        self.fields = fields

    def error(self, message: str) -> InputError:
        return InputError(f"{self.where}: {message}", path=self.path)

    def get(self, key: str, kind: type = str) -> Any:
        """A field's value; None if it is missing or empty."""
        found = self.fields.get(key)
        if found is None or found in ("", [], {}):
            return None
        if kind is str and isinstance(found, int) and not isinstance(found, bool):
            # YAML takes a name or token of digits for a number.
            found = str(found)
        if not isinstance(found, kind):
            words = {str: "text", bool: "true or false", list: "a list", dict: "a mapping"}
            shown = f"a {type(found).__name__}" if key in _SECRET else repr(found)
            raise self.error(f"{key} is {shown}; it must be {words[kind]}")
        return found

    def file(self, key: str) -> Path | None:
        """A path, which counts from the folder of the kubeconfig."""
        found = self.get(key)
        if found is None:
            return None
        path = self.path.parent / Path(found).expanduser()
        if not path.is_file():
            raise self.error(f"{key} names {path}, which is no file")
        return path

    def data(self, key: str) -> bytes | None:
        found = self.get(key)
        if found is None:
            return None
        try:
            return base64.b64decode("".join(found.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.error(f"{key} is no base64 ({error})") from error


def _from_files(paths: list[Path], context: str | None, *, required: bool) -> Connection:
    documents = [(path, _read(path)) for path in paths if required or path.is_file()]
    current = context or next(
        (str(said["current-context"]) for _, said in documents if said.get("current-context")), None
    )
    contexts = _entries(documents, "contexts", "context")
    known = ", ".join(sorted(contexts)) or "none"
    source = ", ".join(str(path) for path, _ in documents)
    if current is None:
        raise InputError(f"no current-context; choose one with --context (there are: {known})", path=source)
    if current not in contexts:
        near = did_you_mean(current, contexts)
        raise InputError(f'no context "{current}"{near} (there are: {known})', path=source)
    chosen = contexts[current]
    cluster = _named(chosen, "cluster", _entries(documents, "clusters", "cluster"))
    if cluster is None:
        raise chosen.error("names no cluster")
    user = _named(chosen, "user", _entries(documents, "users", "user"))
    return _connection(cluster, user or _ConfigEntry(chosen.path, "no user", {}), chosen.get("namespace") or "default")


def _named(chosen: _ConfigEntry, key: str, known: Mapping[str, _ConfigEntry]) -> _ConfigEntry | None:
    name = chosen.get(key)
    if name is None:
        return None
    if name not in known:
        raise chosen.error(f'{key} is "{name}", which is not among {key}s: {", ".join(sorted(known)) or "none"}')
    return known[name]


def _read(path: Path) -> Mapping[str, Any]:
    found = read_yaml(path, what="the kubeconfig")
    if found is None:
        return {}
    if not isinstance(found, dict) or found.get("kind", "Config") != "Config":
        raise InputError("this is no kubeconfig (kind: Config)", path=path)
    return found


def _entries(documents: list[tuple[Path, Mapping[str, Any]]], group: str, key: str) -> dict[str, _ConfigEntry]:
    """All entries of a group by name; of two with one name the first file's counts, as for kubectl."""
    entries: dict[str, _ConfigEntry] = {}
    for path, document in documents:
        for name, fields in _named_fields(path, document, group, key):
            entries.setdefault(name, _ConfigEntry(path, f'{key} "{name}"', fields))
    return entries


def _named_fields(
    path: Path, document: Mapping[str, Any], group: str, key: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    listed = document.get(group) or []
    if not isinstance(listed, list):
        raise InputError(f"{group} must be a list", path=path)
    for number, one in enumerate(listed):
        if not isinstance(one, dict) or "name" not in one or not isinstance(one.get(key) or {}, dict):
            raise InputError(f"{group}[{number}] must have a name and a mapping {key}", path=path)
        yield str(one["name"]), one.get(key) or {}


def _connection(cluster: _ConfigEntry, user: _ConfigEntry, namespace: str) -> Connection:
    url = cluster.get("server")
    if url is None:
        raise cluster.error("server is missing")
    scheme = _scheme(url)
    if scheme not in {"http", "https"}:
        raise cluster.error(f'server is "{without_secret(url)}"; it must be a URL such as https://10.0.0.1:6443')
    if cluster.get("proxy-url"):
        raise cluster.error("proxy-url is set, but Foresail connects directly; use a context without a proxy")
    tls = _cluster_tls(cluster) if scheme == "https" else None
    if tls is not None:
        certificate = user.data("client-certificate-data") or user.file("client-certificate")
        key = user.data("client-key-data") or user.file("client-key")
        if (certificate is None) != (key is None):
            raise user.error("client-certificate and client-key go together; one of them is missing")
        if certificate is not None and key is not None:
            load_certificate(tls, certificate, key, place=f"{user.path}: {user.where}")
    url, login = split_login(url)
    credential = _credential(user, cluster, tls)
    return Connection(
        url=url.rstrip("/"),
        context=tls,
        # As for kubectl, a user's own token or password goes before what stands in the URL.
        credential=Fixed(login) if login is not None and credential == Fixed() else credential,
        headers=tuple(_impersonation(user)),
        server_name=cluster.get("tls-server-name"),
        namespace=namespace,
        source=f"{cluster.path}: {cluster.where}",
    )


def _scheme(url: str) -> str:
    """The scheme of a URL that an API server can have; empty for one that none can."""
    try:
        at = urlsplit(url)
        # A name or port that cannot be is only told when it is looked at.
        host, _port = (at.hostname or "").encode("idna"), at.port
    except ValueError:
        return ""
    return at.scheme if host and not at.query and not at.fragment else ""


def _cluster_tls(cluster: _ConfigEntry) -> ssl.SSLContext:
    trusted = cluster.data("certificate-authority-data") or cluster.file("certificate-authority")
    insecure = bool(cluster.get("insecure-skip-tls-verify", bool))
    if insecure and trusted is not None:
        raise cluster.error("certificate-authority and insecure-skip-tls-verify contradict each other; remove one")
    return _tls(trusted, place=f"{cluster.path}: {cluster.where}", insecure=insecure)


def _tls(trusted: Path | bytes | None, *, place: str | Path, insecure: bool = False) -> ssl.SSLContext:
    try:
        if isinstance(trusted, bytes):
            return ssl.create_default_context(cadata=trusted.decode("ascii"))
        context = ssl.create_default_context(cafile=trusted)
    except (OSError, ValueError) as error:
        raise InputError(f"the certificate authority is no PEM certificate ({error})", path=place) from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _credential(user: _ConfigEntry, cluster: _ConfigEntry, tls: ssl.SSLContext | None) -> Credential:
    # In the order of kubectl: a file goes before a token that was written next to it.
    token_file = user.file("tokenFile")
    if token_file is not None:
        return TokenFile(token_file)
    if token := user.get("token"):
        return Fixed(f"Bearer {token}")
    if username := user.get("username"):
        return Fixed(basic_authorization(username, user.get("password") or ""))
    if user.get("auth-provider", dict):
        raise user.error("auth-provider is no longer part of Kubernetes; use the provider's exec plug-in")
    if user.get("exec", dict):
        plugin = _ConfigEntry(user.path, f"{user.where}: exec", user.fields["exec"])
        return _exec_plugin(plugin, cluster, tls)
    return Fixed()


def _exec_plugin(plugin: _ConfigEntry, cluster: _ConfigEntry, tls: ssl.SSLContext | None) -> ExecPlugin:
    version, command = plugin.get("apiVersion"), plugin.get("command")
    if version not in EXEC_VERSIONS:
        raise plugin.error(f"apiVersion is {version!r}; known are {', '.join(EXEC_VERSIONS)}")
    if command is None:
        raise plugin.error("command is missing")
    if "/" in command:
        # Whole, or a program beside the kubeconfig of this very folder would be looked for on PATH.
        command = str((plugin.path.parent / Path(command).expanduser()).absolute())
    variables = plugin.get("env", list) or []
    if not all(isinstance(one, dict) and "name" in one for one in variables):
        raise plugin.error("env must be a list of name and value")
    told = None
    if plugin.get("provideClusterInfo", bool):
        names = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data")
        told = {name: cluster.fields[name] for name in names if name in cluster.fields}
    return ExecPlugin(
        place=f"{plugin.path}: {plugin.where}",
        api_version=version,
        command=command,
        arguments=tuple(str(one) for one in plugin.get("args", list) or []),
        environment={str(one["name"]): str(one.get("value", "")) for one in variables},
        install_hint=plugin.get("installHint") or "",
        interactive=plugin.get("interactiveMode") or "IfAvailable",
        cluster=told,
        context=tls,
    )


def _impersonation(user: _ConfigEntry) -> Iterator[tuple[str, str]]:
    if name := user.get("as"):
        yield "Impersonate-User", name
    if uid := user.get("as-uid"):
        yield "Impersonate-Uid", uid
    for group in user.get("as-groups", list) or []:
        yield "Impersonate-Group", str(group)
    extra = user.get("as-user-extra", dict) or {}
    for key, values in extra.items():
        if not isinstance(values, list):
            raise user.error(f"as-user-extra: {key} is {values!r}; it must be a list")
        for value in values:
            yield f"Impersonate-Extra-{key}", str(value)
