"""Progress over real HTTP: who may report for whom, what the answer asks for, and that nobody holds the server up."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from tests.live.telemetry.reporting import NOW_S, Reporting, counts

from foresail.kube.api.errors import Unreachable
from foresail.lab.certificates import Certificates, Identity
from foresail.live.serving.limits import Guarded
from foresail.live.serving.server import ServerSettings, listen, serve
from foresail.live.telemetry.checkpoints import ReportedCheckpoints
from foresail.live.telemetry.http import ProgressReceiver
from foresail.live.telemetry.tokens import ListedTokens, PodTokens

JOB = "team/train"
Answer = tuple[int, Any]


class Api:
    """The part of an API server that reviews tokens; what it says is the test's."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.status: dict[str, Any] = {}
        self.fails = False

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path == "/apis/authentication.k8s.io/v1/tokenreviews"
        if self.fails:
            raise Unreachable("POST …: cannot be connected to")
        self.asked.append(body)
        return {"status": self.status}

    def knows(self, uid: str, **changes: Any) -> None:
        extra = {"authentication.kubernetes.io/pod-uid": [uid]} if uid else {}
        user = {"username": "system:serviceaccount:team:default", "extra": extra}
        self.status = {"authenticated": True, "audiences": ["foresail-progress"], "user": user, **changes}


def token(uid: str, *, expires_s: float = NOW_S + 3600, audience: object = ("foresail-progress",)) -> str:
    """What a service account's token looks like; nobody has signed it."""
    claims = {"aud": audience, "exp": expires_s, "kubernetes.io": {"pod": {"uid": uid}}}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{body}.signature"


class Received(Reporting):
    """A receiver on a real socket."""

    def __init__(self, *, tokens: str = "", near: bool = True, tmp_path: Path | None = None) -> None:
        super().__init__()
        self.api = Api()
        self.leading = True
        self.tokens: Any = PodTokens(self.api, self.jobs, open_to_all=near, unix_s=lambda: self.now_s)
        if tmp_path is not None:
            self.file = tmp_path / "tokens"
            self.file.write_text(tokens)
            self.tokens = ListedTokens(self.file, self.jobs)
        self.receiver = ProgressReceiver(self.tokens, self.store, self.clock, self.metrics, leads=lambda: self.leading)
        self.checkpoints = ReportedCheckpoints(self.store, [self.receiver], self.metrics)
        self.url = ""

    @asynccontextmanager
    async def serving(self, settings: ServerSettings | None = None) -> AsyncIterator[aiohttp.ClientSession]:
        settings = settings or ServerSettings(port=0)
        at = listen(settings)
        self.url = settings.url_of(at)
        task = asyncio.create_task(serve(self.receiver, at, settings, guarded=True))
        try:
            async with aiohttp.ClientSession() as session:
                yield session
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def post(self, session: aiohttp.ClientSession, body: Any, **more: Any) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        shown = more.pop("token", "")
        headers = {"Authorization": f"Bearer {shown}"} if shown else {}
        async with session.post(f"{self.url}/v1/progress", data=data, headers=headers, **more) as answer:
            return answer.status, await answer.json()


def row(ago_s: float, step: int, note: str = "") -> dict[str, Any]:
    return {"time": NOW_S - ago_s, "step": step, "total": 1000, "loss": 0.5, "accuracy": None, "note": note}


