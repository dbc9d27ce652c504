"""Where a cluster is found, and what is said of files that do not tell."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import sys
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from foresail.addresses import basic_authorization
from foresail.errors import InputError
from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.kube.api.credentials import ExecPlugin
from foresail.kube.api.errors import ClusterError, Unreachable
from foresail.lab.certificates import ADMIN, CONTROL_PLANE, Certificates

SERVER = next(identity for identity in CONTROL_PLANE if identity.file == "kube-apiserver")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No kubeconfig and no pod around us, whoever runs the tests."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make_authority()
    for identity in (ADMIN, SERVER):
        made.make(identity)
    return made


def config(*, cluster=None, user=None, name="one", **more):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"http://{name}:8080", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        **more,
    }


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(value), encoding="utf-8")
    return path


def authorization(connection):
    return asyncio.run(connection.credential.authorization())


def test_a_file_given_goes_before_the_variable_and_that_before_home(monkeypatch, tmp_path):
    home = write(tmp_path / "home" / ".kube" / "config", config(name="home"))
    assert find_connection().url == "http://home:8080"
    variable = write(tmp_path / "variable", config(name="variable"))
    monkeypatch.setenv("KUBECONFIG", str(variable))
    assert find_connection().url == "http://variable:8080"
    assert find_connection(home).url == "http://home:8080"


def test_a_slip_in_the_variable_does_not_lead_to_the_cluster_of_home(monkeypatch, tmp_path):
    write(tmp_path / "home" / ".kube" / "config", config(name="home"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "lba.kubeconfig"))
    with pytest.raises(ClusterError, match=r"no cluster: there is no file in \$KUBECONFIG \(.*lba.kubeconfig\), and "):
        find_connection(account=tmp_path)
    monkeypatch.setenv("KUBECONFIG", "")
    assert find_connection().url == "http://home:8080"


def test_several_files_are_joined_and_the_first_one_counts(monkeypatch, tmp_path):
    first = write(tmp_path / "first", {**config(name="a"), "current-context": ""})
    other = config(name="b")
    other["clusters"].append({"name": "a", "cluster": {"server": "http://shadowed"}})
    second = write(tmp_path / "second", other)
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (tmp_path / "missing", first, second))))
    assert find_connection().url == "http://b:8080"
    assert find_connection(context="a").url == "http://a:8080"


def test_a_pod_uses_its_service_account(monkeypatch, tmp_path, certificates):
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("first\n", encoding="utf-8")
    (account / "namespace").write_text("mine", encoding="utf-8")
    (account / "ca.crt").write_bytes(certificates.authority.read_bytes())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    connection = find_connection(account=account)
    assert (connection.url, connection.namespace) == ("https://[fd00::1]:443", "mine")
    assert authorization(connection) == "Bearer first"
    # The kubelet puts a new file in the old one's place.
    (account / "new").write_text("second", encoding="utf-8")
    (account / "new").replace(account / "token")
    assert authorization(connection) == "Bearer second"


def test_no_cluster_anywhere(tmp_path):
    said = r"no cluster: there is neither \$KUBECONFIG nor ~/.kube/config, and .*name a file with --kubeconfig"
    with pytest.raises(ClusterError, match=said):
        find_connection(account=tmp_path)


def test_an_unknown_context_lists_those_there_are(tmp_path):
    path = write(tmp_path / "config", config(name="prod"))
    with pytest.raises(InputError, match=r'config: no context "prd"; did you mean "prod"\? \(there are: prod\)'):
        find_connection(path, "prd")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (config(**{"current-context": ""}), r"no current-context; choose one with --context \(there are: one\)"),
        (config(clusters=[]), r'context "one": cluster is "one", which is not among clusters: none'),
        (config(users=[]), r'context "one": user is "one", which is not among users: none'),
        (config(contexts="one"), r"contexts must be a list"),
        (config(contexts=[{"context": {}}]), r"contexts\[0\] must have a name and a mapping context"),
        (config(contexts=[{"name": "one", "context": {}}]), r'context "one": names no cluster'),
        (config(cluster={"server": ""}), r'cluster "one": server is missing'),
        (config(cluster={"server": "10.0.0.1:6443"}), r'server is "10.0.0.1:6443"; it must be a URL'),
        *(
            (config(cluster={"server": wrong}), "it must be a URL such as https://10.0.0.1:6443")
            for wrong in ("https://a:99999", "https://a:-1", "https://[::1", "https://a..b", f"https://{'a' * 64}:1")
        ),
        (config(cluster={"server": "https://a/?limit=1"}), "it must be a URL such as"),
        (config(user={"as": "a", "as-user-extra": {"scopes": None}}), "as-user-extra: scopes is None; it must be a li"),
        (config(cluster={"proxy-url": "http://p"}), r"proxy-url is set"),
        (config(user={"auth-provider": {"name": "oidc"}}), r"auth-provider is no longer part of Kubernetes"),
        (config(user={"tokenFile": "nowhere"}), r"tokenFile names .*nowhere, which is no file"),
        (config(user={"token": ["a"]}), r"user \"one\": token is a list; it must be text"),
        (config(user={"exec": {"command": "x"}}), r"exec: apiVersion is None; known are client.authentication"),
        (
            config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}),
            r'user "one": exec: command is missing',
        ),
        ({"kind": "Pod"}, r"this is no kubeconfig"),
    ],
)
def test_a_broken_kubeconfig_is_told_by_file_and_key(tmp_path, value, message):
    path = write(tmp_path / "config", value)
    with pytest.raises(InputError, match=message) as caught:
        find_connection(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"certificate-authority-data": "%%%"}, {}, "certificate-authority-data is no base64"),
        ({"certificate-authority-data": "aGFsbG8="}, {}, "the certificate authority is no PEM certificate"),
        ({"certificate-authority": "absent.crt"}, {}, "certificate-authority names .*absent.crt, which is no file"),
        (
            {"certificate-authority": __file__, "insecure-skip-tls-verify": True},
            {},
            "certificate-authority and insecure-skip-tls-verify contradict each other",
        ),
        ({"insecure-skip-tls-verify": "yes"}, {}, "insecure-skip-tls-verify is 'yes'; it must be true or false"),
        ({}, {"client-key-data": "aGFsbG8="}, "client-certificate and client-key go together"),
        (
            {},
            {"client-key-data": "aGFsbG8=", "client-certificate-data": "aGFsbG8="},
            "client certificate and key cannot be used",
        ),
    ],
)
def test_certificates_that_cannot_be_used(tmp_path, cluster, user, message):
    path = write(tmp_path / "config", config(cluster={"server": "https://c:6443", **cluster}, user=user))
    with pytest.raises(InputError, match=message):
        find_connection(path)


def test_no_yaml_is_told_with_its_line(tmp_path):
    path = tmp_path / "config"
    path.write_text("a: b\nc: [\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"config:3: the kubeconfig is no YAML"):
        find_connection(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="the kubeconfig cannot be read: No such file or directory"):
        find_connection(tmp_path / "absent")


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, None),
        ({"token": "abc"}, "Bearer abc"),
        ({"token": 123}, "Bearer 123"),
        ({"username": "u", "password": "p"}, "Basic dTpw"),
    ],
)
def test_what_a_user_sends(tmp_path, user, header):
    assert authorization(find_connection(write(tmp_path / "config", config(user=user)))) == header


@pytest.mark.parametrize(
    ("server", "user", "url", "header"),
    [
        (
            "https://jane:se%40cret@c:6443/path/",
            {},
            "https://c:6443/path",
            basic_authorization("jane", "se@cret"),
        ),
        ("http://only-a-token@[::1]:80", {}, "http://[::1]:80", basic_authorization("only-a-token", "")),
        ("https://jane:secret@c", {"token": "abc"}, "https://c", "Bearer abc"),
        ("https://jane:secret@c", {"username": "u", "password": "p"}, "https://c", "Basic dTpw"),
    ],
)
def test_a_password_in_a_url_is_sent_and_never_shown(tmp_path, server, user, url, header):
    path = write(tmp_path / "config", config(cluster={"server": server}, user=user))
    connection = find_connection(path)
    assert (connection.url, authorization(connection)) == (url, header)


@pytest.mark.parametrize(
    ("server", "shown"),
    [
        ("https://jane:secret@c:99999", "https://…@c:99999"),
        ("https://jane:secret/with@signs@c", "https://…@c"),
        ("jane:secret@c:6443", "…@c:6443"),
        ("ftp://jane:secret@c", "ftp://…@c"),
    ],
)
def test_a_password_in_a_wrong_url_is_not_shown(tmp_path, server, shown):
    path = write(tmp_path / "config", config(cluster={"server": server}))
    with pytest.raises(InputError) as caught:
        find_connection(path)
    said = f'cluster "one": server is "{shown}"; it must be a URL such as https://10.0.0.1:6443'
    assert str(caught.value) == f"{path}: {said}"


@pytest.mark.parametrize("key", ["token", "password", "client-key-data", "exec"])
def test_a_secret_of_the_wrong_kind_is_not_shown(tmp_path, key):
    user = {key: ["hunter2"], **({"username": "jane"} if key == "password" else {})}
    path = write(tmp_path / "config", config(cluster={"server": "https://c"}, user=user))
    with pytest.raises(InputError) as caught:
        find_connection(path)
    assert "hunter2" not in str(caught.value)


def test_a_server_that_is_away_is_told_without_its_password(tmp_path):
    path = write(tmp_path / "config", config(cluster={"server": "http://jane:hunter2@127.0.0.1:1"}))

    async def story():
        async with Client(find_connection(path)) as api:
            await api.get("/version")

    with pytest.raises(ClusterError, match=r"http://127\.0\.0\.1:1 .*cannot be connected to") as caught:
        asyncio.run(story())
    assert "hunter2" not in str(caught.value)


def test_paths_count_from_the_folder_of_the_kubeconfig(tmp_path):
    (tmp_path / "token").write_text("abc", encoding="utf-8")
    assert authorization(find_connection(write(tmp_path / "config", config(user={"tokenFile": "token"})))) == (
        "Bearer abc"
    )


def test_a_token_file_that_fails_later_is_trouble_with_the_cluster_and_passes(tmp_path):
    token = tmp_path / "token"
    token.write_text("abc", encoding="utf-8")
    connection = find_connection(write(tmp_path / "config", config(user={"tokenFile": "token"})))
    token.unlink()
    with pytest.raises(ClusterError, match=r"token: the token cannot be read: No such file or directory; put a valid"):
        authorization(connection)
    token.write_text(" \n", encoding="utf-8")
    with pytest.raises(ClusterError, match=r"token: the token file is empty; put a valid one there"):
        authorization(connection)
    token.write_bytes(b"\xff\xfe")
    with pytest.raises(ClusterError, match=r"token: the token cannot be read: no UTF-8 text; put a valid one there"):
        authorization(connection)
    token.write_text("def", encoding="utf-8")
    assert authorization(connection) == "Bearer def"


def test_impersonation_goes_into_headers(tmp_path):
    user = {"as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"scopes": ["view"]}}
    assert find_connection(write(tmp_path / "config", config(user=user))).headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes", "view"),
    )


PLUGIN = """
import json, os, sys
from pathlib import Path
runs = Path(sys.argv[1])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
if os.environ.get("FAIL"):
    sys.exit(3)
