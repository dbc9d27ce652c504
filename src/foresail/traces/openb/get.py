"""Fetches public traces, checks every byte, and goes on where an interrupted download stopped."""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from foresail.addresses import split_login, without_secret
from foresail.digest import sha256_of
from foresail.errors import InputError, OptionError, did_you_mean

OPENB_URL = "https://raw.githubusercontent.com/alibaba/clusterdata/master/cluster-trace-gpu-v2023/csv"
OPENB_NODES = "openb_node_list_gpu_node.csv"
"""The node list of the published experiments."""

_POD_LIST_PREFIX = "openb_pod_list_"
_CHUNK_BYTES = 1 << 16
_TIMEOUT_S = 30.0
_TRIES = 5
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP answers that may be different a moment later."""


@dataclass(frozen=True, slots=True)
class PublicFile:
    """A published file as it was when these sums were taken; its home has not changed it since."""

    name: str
    size_bytes: int
    sha256: str


OPENB_FILES = (
    PublicFile(
        "openb_node_list_all_node.csv", 52287, "5a85c2af79c66a1efff8bbcbda430400aae56d8431370d738480967e1a9c6b15"
    ),
    PublicFile(
        "openb_node_list_gpu_node.csv", 42353, "2beca64b4d3dfa342036a34b56a495c6cef9225db836c81f541282cb1df320b5"
    ),
    PublicFile("openb_pod_list_cpu0.csv", 499765, "1bc3fd9ee5c1468ccd018f624d9222746e08d59f963f66b925804734271c0eaa"),
    PublicFile("openb_pod_list_cpu037.csv", 518687, "8ed554026d041b15ff21ddc104d9a21dbd9a93c496262fa23ef7b5be27e220dc"),
    PublicFile("openb_pod_list_cpu050.csv", 525811, "747f43247bffc2b0bb081d7f61f0705ca8d390dafc0b647e642c92f3baf3ba1e"),
    PublicFile("openb_pod_list_cpu072.csv", 537576, "f8a2b031461b54d7b9f06d55473c2371eb3357b78a255c646bdca5e0833a8a2f"),
    PublicFile("openb_pod_list_cpu100.csv", 554709, "bec1c33fbdde61fd463877534ec79b393aec73e1cbb22d55fab9f166ac480982"),
    PublicFile("openb_pod_list_cpu200.csv", 622703, "b7e9d8a1a601da84d6e0b4110b19ef5001be5e4796d33e7b82f166ba95161f87"),
    PublicFile("openb_pod_list_cpu235.csv", 651171, "87bebd4d012faa8305ce1fd82737f51cf03361aac28b75d42e34aa656d7f4ee0"),
    PublicFile("openb_pod_list_cpu250.csv", 663708, "134c21ff96d57533df8a37b67632972884fec9396e77cd0898ddc370cc8e607d"),
    PublicFile("openb_pod_list_cpu300.csv", 710698, "76528825f40ee662cb098b3b6e683c1efd9f87a0c8af7e628df1f32c639636d1"),
    PublicFile(
        "openb_pod_list_default.csv", 575468, "1ee7ed79c27a3b0861cda8ddba86a004c6aba904caafa329a76ae93ca63834a8"
    ),
    PublicFile(
        "openb_pod_list_gpushare100.csv", 561220, "12dbc07d6a49bf8641e2275a2ff5bf7be74b5df7d148d531e135b140b95f9a3d"
    ),
    PublicFile(
        "openb_pod_list_gpushare20.csv", 574603, "9be2d0efb52e242c32e23dd184cc5fcc1983478c6c9c02cbb6b4b62925c0ffcd"
    ),
    PublicFile(
        "openb_pod_list_gpushare40.csv", 572662, "d83ce79a4eb6987524bedbb0c65e41aed3a36bf6c1b78b86234c3687a07e1d40"
    ),
    PublicFile(
        "openb_pod_list_gpushare60.csv", 566361, "d31809628128a1f24491086eda4af3e23882b9213d3ef57a56ee2d1af69492fe"
    ),
    PublicFile(
        "openb_pod_list_gpushare80.csv", 563740, "88b6649369ced40d0fde287d2498ea61ff4b05fccba8bdc95daf6042f2f8431e"
    ),
    PublicFile(
        "openb_pod_list_gpuspec05.csv", 577176, "8f1c0ef7e4e511e982bd2818898ba22ee6d273bf5fce124b7ace285b5928cf4e"
    ),
    PublicFile(
        "openb_pod_list_gpuspec10.csv", 579461, "2dc7e4cb9480484f08539720b433a9ec9ab5d76b396f3f7557c53a2ff78a7611"
    ),
    PublicFile(
        "openb_pod_list_gpuspec20.csv", 582612, "6b9b89ab8913c1c074e994e98f548cf1a872fc5f76f2442ca8cd514a478b00a9"
    ),
    PublicFile(
        "openb_pod_list_gpuspec25.csv", 584915, "9d030679a2ccd7e27a7ec9ff15baff34480d22a0012515691fc187e3f35ee68c"
    ),
    PublicFile(
        "openb_pod_list_gpuspec33.csv", 587467, "eca4f746db1e5b25864ad021b55ece3943e101a3ebd4574d09dcb95c46117652"
    ),
    PublicFile(
        "openb_pod_list_multigpu20.csv", 271530, "d9ec6f6c74fb980cc0b81239470c6353fceea077ea9abd610003b604c7cc2b01"
    ),
    PublicFile(
        "openb_pod_list_multigpu30.csv", 277920, "a5e479c6444b1d83eef848159cf00c3cfa13441b2d1e2c113c391b91f1cc5b11"
    ),
    PublicFile(
        "openb_pod_list_multigpu40.csv", 286202, "32c9e8731ca07ef96108aa65f2a289bb9aacb47f642ed9e3789f99b242df60eb"
    ),
    PublicFile(
        "openb_pod_list_multigpu50.csv", 297219, "206f2f5959db30ecb7c44e7f13197c8ec50b7a35558ad3777cc3662ef0fe5373"
    ),
)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one call did: files that were fetched now, and files that were there and right already."""

    folder: Path
    fetched: tuple[str, ...]
    present: tuple[str, ...]


