from __future__ import annotations

import base64
import json
import shutil
import socket
import ssl
import threading

import pytest

from foresail.lab.certificates import ADMIN, CONTROL_PLANE, Certificates, Identity, extension_lines

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl (apt-get install openssl)")


def test_only_servers_may_serve():
    assert extension_lines(ADMIN) == (
        "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth\n"
    )
    assert extension_lines(Identity("x", "x", addresses=("IP:127.0.0.1", "DNS:localhost"))).endswith(
        "extendedKeyUsage=clientAuth,serverAuth\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n"
    )


@needs_openssl
def test_a_client_and_a_server_of_one_authority_believe_each_other(tmp_path):
    certificates = Certificates(tmp_path / "pki")
    certificates.make_authority()
    for identity in CONTROL_PLANE:
        certificates.make(identity)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.authority))
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(certificates.certificate("kube-apiserver"), certificates.key("kube-apiserver"))
    client = ssl.create_default_context(cafile=str(certificates.authority))
    client.load_cert_chain(certificates.certificate("admin"), certificates.key("admin"))
    seen = {}
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _address = listening.accept()
            with server.wrap_socket(connection, server_side=True) as secured:
                seen["client"] = secured.getpeercert()

        thread = threading.Thread(target=serve)
        thread.start()
        with (
            socket.create_connection(listening.getsockname()) as plain,
            client.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
        ):
            seen["server"] = secured.getpeercert()
        thread.join()
    assert dict(part[0] for part in seen["client"]["subject"]) == {
        "organizationName": "system:masters",
        "commonName": "foresail-admin",
    }
    assert ("IP Address", "127.0.0.1") in seen["server"]["subjectAltName"]


@needs_openssl
def test_keys_are_for_the_owner_alone_and_made_once(tmp_path):
    certificates = Certificates(tmp_path / "pki")
    certificates.make_authority()
    certificates.make(ADMIN)
    before = {path.name: path.read_bytes() for path in certificates.folder.iterdir()}
    assert {path.stat().st_mode & 0o077 for path in certificates.folder.glob("*.key")} == {0}
    certificates.make_authority()
    certificates.make(ADMIN)
    assert {path.name: path.read_bytes() for path in certificates.folder.iterdir()} == before


@needs_openssl
def test_a_kubeconfig_carries_its_keys(tmp_path):
    certificates = Certificates(tmp_path / "pki")
    certificates.make_authority()
    certificates.make(ADMIN)
    config = json.loads(certificates.kubeconfig("admin", "https://127.0.0.1:1"))
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    key = base64.b64decode(config["users"][0]["user"]["client-key-data"])
    assert key == certificates.key("admin").read_bytes()