print(json.dumps({"apiVersion": told["apiVersion"], "kind": "ExecCredential", "status": {
    "token": told["spec"].get("cluster", {}).get("server", "none") + os.environ["MORE"] + str(len(runs.read_text())),
    "expirationTimestamp": os.environ["EXPIRES"]}}))
"""


def plugin(tmp_path, *, expires, **more):
    (tmp_path / "plugin.py").write_text(PLUGIN, encoding="utf-8")
    told = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tmp_path / "plugin.py"), str(tmp_path / "runs")],
        "env": [{"name": "MORE", "value": "!"}, {"name": "EXPIRES", "value": expires}],
        "interactiveMode": "Never",
        **more,
    }
    return find_connection(write(tmp_path / "config", config(user={"exec": told}))).credential


def test_a_plugin_beside_the_kubeconfig_of_this_folder_is_not_looked_for_on_the_path(tmp_path, monkeypatch):
    program = tmp_path / "log-in"
    program.write_text("#!/bin/sh\necho never run\n", encoding="utf-8")
    told = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./log-in"}
    write(tmp_path / "config", config(user={"exec": told}))
    monkeypatch.chdir(tmp_path)
    assert find_connection(Path("config")).credential.command == str(program)


def test_a_plugin_is_asked_once_until_its_token_expires(tmp_path):
    credential = plugin(tmp_path, expires="2999-01-01T00:00:00Z", provideClusterInfo=True)

    async def story():
        first = await asyncio.gather(*(credential.authorization() for _ in range(3)))
        again = await credential.authorization()
        renewed = await asyncio.gather(credential.renew(), credential.renew())
        return first, again, renewed, await credential.authorization()

    first, again, renewed, last = asyncio.run(story())
    assert first == ["Bearer http://one:8080!1"] * 3
    assert again == "Bearer http://one:8080!1"
    assert renewed == [True, True]
    assert last == "Bearer http://one:8080!2"


def test_a_plugin_whose_token_has_expired_is_asked_again(tmp_path):
    credential = plugin(tmp_path, expires="2001-01-01T00:00:00Z")

    async def story():
        return [await credential.authorization() for _ in range(2)]

    assert asyncio.run(story()) == ["Bearer none!1", "Bearer none!2"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"command": "foresail-no-such-plugin", "installHint": "install it so"},
            "cannot be started: .*; install it so",
        ),
        ({"args": ["-c", "print(1)"]}, "printed no ExecCredential"),
        ({"args": ["-c", "import sys; sys.exit(3)"]}, "ended with 3; run it by hand"),
        (
            {"args": ["-c", 'print(\'{"apiVersion": "v0", "status": {}}\')']},
            "printed v0, but the kubeconfig says client.authentication.k8s.io/v1",
        ),
        (
            {"args": ["-c", 'print(\'{"apiVersion": "client.authentication.k8s.io/v1", "status": {}}\')']},
            "printed neither token nor certificate",
        ),
        (
            {"args": ["-c", 'print(\'{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": 7}}\')']},
            "printed no ExecCredential .token, certificate and key are text",
        ),
    ],
)
def test_a_plugin_that_fails_is_told(tmp_path, more, message):
    credential = plugin(tmp_path, expires="2999-01-01T00:00:00Z", **more)
    with pytest.raises((ClusterError, InputError), match=message):
        asyncio.run(credential.authorization())


def test_a_plugin_that_needs_a_terminal_is_refused_without_one(tmp_path):
    told = ExecPlugin("file", "client.authentication.k8s.io/v1", "x", interactive="Always")
    with pytest.raises(ClusterError, match="needs a terminal to log in"):
        asyncio.run(told.authorization())


class Secure:
    """An HTTPS server of a lab's certificates that tells who came."""

    def __init__(self, certificates):
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.authority))
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.load_cert_chain(certificates.certificate(SERVER.file), certificates.key(SERVER.file))

    async def ask(self, make):
        async def answer(request):
            subject = request.transport.get_extra_info("peercert")["subject"]
            return web.json_response({"who": [value for one in subject for key, value in one if key == "commonName"]})

        runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._context)
        await site.start()
        try:
            async with Client(make(site._server.sockets[0].getsockname()[1])) as api:
                return (await api.get("/version"))["who"]
        finally:
            await runner.cleanup()