def story(one: Received, tell: Callable[[aiohttp.ClientSession], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), one.serving() as session:
            await tell(session)

    asyncio.run(run())


def report(*rows: dict[str, Any], job: str = JOB) -> dict[str, Any]:
    return {"job": job, "rows": list(rows)}


@pytest.fixture
def one() -> Received:
    received = Received()
    received.uid = received.run("pod-1", job="train", began_s=NOW_S - 1000)
    return received


def test_rows_count_and_the_answer_asks_for_a_checkpoint_until_it_is_confirmed(one):
    async def tell(session: aiohttp.ClientSession) -> None:
        assert not one.checkpoints.ask(JOB, "r1"), "nobody knows whether it listens"
        assert await one.post(session, report(row(90, 10), row(80, 20))) == (200, {"checkpoint": ""})
        assert one.step(JOB) == 20
        assert one.checkpoints.ask(JOB, "r1")
        assert await one.post(session, report(row(70, 30))) == (200, {"checkpoint": "r1"})
        assert await one.post(session, report()) == (200, {"checkpoint": "r1"})
        assert await one.post(session, report(row(60, 35, "checkpoint:r1"))) == (200, {"checkpoint": ""})
        assert one.checkpoints.confirmed_step(JOB, "r1") == 35
        one.checkpoints.ask(JOB, "r2")
        one.checkpoints.withdraw(JOB, "r2")
        assert await one.post(session, report()) == (200, {"checkpoint": ""})
        one.clock.advance_to(601.0)
        assert not one.checkpoints.ask(JOB, "r3"), "it was not heard of for long"

    story(one, tell)
    assert one.counted() == {("http", "taken"): 4}


def test_damaged_rows_are_told_and_the_others_of_the_request_count(one):
    async def tell(session: aiohttp.ClientSession) -> None:
        body = b'{"job": "team/train", "rows": [%s, {"time": %d, "step": 20, "loss": NaN}, 7, null, %s]}' % (
            json.dumps(row(90, 10)).encode(),
            NOW_S - 85,
            json.dumps(row(80, 30)).encode(),
        )
        with structlog.testing.capture_logs() as logs:
            assert await one.post(session, body) == (200, {"checkpoint": ""})
        assert one.step(JOB) == 30
        assert one.counted() == {("http", "taken"): 2, ("http", "damaged"): 3}
        assert [(log["job"], log["why"]) for log in logs] == [(JOB, "loss is nan, which is no finite number")]

    story(one, tell)


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"{", 400, "the body is no JSON"),
        (b"\0" * 100, 400, "the body is no JSON"),
        (b"[" * 100_000, 400, "the body is no JSON"),
        (b'{"job": 1' + b"0" * 5000 + b"}", 400, "the body is no JSON"),
        (b"[]", 400, "the body is no JSON object"),
        ({"job": 3}, 400, 'write {"job": "NAME", "rows": […]} with at most 1000 rows'),
        ({"job": "x" * 600}, 400, 'write {"job": "NAME", "rows": […]} with at most 1000 rows'),
        ({"job": JOB, "rows": {}}, 400, 'write {"job": "NAME", "rows": […]} with at most 1000 rows'),
        ({"job": JOB, "rows": [1] * 1001}, 400, 'write {"job": "NAME", "rows": […]} with at most 1000 rows'),
        ({"job": "team/other"}, 404, "no running pod of namespace team is, or has the label of, a job 'other'"),
        ({"job": "train"}, 404, "no running pod of namespace default is, or has the label of, a job 'train'"),
        (b"x" * 300_000, 413, "the body is longer than 262144 bytes; send fewer rows at once"),
    ],
)
def test_what_is_no_report_is_refused_with_the_reason(one, body, status, why):
    async def tell(session: aiohttp.ClientSession) -> None:
        assert await one.post(session, body) == (status, {"error": why})

    story(one, tell)
    assert one.store.of(JOB) is None


def test_only_posts_to_one_path_are_answered(one):
    async def tell(session: aiohttp.ClientSession) -> None:
        async with session.get(f"{one.url}/v1/progress") as answer:
            assert (answer.status, await answer.json()) == (405, {"error": "only POST"})
        async with session.post(f"{one.url}/metrics") as answer:
            assert (answer.status, await answer.json()) == (404, {"error": "there is /v1/progress"})
        assert counts(one.metrics.requests) == {("405",): 1, ("404",): 1}

    story(one, tell)


def test_a_replica_that_does_not_lead_sends_reports_away(one):
    async def tell(session: aiohttp.ClientSession) -> None:
        one.leading = False
        async with session.post(f"{one.url}/v1/progress", json=report(row(90, 10))) as answer:
            assert (answer.status, answer.headers["Retry-After"], answer.headers["Connection"]) == (503, "1", "close")
            assert await answer.json() == {"error": "another replica leads; send it there"}
        one.leading = True
        assert (await one.post(session, report(row(90, 10))))[0] == 200

    story(one, tell)


def test_a_job_that_reports_too_often_is_slowed_down_and_no_other(one):
    one.run("pod-2", job="calm")

    async def tell(session: aiohttp.ClientSession) -> None:
        answers = [(await one.post(session, report()))[0] for _ in range(32)]
        assert answers == [200] * 30 + [429] * 2
        assert (await one.post(session, report(job="team/calm")))[0] == 200
        one.clock.advance_to(0.2)
        assert [(await one.post(session, report()))[0] for _ in range(2)] == [200, 429]

    story(one, tell)


# --- tokens in a file ------------------------------------------------------------------------------------------------


