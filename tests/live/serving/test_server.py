"""What a server is refused before it begins, how it waits for its end, and that nothing goes on afterwards."""

import asyncio

import pytest

from foresail.errors import OptionError, PolicyError
from foresail.lab.certificates import ADMIN, Certificates
from foresail.live.serving.gathering import Gathered
from foresail.live.serving.server import ServerSettings, check_tls_files, first_of


class Story:
    """Tasks that go on for ever, one that may fail, and how each of them ended."""

    def __init__(self):
        self.log = []
        self.fails = asyncio.Event()
        self.tasks = [asyncio.create_task(self.go_on(name)) for name in ("a", "b")]
        self.tasks.append(asyncio.create_task(self.fail()))

    async def go_on(self, name):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.log.append(f"{name} ended")
            raise

    async def fail(self):
        await self.fails.wait()
        raise PolicyError("it broke")


def soon(what):
    asyncio.get_running_loop().call_later(0.01, what)


def test_files_that_are_no_certificate_and_its_key_are_told_before_anything_begins(tmp_path):
    made = Certificates(tmp_path)
    made.make_authority()
    made.make(ADMIN)
    certificate, key = made.certificate(ADMIN.file), made.key(ADMIN.file)
    check_tls_files(ServerSettings())
    check_tls_files(ServerSettings(certificate=certificate, key=key))
    locked = tmp_path / "locked.key"
    locked.write_bytes(key.read_bytes().replace(b"BEGIN PRIVATE", b"BEGIN ENCRYPTED PRIVATE"))
    for wrong in ((key, certificate), (certificate, made.authority_key), (certificate, locked)):
        with pytest.raises(OptionError, match=r"the TLS files cannot be used .*; give PEM files, unencrypted"):
            check_tls_files(ServerSettings(certificate=wrong[0], key=wrong[1]))


def test_waiting_for_the_first_lets_the_others_go_on():
    async def live():
        story, stop = Story(), asyncio.Event()
        soon(stop.set)
        await first_of(story.tasks, stop)
        assert (story.log, [task.done() for task in story.tasks]) == ([], [False] * 3)
        soon(story.fails.set)
        with pytest.raises(PolicyError, match="it broke"):
            await first_of(story.tasks, asyncio.Event())
        assert (story.log, [task.done() for task in story.tasks]) == ([], [False, False, True])

    asyncio.run(live())


class Wire:
    """A transport that keeps what it is given."""

    def __init__(self):
        self.sent = []

    def write(self, data):
        self.sent.append(data)

    def close(self):
        self.sent.append("closed")


def test_what_is_written_in_one_go_is_sent_at_once():
    async def talk():
        wire = Wire()
        gathered = Gathered(wire)
        gathered.write(b"head ")
        gathered.write(b"body")
        await asyncio.sleep(0)
        gathered.write(b"next")
        await asyncio.sleep(0)
        gathered.write(b"last")
        gathered.close()
        await asyncio.sleep(0)
        assert wire.sent == [b"head body", b"next", b"last", "closed"]

    asyncio.run(talk())