def inline(path):
    return base64.b64encode(Path(path).read_bytes()).decode()


@pytest.mark.parametrize("how", ["files", "data", "insecure", "another name"])
def test_client_certificates_from_files_and_from_data(tmp_path, certificates, how):
    ca, certificate, key = certificates.authority, certificates.certificate(ADMIN.file), certificates.key(ADMIN.file)
    cluster = {"certificate-authority": str(ca)}
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    if how == "data":
        cluster = {"certificate-authority-data": inline(ca)}
        user = {"client-certificate-data": inline(certificate), "client-key-data": inline(key)}
    if how == "insecure":
        cluster = {"insecure-skip-tls-verify": True}
    if how == "another name":
        cluster["tls-server-name"] = "kubernetes.default.svc"

    def make(port):
        told = config(cluster={"server": f"https://127.0.0.1:{port}", **cluster}, user=user)
        return find_connection(write(tmp_path / "config", told))

    assert asyncio.run(Secure(certificates).ask(make)) == [ADMIN.user]


@pytest.mark.parametrize(
    "cluster", [{}, {"tls-server-name": "elsewhere.example"}], ids=["unknown authority", "wrong name"]
)
def test_a_certificate_that_is_not_trusted(tmp_path, certificates, cluster):
    if cluster:
        cluster = {**cluster, "certificate-authority": str(certificates.authority)}

    def make(port):
        told = config(cluster={"server": f"https://127.0.0.1:{port}", **cluster})
        return find_connection(write(tmp_path / "config", told))

    with pytest.raises(Unreachable, match=r"certificate that is not trusted .* check certificate-authority"):
        asyncio.run(Secure(certificates).ask(make))


def test_a_certificate_printed_by_a_plugin_is_shown(tmp_path, certificates):
    printed = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {
            "clientCertificateData": certificates.certificate(ADMIN.file).read_text(encoding="ascii"),
            "clientKeyData": certificates.key(ADMIN.file).read_text(encoding="ascii"),
        },
    }
    (tmp_path / "printed").write_text(json.dumps(printed), encoding="utf-8")
    told = {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [str(tmp_path / "printed")]}

    def make(port):
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(certificates.authority)}
        return find_connection(write(tmp_path / "config", config(cluster=cluster, user={"exec": told})))

    assert asyncio.run(Secure(certificates).ask(make)) == [ADMIN.user]
