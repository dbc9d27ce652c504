import hashlib
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from foresail.errors import InputError, OptionError
from foresail.traces.openb.get import (
    OPENB_FILES,
    OPENB_NODES,
    Fetched,
    PublicFile,
    choose,
    get_files,
    openb_folder,
)

BODY = bytes(range(256)) * 1000
FILE = PublicFile("pods.csv", len(BODY), hashlib.sha256(BODY).hexdigest())


class Site:
    """A real web server with one file, and a list of how it misbehaves, one entry a request."""

    def __init__(self):
        self.body = BODY
        self.ranges = True
        self.wrong_range = False
        self.cuts = []
        """Send only so many bytes of the answer, then close the connection."""
        self.statuses = []
        """Answer with these instead."""
        self.requests = []
        self.logins = []
        self.url = ""

    def answer(self, handler):
        asked = handler.headers.get("Range")
        self.logins.append(handler.headers.get("Authorization"))
        self.requests.append((handler.path, asked))
        if self.statuses:
            handler.send_error(self.statuses.pop(0))
            return
        if handler.path != "/base/pods.csv":
            handler.send_error(404)
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and self.ranges else 0
        if start >= len(self.body):
            handler.send_error(416)
            return
        handler.send_response(206 if asked and self.ranges else 200)
        if asked and self.ranges:
            said = 0 if self.wrong_range else start
            handler.send_header("Content-Range", f"bytes {said}-{len(self.body) - 1}/{len(self.body)}")
        handler.send_header("Content-Length", str(len(self.body) - start))
        handler.end_headers()
        answer = self.body[start:]
        handler.wfile.write(answer[: self.cuts.pop(0)] if self.cuts else answer)


@pytest.fixture
def site():
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            site.answer(self)

        def log_message(self, *_):
            pass

    with serve(Handler) as port:
        site.url = f"http://127.0.0.1:{port}/base"
        yield site


@contextmanager
def serve(handler):
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def fetch(site, tmp_path, pauses):
    def fetch(mirror=None, **more):
        return get_files([FILE], tmp_path / "to", mirror=mirror or site.url, pause=pauses.append, **more)

    return fetch


@pytest.fixture
def to(tmp_path):
    folder = tmp_path / "to"
    folder.mkdir()
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_file_is_fetched_once(fetch, site, to):
    assert fetch() == Fetched(to, ("pods.csv",), ())
    assert contents(to) == {"pods.csv": BODY}
    assert fetch() == Fetched(to, (), ("pods.csv",))
    assert site.requests == [("/base/pods.csv", None)]


def test_a_cut_connection_goes_on_where_it_stopped(fetch, site, to, pauses):
    site.cuts = [100_000, 50_000]
    fetch()
    assert contents(to) == {"pods.csv": BODY}
    assert [asked for _, asked in site.requests] == [None, "bytes=100000-", "bytes=150000-"]
    assert pauses == [1.0, 1.0]  # every try brought new bytes, so patience starts anew


def test_an_old_part_is_completed(fetch, site, to):
    (to / "pods.csv.part").write_bytes(BODY[:7])
    fetch()
    assert contents(to) == {"pods.csv": BODY}
    assert [asked for _, asked in site.requests] == ["bytes=7-"]


def test_a_server_without_ranges_starts_over(fetch, site, to):
    site.ranges = False
    (to / "pods.csv.part").write_bytes(b"x" * 7)
    fetch()
    assert contents(to) == {"pods.csv": BODY}
    assert [asked for _, asked in site.requests] == ["bytes=7-"]


def test_a_server_that_sends_another_range_is_asked_for_all(fetch, site, to):
    site.wrong_range = True
    (to / "pods.csv.part").write_bytes(BODY[:7])
    fetch()
    assert contents(to) == {"pods.csv": BODY}
    assert [asked for _, asked in site.requests] == ["bytes=7-", None]


@pytest.mark.parametrize("part", [b"x" * 7, b"x" * len(BODY), b"x" * (len(BODY) + 1)], ids=["short", "full", "long"])
def test_a_part_of_another_file_is_thrown_away(fetch, site, to, part):
    (to / "pods.csv.part").write_bytes(part)
    fetch()
    assert contents(to) == {"pods.csv": BODY}
    assert site.requests[-1] == ("/base/pods.csv", None)


def test_a_wrong_file_under_the_right_name_is_replaced(fetch, to):
    (to / "pods.csv").write_bytes(b"old")
    assert fetch() == Fetched(to, ("pods.csv",), ())
    assert contents(to) == {"pods.csv": BODY}


def test_wrong_bytes_are_removed_and_both_sums_named(fetch, site, to):
    site.body = b"y" * len(BODY)
    with pytest.raises(InputError) as error:
        fetch()
    assert hashlib.sha256(site.body).hexdigest() in str(error.value)
    assert FILE.sha256 in str(error.value)
    assert "--mirror URL or --from DIR" in str(error.value)
    assert contents(to) == {}


def test_more_bytes_than_the_file_has_are_not_taken(fetch, site, to):
    site.body = BODY + b"more"
    fetch()
    assert contents(to) == {"pods.csv": BODY}


def test_a_missing_file_is_not_asked_for_twice(fetch, site, pauses, to):
    with pytest.raises(
        InputError, match=r"pods\.csv: cannot be fetched from .*/other/pods\.csv \(HTTP 404 Not Found\)"
    ):
        fetch(site.url.replace("base", "other"))
    assert (len(site.requests), pauses) == (1, [])
    assert contents(to) == {}


def test_a_busy_server_is_asked_again_with_growing_pauses(fetch, site, pauses, to):
    site.statuses = [503, 429, 500]
    fetch()
    assert pauses == [1.0, 2.0, 4.0]
    assert contents(to) == {"pods.csv": BODY}


