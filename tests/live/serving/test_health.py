"""The probes and figures of a running scheduler, asked as a server asks an ASGI application."""

import asyncio
import hmac
from pathlib import Path

import pytest

from foresail.errors import OptionError
from foresail.live.serving import health as module
from foresail.live.serving.health import Health
from foresail.live.serving.server import ServerSettings, check_metrics, parse_address


def ask(health, path, method="GET", **headers):
    """Status, content type, content length and body of an answer."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        raise AssertionError("nothing of the request's body is read")

    given = [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": given}
    asyncio.run(health(scope, receive, send))
    start, end = sent
    assert (start["type"], end["type"]) == ("http.response.start", "http.response.body")
    found = dict(start["headers"])
    return start["status"], found[b"content-type"].decode(), int(found[b"content-length"]), end["body"].decode()


def make(alive="", ready="", token=None):
    return Health(
        alive={"decisions": lambda: alive}, ready={"watches": lambda: ready}, metrics=lambda: b"n 1\n", token=token
    )


ANYWHERE = "0.0.0.0"  # noqa: S104 - nothing listens there
TEXT = "text/plain; charset=utf-8"


def test_what_works_is_listed():
    assert ask(make(), "/healthz") == (200, TEXT, 14, "[+] decisions\n")
    assert ask(make(), "/readyz") == (200, TEXT, 26, "[+] decisions\n[+] watches\n")
    assert ask(make(), "/metrics") == (200, "text/plain; version=0.0.4; charset=utf-8", 4, "n 1\n")


def test_what_is_wrong_is_named_and_only_a_broken_loop_is_unhealthy():
    late = make(ready="Pod: not listed yet")
    assert ask(late, "/healthz")[0] == 200
    assert ask(late, "/readyz")[::3] == (503, "[+] decisions\n[-] watches: Pod: not listed yet\n")
    broken = make(alive="KeyError: 'x'")
    assert ask(broken, "/healthz")[::3] == (503, "[-] decisions: KeyError: 'x'\n")
    assert ask(broken, "/readyz")[::3] == (503, "[-] decisions: KeyError: 'x'\n[+] watches\n")


def test_head_says_how_long_the_answer_would_be():
    assert ask(make(), "/readyz", "HEAD") == (200, TEXT, 26, "")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(method):
    assert ask(make(), "/healthz", method)[::3] == (405, "only GET and HEAD\n")


@pytest.mark.parametrize("path", ["/", "/healthz/", "/debug/pprof", ""])
def test_other_paths_name_the_ones_there_are(path):
    assert ask(make(), path)[::3] == (404, "there are /healthz, /readyz and /metrics\n")


def test_metrics_need_the_token_and_probes_do_not():
    health = make(token=lambda: "secret")
    assert ask(health, "/healthz")[0] == ask(health, "/readyz")[0] == 200
    assert ask(health, "/metrics", authorization="Bearer secret")[0] == 200
    for wrong in ("Bearer secre", "Bearer secret2", "bearer secret", "secret", "", "Basic secret", b"Bearer \xff"):
        status, _, _, body = ask(health, "/metrics", authorization=wrong)
        assert (status, body) == (401, "send the token as: Authorization: Bearer TOKEN\n")
    assert ask(health, "/metrics")[0] == 401


def test_tokens_are_compared_in_constant_time(monkeypatch):
    compared, in_constant_time = [], hmac.compare_digest

    def compare(one, other):
        compared.append((one, other))
        return in_constant_time(one, other)

    monkeypatch.setattr(module.hmac, "compare_digest", compare)
    assert ask(make(token=lambda: "secret"), "/metrics", authorization="Bearer x")[0] == 401
    assert compared == [(b"Bearer x", b"Bearer secret")]


def test_a_token_that_is_empty_lets_nobody_in():
    health = make(token=str)
    assert ask(health, "/metrics", authorization="Bearer ")[0] == 401


def test_a_token_file_that_went_away_is_told_and_one_that_came_back_is_read(tmp_path: Path):
    file = tmp_path / "token"
    health = make(token=lambda: file.read_text(encoding="utf-8").strip())
    assert ask(health, "/metrics", authorization="Bearer secret")[::3] == (
        503,
        "the file of --token-file cannot be read; write the token there again\n",
    )
    file.write_bytes(b"\xff\xfe")
    assert ask(health, "/metrics")[0] == 503
    file.write_text("secret\n")
    assert ask(health, "/metrics", authorization="Bearer secret")[0] == 200


@pytest.fixture
def files(tmp_path: Path):
    for name in ("crt", "key", "token"):
        (tmp_path / name).write_text("x")
    return tmp_path


def test_metrics_are_for_this_machine_unless_there_is_tls_and_a_token(files: Path):
    tls = {"certificate": files / "crt", "key": files / "key"}
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        check_metrics(ServerSettings(host=host), None)
    check_metrics(ServerSettings(host=ANYWHERE, **tls), files / "token")
    for settings, token in (
        (ServerSettings(host=ANYWHERE), None),
        (ServerSettings(host=ANYWHERE), files / "token"),
        (ServerSettings(host="10.0.0.5", **tls), None),
        (ServerSettings(host="foresail.example", **tls), None),
        (ServerSettings(host="::", **tls), None),
    ):
        with pytest.raises(OptionError, match="which other machines can reach; give --tls-cert, --tls-key and --token"):
            check_metrics(settings, token)


def test_files_that_are_missing_are_named(files: Path):
    with pytest.raises(OptionError, match="--tls-cert is given without --tls-key; TLS needs both"):
        check_metrics(ServerSettings(certificate=files / "crt"), None)
    with pytest.raises(OptionError, match="--tls-key is given without --tls-cert; TLS needs both"):
        check_metrics(ServerSettings(key=files / "key"), None)
    with pytest.raises(OptionError, match=r"--tls-key is .*none; there is no such file"):
        check_metrics(ServerSettings(certificate=files / "crt", key=files / "none"), None)
    with pytest.raises(OptionError, match=r"--token-file is .*none; there is no such file"):
        check_metrics(ServerSettings(), files / "none")


def test_addresses():
    assert parse_address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert parse_address("[::1]:0") == ("::1", 0)
    assert parse_address(":10359") == (ANYWHERE, 10359)
    for wrong in ("", "localhost", "localhost:", "localhost:http", "a:65536", "a:-1"):
        with pytest.raises(OptionError, match="write host and port, as in 127"):
            parse_address(wrong)