def cache_folder() -> Path:
    """Where Foresail keeps what it can fetch or compute again."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(stated) if Path(stated).is_absolute() else Path.home() / ".cache"
    return base / "foresail"


def openb_cache() -> Path:
    return cache_folder() / "traces" / "openb"


def openb_folder() -> Path | None:
    """The folder with the openb traces: `$FORESAIL_DATA/openb/csv`, else what `trace get openb` fetched, else None."""
    stated = os.environ.get("FORESAIL_DATA")
    folders = [Path(stated) / "openb" / "csv"] if stated else []
    folders.append(openb_cache())
    return next((folder for folder in folders if (folder / OPENB_NODES).is_file()), None)


def choose(only: Sequence[str]) -> tuple[PublicFile, ...]:
    """The files for some traces, by short name (`default`), always with the node lists; all files for no names."""
    short = {file.name.removeprefix(_POD_LIST_PREFIX).removesuffix(".csv"): file for file in OPENB_FILES}
    for name in only:
        if name not in short and name not in {file.name for file in OPENB_FILES}:
            traces = [known for known, file in short.items() if file.name.startswith(_POD_LIST_PREFIX)]
            hint = did_you_mean(name, traces)
            raise OptionError(f'no openb trace "{name}"{hint} (there are {", ".join(traces)})')
    if not only:
        return OPENB_FILES
    wanted = {short[name].name if name in short else name for name in only}
    return tuple(file for file in OPENB_FILES if file.name in wanted or not file.name.startswith(_POD_LIST_PREFIX))


class Progress(Protocol):
    """Told how much of a file is there, in bytes."""

    def __call__(self, file: PublicFile, done_bytes: int, /) -> None: ...


def _unwatched(_file: PublicFile, _done_bytes: int, /) -> None:
    pass


def get_files(
    files: Sequence[PublicFile],
    to: Path,
    *,
    mirror: str = OPENB_URL,
    progress: Progress = _unwatched,
    pause: Callable[[float], None] = time.sleep,
) -> Fetched:
    """Fetch files from below a base address (https, http or file) into a folder.

    A file that is there with the right sum is left alone. A part that an earlier call left is completed. `pause`
    waits between tries, in seconds.
    """
    scheme = urllib.parse.urlsplit(mirror).scheme
    if scheme not in {"https", "http", "file"}:
        raise OptionError(
            f'the mirror is "{without_secret(mirror)}"; give an address that starts with https://, http:// or file://'
        )
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}; choose another folder with --to", path=to) from error
    fetched, present = [], []
    for file in files:
        target = to / file.name
        if target.is_file() and sha256_of(target) == file.sha256:
            progress(file, file.size_bytes)
            present.append(file.name)
            continue
        _Download(file, to, mirror, progress, pause).run()
        fetched.append(file.name)
    return Fetched(to, tuple(fetched), tuple(present))


class _Download:
    """One file on its way into `NAME.part`, and from there to its name once its sum is right."""

    def __init__(
        self, file: PublicFile, to: Path, mirror: str, progress: Progress, pause: Callable[[float], None]
    ) -> None:
        self._file = file
        self._target = to / file.name
        self._part = to / f"{file.name}.part"
        base, self._authorization = split_login(mirror)
        self._url = f"{base.rstrip('/')}/{urllib.parse.quote(file.name)}"
        self._progress = progress
        self._pause = pause
        self._most_tries = 1 if mirror.startswith("file:") else _TRIES

    def run(self) -> None:
        continued = self._size() > 0
        self._complete()
        if continued and sha256_of(self._part) != self._file.sha256:
            # The old part may be of another file; only bytes fetched now can accuse the server.
            self._part.unlink()
            self._complete()
        found = sha256_of(self._part)
        if found != self._file.sha256:
            self._part.unlink()
            raise InputError(
                f"the SHA-256 of {self._url} is {found}, it should be {self._file.sha256}; the file was removed: "
                "try again, or another source with --mirror URL or --from DIR",
                path=self._target,
            )
        self._part.replace(self._target)

    def _complete(self) -> None:
        """Fetch until the part is as long as the file; give up after some tries without a new byte."""
        furthest = self._size()
        tries = 0
        while self._size() != self._file.size_bytes:
            problem = self._fetch_on()
            size = self._size()
            if size == self._file.size_bytes:
                return
            tries = 1 if size > furthest else tries + 1
            furthest = max(furthest, size)
            if tries >= self._most_tries:
                raise InputError(
                    f"{self._url} ended after {size} of {self._file.size_bytes} bytes ({problem}); "
                    "run the same command again to go on, or give another source with --mirror URL or --from DIR",
                    path=self._target,
                )
            self._pause(2.0 ** (tries - 1))

    def _fetch_on(self) -> str:
        """Try once to fetch what is missing; say what stopped it."""
        offset = self._size()
        if offset > self._file.size_bytes:
            self._part.unlink()
            offset = 0
        request = urllib.request.Request(self._url, headers={"User-Agent": "foresail"})  # noqa: S310 - schemes checked
        if self._authorization is not None:
            # A redirect may lead to another machine, which the password is not for.
            request.add_unredirected_header("Authorization", self._authorization)
        if offset:
            request.add_header("Range", f"bytes={offset}-")
        try:
            with _opener().open(request, timeout=_TIMEOUT_S) as response:
                if response.status != http.HTTPStatus.PARTIAL_CONTENT:
                    return self._save(response, 0)
                if not response.headers.get("Content-Range", "").startswith(f"bytes {offset}-"):
                    self._part.unlink(missing_ok=True)
                    return "the server sent another range than it was asked for"
                return self._save(response, offset)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                self._part.unlink(missing_ok=True)
            elif error.code not in _TRANSIENT:
                raise self._unreachable(f"HTTP {error.code} {error.reason}") from error
            return f"HTTP {error.code} {error.reason}"
        except urllib.error.URLError as error:
            if self._most_tries == 1:
                raise self._unreachable(str(error.reason)) from error
            return str(error.reason)
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__

    def _save(self, response: http.client.HTTPResponse, offset: int) -> str:
        missing = self._file.size_bytes - offset
        try:
            part = self._part.open("ab" if offset else "wb", buffering=0)
        except OSError as error:
            raise self._unwritable(error) from error
        with part:
            while missing > 0:
                # Never more than the file has: a wrong server must not fill the disk.
                chunk = response.read(min(_CHUNK_BYTES, missing))
                if not chunk:
                    return "the connection was closed"
                try:
                    part.write(chunk)
                except OSError as error:
                    raise self._unwritable(error) from error
                missing -= len(chunk)
                self._progress(self._file, self._file.size_bytes - missing)
        return "nothing"

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"cannot be written: {error.strerror}; choose another folder with --to", path=self._part)

    def _unreachable(self, reason: str) -> InputError:
        return InputError(
            f"cannot be fetched from {self._url} ({reason}); give another source with --mirror URL or --from DIR",
            path=self._target,
        )

    def _size(self) -> int:
        return self._part.stat().st_size if self._part.exists() else 0


def _opener() -> urllib.request.OpenerDirector:
    """An opener for https, http and file alone, so that no redirect leads to another scheme."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.FileHandler,
    ):
        opener.add_handler(handler())
    return opener