def test_tokens_of_a_file_are_for_a_namespace_or_for_all_and_the_file_may_change(tmp_path):
    one = Received(tokens="# ours\nteam secret-1\n\nsecret-2\n", tmp_path=tmp_path)
    one.run("pod-1", job="train")
    one.run("pod-1", namespace="other", job="train")

    async def tell(session: aiohttp.ClientSession) -> None:
        async def status(shown: str, job: str) -> int:
            return (await one.post(session, report(job=job), token=shown))[0]

        assert [await status("secret-1", job) for job in ("train", JOB, "other/train")] == [200, 200, 403]
        assert [await status("secret-2", job) for job in ("train", JOB, "other/train")] == [404, 200, 200]
        assert [await status(shown, JOB) for shown in ("", "secret-3", "secret", "ours", "team")] == [401] * 5
        one.file.write_text("team secret-10\n")
        assert [await status(shown, JOB) for shown in ("secret-1", "secret-10")] == [401, 200]
        one.file.unlink()
        assert await status("secret-10", JOB) == 503
        assert "cannot be read" in one.receiver.problem
        one.file.write_text("team secret-1\n")
        assert (await status("secret-1", JOB), one.receiver.problem) == (200, "")

    story(one, tell)


# --- tokens of pods --------------------------------------------------------------------------------------------------


def test_a_pods_token_is_reviewed_once_and_reports_for_its_own_job_alone(one):
    one.tokens._open_to_all = False
    one.run("pod-2", job="other")

    async def tell(session: aiohttp.ClientSession) -> None:
        one.api.knows(one.uid)
        shown = token(one.uid)
        for job in ("train", "", JOB, "pod-1"):
            assert await one.post(session, report(job=job), token=shown) == (200, {"checkpoint": ""})
        for job in ("other", "elsewhere/train", "team/other", "pod-2"):
            why = "this token is of pod team/pod-1, which may report as train or pod-1"
            assert await one.post(session, report(row(90, 10), job=job), token=shown) == (403, {"error": why})
        assert one.store.of("team/other") is None
        (asked,) = one.api.asked
        assert asked["kind"] == "TokenReview"
        assert asked["spec"] == {"token": shown, "audiences": ["foresail-progress"]}
        assert (await one.post(session, report()))[0] == 401, "who shows nothing may do nothing"

    story(one, tell)


def test_a_token_ends_with_its_pod_and_with_its_time(one):
    async def tell(session: aiohttp.ClientSession) -> None:
        one.api.knows(one.uid)
        shown = token(one.uid)
        assert (await one.post(session, report(), token=shown))[0] == 200
        one.now_s = NOW_S + 3599
        assert (await one.post(session, report(), token=shown))[0] == 200
        one.now_s = NOW_S + 3601
        status, said = await one.post(session, report(), token=shown)
        assert (status, said["error"]) == (401, "the token has expired; read its file anew before each request")
        assert len(one.api.asked) == 1
        renewed = token(one.uid, expires_s=NOW_S + 7200)
        assert (await one.post(session, report(), token=renewed))[0] == 200
        one.end(one.uid)
        assert (await one.post(session, report(), token=renewed))[0] == 403
        assert len(one.api.asked) == 2

    story(one, tell)


@pytest.mark.parametrize(
    ("shown", "status", "why"),
    [
        ("nonsense", 401, "send the pod's projected token"),
        ("a.b.c", 401, "send the pod's projected token"),
        ("a.bnVsbA.c", 401, "send the pod's projected token"),
        ("a." + "W" * 20_000 + ".c", 401, "send the pod's projected token"),
        (token("uid-team-pod-1", audience="https://kubernetes.default.svc"), 401, "is not for the audience"),
        (token("uid-team-pod-1", expires_s=NOW_S - 1), 401, "the token has expired"),
        (token("somebody"), 403, "the pod of this token does not run"),
        (token("uid-team-strange"), 403, "the pod of this token does not run"),
    ],
)
def test_what_need_not_be_reviewed_is_turned_away_at_once(one, shown, status, why):
    one.run("strange", schedulerName="default-scheduler")

    async def tell(session: aiohttp.ClientSession) -> None:
        found, said = await one.post(session, report(), token=shown)
        assert (found, said["error"][: len(why)]) == (status, why) or (found == status and why in said["error"])
        assert one.api.asked == []

    story(one, tell)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"authenticated": False, "error": "invalid bearer token"}, "does not know this token (invalid bearer token)"),
        ({"authenticated": "true"}, "does not know this token"),
        ({"audiences": ["https://kubernetes.default.svc"]}, "for the audience foresail-progress"),
        ({"audiences": None}, "for the audience foresail-progress"),
        ({"user": {"username": "system:serviceaccount:team:default"}}, "bound to no pod"),
        ({"user": {"extra": {"authentication.kubernetes.io/pod-uid": []}}}, "bound to no pod"),
    ],
)
def test_a_token_that_the_api_server_does_not_vouch_for_is_refused_and_asked_about_again_later(one, changes, why):
    async def tell(session: aiohttp.ClientSession) -> None:
        one.api.knows(one.uid, **changes)
        for _ in range(3):
            status, said = await one.post(session, report(row(90, 10)), token=token(one.uid))
            assert status == 401
            assert why in said["error"]
        assert len(one.api.asked) == 1
        one.api.knows(one.uid)
        one.now_s = NOW_S + 31
        assert (await one.post(session, report(), token=token(one.uid)))[0] == 200

    story(one, tell)
    assert one.step(JOB) is None