def test_patience_ends_and_the_part_is_kept(fetch, site, pauses, to):
    site.cuts = [1000, 0, 0, 0, 0, 0]
    with pytest.raises(InputError, match=r"ended after 1000 of 256000 bytes \(the connection was closed\)"):
        fetch()
    assert pauses == [1.0, 2.0, 4.0, 8.0]
    assert contents(to) == {"pods.csv.part": BODY[:1000]}


def test_a_shorter_file_on_the_mirror_ends_too(fetch, site, to):
    site.body = BODY[:-1]
    with pytest.raises(InputError, match=r"of 256000 bytes"):
        fetch()
    assert "pods.csv" not in contents(to)


def test_an_interrupt_keeps_the_part(fetch, site, to):
    def interrupt(file, done_bytes, /):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(progress=interrupt)
    kept = contents(to)["pods.csv.part"]
    assert 0 < len(kept) < len(BODY)
    assert BODY.startswith(kept)
    fetch()
    assert contents(to) == {"pods.csv": BODY}


def test_progress_ends_with_the_whole_file(fetch):
    seen = []
    fetch(progress=lambda file, done, /: seen.append((file.name, done)))
    assert seen[-1] == ("pods.csv", len(BODY))
    assert [done for _, done in seen] == sorted(done for _, done in seen)


def test_a_folder_can_be_the_mirror(fetch, tmp_path, to, pauses):
    source = tmp_path / "source folder"
    source.mkdir()
    with pytest.raises(InputError, match=r"cannot be fetched from file://.*--from DIR"):
        fetch(source.as_uri())
    (source / "pods.csv").write_bytes(BODY)
    (to / "pods.csv.part").write_bytes(BODY[:10])
    assert fetch(source.as_uri()) == Fetched(to, ("pods.csv",), ())
    assert contents(to) == {"pods.csv": BODY}
    (to / "pods.csv").unlink()
    (source / "pods.csv").write_bytes(BODY[:10])
    with pytest.raises(InputError, match="ended after 10 of 256000 bytes"):
        fetch(source.as_uri())
    assert pauses == []


@pytest.mark.parametrize("mirror", ["ftp://example.org/x", "example.org", "data:text/plain,x", ""])
def test_other_schemes_are_refused(tmp_path, mirror):
    with pytest.raises(OptionError, match="starts with https://, http:// or file://"):
        get_files([FILE], tmp_path, mirror=mirror)


def test_a_redirect_to_another_scheme_is_not_followed(tmp_path):
    class Redirect(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname")
            self.end_headers()

        def log_message(self, *_):
            pass

    with serve(Redirect) as port, pytest.raises(InputError, match="HTTP 302"):
        get_files([FILE], tmp_path, mirror=f"http://127.0.0.1:{port}")
    assert contents(tmp_path) == {}


def test_a_folder_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be made: .*; choose another folder with --to"):
        get_files([FILE], tmp_path / "file" / "to")


def test_traces_are_chosen_by_short_name_with_the_node_lists():
    assert choose([]) == OPENB_FILES
    assert [file.name for file in choose(["gpuspec33", "openb_pod_list_default.csv"])] == [
        "openb_node_list_all_node.csv",
        "openb_node_list_gpu_node.csv",
        "openb_pod_list_default.csv",
        "openb_pod_list_gpuspec33.csv",
    ]
    with pytest.raises(OptionError, match=r'no openb trace "gpuspec34"; did you mean "gpuspec\d\d"\?'):
        choose(["gpuspec34"])


def test_the_data_folder_goes_before_the_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("FORESAIL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert openb_folder() is None
    cached = tmp_path / "cache" / "foresail" / "traces" / "openb"
    stated = tmp_path / "data" / "openb" / "csv"
    for folder in (cached, stated):
        folder.mkdir(parents=True)
        (folder / OPENB_NODES).write_text("")
    assert openb_folder() == cached
    monkeypatch.setenv("FORESAIL_DATA", str(tmp_path / "data"))
    assert openb_folder() == stated


@pytest.mark.data
def test_the_pinned_sums_are_those_of_the_public_files(openb_csv):
    found = [
        PublicFile(path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(openb_csv.glob("openb_*.csv"))
    ]
    assert set(found) <= set(OPENB_FILES)
    assert len(OPENB_FILES) == 26


def test_a_password_in_the_mirrors_address_is_sent_and_never_shown(site, fetch, to):
    secret = site.url.replace("http://", "http://jane:p%40ss@")
    assert fetch(secret).fetched == ("pods.csv",)
    assert site.logins == ["Basic amFuZTpwQHNz"]
    (to / "pods.csv").unlink()
    for body, statuses in ((b"short", []), (bytes(len(BODY)), []), (BODY, [404]), (BODY, [503] * 9)):
        site.body, site.statuses = body, statuses
        with pytest.raises(InputError) as told:
            fetch(secret)
        assert site.url in str(told.value)
        assert "p%40ss" not in str(told.value)
        assert "jane" not in str(told.value)
    with pytest.raises(InputError) as told:
        fetch("file://jane:p%40ss@/nowhere")
    assert "p%40ss" not in str(told.value)
    for wrong in ("ftp://jane:p%40ss@host/x", "jane:p%40ss@host"):
        with pytest.raises(OptionError, match="give an address that starts with https://") as told:
            fetch(wrong)
        assert "p%40ss" not in str(told.value)
        assert "host" in str(told.value)


def test_a_redirect_does_not_carry_the_password_on(site, fetch):
    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            self.send_header("Location", f"{site.url}/pods.csv")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with serve(Elsewhere) as port:
        assert fetch(f"http://jane:secret@127.0.0.1:{port}").fetched == ("pods.csv",)
    assert site.logins == [None]
