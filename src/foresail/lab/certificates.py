"""The lab's own certificate authority, made with openssl."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from foresail.atomic import replacing
from foresail.lab.errors import LabError

_DAYS = "3650"
_EC_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Identity:
    """Who a certificate says its holder is, in Kubernetes' terms."""

    file: str
    """File name without ending."""
    user: str
    """Common name: the user, or the server's name."""
    groups: tuple[str, ...] = ()
    """Organisations: the groups the user is in."""
    addresses: tuple[str, ...] = ()
    """Names (DNS:…) and addresses (IP:…) it may serve under."""


ADMIN = Identity("admin", "foresail-admin", ("system:masters",))
CONTROL_PLANE = (
    Identity(
        "kube-apiserver",
        "kube-apiserver",
        addresses=("IP:127.0.0.1", "DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default.svc"),
    ),
    Identity("etcd", "etcd", addresses=("IP:127.0.0.1", "DNS:localhost")),
    ADMIN,
    Identity("kube-controller-manager", "system:kube-controller-manager"),
    Identity("kube-scheduler", "system:kube-scheduler"),
    Identity("kwok", "foresail-kwok", ("system:masters",), addresses=("IP:127.0.0.1",)),
    Identity("kubelet-client", "foresail-kubelet-client", ("system:masters",)),
)


class Certificates:
    """A folder of keys (NAME.key) and certificates (NAME.crt), each made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def authority_key(self) -> Path:
        return self.folder / "ca.key"

    @property
    def account_key(self) -> Path:
        """Signs the tokens of service accounts."""
        return self.folder / "accounts.key"

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def make_authority(self) -> None:
        """Make the authority and the key for service accounts, unless they are there."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if not self.authority.is_file():
            with replacing(self.authority) as part:
                subject = (
                    "-subj",
                    "/CN=foresail-lab",
                    "-addext",
                    "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
                )
                _openssl(
                    "req", "-x509", *_EC_KEY, "-keyout", self.authority_key, "-out", part, "-days", _DAYS, *subject
                )
        if not self.account_key.is_file():
            with replacing(self.account_key) as part:
                _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", part)

    def make(self, identity: Identity) -> None:
        """Make a key and a certificate for a client that may be a server too, unless they are there."""
        certificate = self.certificate(identity.file)
        if certificate.is_file():
            return
        request, extensions = self.folder / f"{identity.file}.csr", self.folder / f"{identity.file}.ext"
        extensions.write_text(extension_lines(identity), encoding="utf-8")
        subject = "".join(f"/O={group}" for group in identity.groups) + f"/CN={identity.user}"
        _openssl("req", "-new", *_EC_KEY, "-keyout", self.key(identity.file), "-out", request, "-subj", subject)
        with replacing(certificate) as part:
            authority = ("-CA", self.authority, "-CAkey", self.authority_key, "-CAcreateserial")
            _openssl("x509", "-req", "-in", request, "-out", part, "-days", _DAYS, "-extfile", extensions, *authority)
        request.unlink()
        extensions.unlink()

    def kubeconfig(self, name: str, url: str) -> str:
        """A kubeconfig with the keys inside, so that it works wherever it is copied. JSON is YAML too."""
        user = {
            "client-certificate-data": _in_base64(self.certificate(name)),
            "client-key-data": _in_base64(self.key(name)),
        }
        cluster = {"server": url, "certificate-authority-data": _in_base64(self.authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": name}}],
            "current-context": "lab",
        }
        return json.dumps(config, indent=2) + "\n"


def extension_lines(identity: Identity) -> str:
    """What a certificate may be used for, as openssl reads it."""
    lines = ["basicConstraints=CA:FALSE", "keyUsage=critical,digitalSignature"]
    uses = ["clientAuth", *(["serverAuth"] if identity.addresses else [])]
    lines.append(f"extendedKeyUsage={','.join(uses)}")
    if identity.addresses:
        lines.append(f"subjectAltName={','.join(identity.addresses)}")
    return "\n".join(lines) + "\n"


def _in_base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")


def _openssl(*arguments: str | Path) -> None:
    command: Sequence[str] = ["openssl", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, umask=0o077)  # noqa: S603 - as written here
    if ran.returncode:
        raise LabError(f"openssl {arguments[0]} failed: {ran.stderr.strip()}")