def test_it_is_the_reviewed_pod_that_counts_and_not_the_claimed_one(one):
    other = one.run("pod-2", namespace="other", job="train")

    async def tell(session: aiohttp.ClientSession) -> None:
        one.api.knows(other)
        forged = token(one.uid)
        assert (await one.post(session, report(row(90, 10), job=JOB), token=forged))[0] == 403
        assert (await one.post(session, report(row(90, 10), job="train"), token=forged))[0] == 200
        assert (one.step(JOB), one.step("other/train")) == (None, 10)

    story(one, tell)


def test_an_api_server_that_does_not_answer_is_a_problem_and_no_verdict(one):
    async def tell(session: aiohttp.ClientSession) -> None:
        one.api.fails = True
        assert await one.post(session, report(), token=token(one.uid)) == (
            503,
            {"error": "tokens cannot be checked now"},
        )
        assert "cannot be connected to" in one.receiver.problem
        one.api.fails = False
        one.api.knows(one.uid)
        assert (await one.post(session, report(), token=token(one.uid)))[0] == 200
        assert one.receiver.problem == ""

    story(one, tell)


def test_new_tokens_are_reviewed_at_a_pace(one):
    async def tell(session: aiohttp.ClientSession) -> None:
        one.api.knows("", authenticated=False)
        answers = [
            (await one.post(session, report(), token=token(one.uid, expires_s=NOW_S + n)))[0] for n in range(1, 400)
        ]
        assert set(answers) == {401, 429}
        assert len(one.api.asked) == answers.count(401)

    story(one, tell)


# --- connections -----------------------------------------------------------------------------------------------------


def connect(one: Received) -> Coroutine[Any, Any, tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    return asyncio.open_connection("127.0.0.1", int(one.url.rpartition(":")[2]))


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the other side has gone without a word, once it has."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


HEAD = b"POST /v1/progress HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST /v1/prog", HEAD + b"Content-Length: 10\r\n\r\n{", HEAD + b"X: " + b"x" * 10],
    ids=["nothing", "half a line", "half a body", "half a head"],
)
def test_who_sends_no_whole_request_is_not_waited_for(one, sent, monkeypatch):
    monkeypatch.setattr(Guarded, "whole_within_s", 0.2)

    async def tell(_session: aiohttp.ClientSession) -> None:
        reader, writer = await connect(one)
        writer.write(sent)
        assert await ended(reader)
        writer.close()

    story(one, tell)


def test_a_head_without_end_is_cut_off(one):
    async def tell(session: aiohttp.ClientSession) -> None:
        for sent in (HEAD, b"POST /" + b"x" * 40_000):
            reader, writer = await connect(one)
            writer.write(sent + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(40)))
            assert await ended(reader)
            writer.close()
        assert (await one.post(session, report()))[0] == 200

    story(one, tell)


def test_connections_beyond_the_limit_are_cut_off_and_the_others_go_on(one, monkeypatch):
    monkeypatch.setattr(Guarded, "most_connections", 3)

    async def tell(session: aiohttp.ClientSession) -> None:
        assert (await one.post(session, report()))[0] == 200
        held = [await connect(one) for _ in range(2)]
        reader, writer = await connect(one)
        assert await ended(reader)
        writer.close()
        assert (await one.post(session, report()))[0] == 200
        for _, writer in held:
            writer.close()

    story(one, tell)


def test_a_connection_is_kept_for_the_next_report(one, monkeypatch):
    monkeypatch.setattr(Guarded, "whole_within_s", 0.2)

    async def tell(session: aiohttp.ClientSession) -> None:
        reader, writer = await connect(one)
        for step in (1, 2):
            body = json.dumps(report(row(90 - step, step))).encode()
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await reader.readuntil(b'{"checkpoint": ""}')
            await asyncio.sleep(0.4)
        writer.close()
        assert one.step(JOB) == 2

    story(one, tell)


def test_it_speaks_tls_with_the_programs_certificate(one, tmp_path):
    made = Certificates(tmp_path)
    made.make_authority()
    made.make(Identity("own", "own", addresses=("IP:127.0.0.1",)))

    async def run() -> None:
        settings = ServerSettings(port=0, certificate=made.certificate("own"), key=made.key("own"))
        trust = ssl.create_default_context(cafile=str(made.authority))
        async with one.serving(settings) as session:
            assert one.url.startswith("https://")
            assert (await one.post(session, report(row(90, 10)), ssl=trust))[0] == 200

    asyncio.run(run())
    assert one.step(JOB) == 10
