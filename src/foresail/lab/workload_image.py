"""An image for workloads that train and measure: Python with numpy and kazoo, stress-ng and iperf3, of Debian packages,
and the room `foresail.workloads`.

The packages are unpacked into one layer and none of their scripts is run, so neither root nor Docker is needed, and the
same packages give the same bytes. It is made once and kept beside the compiled programs.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from foresail import workloads
from foresail.atomic import replacing
from foresail.lab import images
from foresail.lab.components import cache_folder
from foresail.lab.errors import LabError
from foresail.lab.state import locked

VERSION = 4
"""Of the recipe below: another one makes another image."""
WORKLOAD_IMAGE = f"localhost/foresail/workload:{VERSION}"
"""Pods name it with imagePullPolicy: Never."""
PACKAGES = (
    # numpy's matrices by OpenBLAS: the plain library that it would come with takes ten times as long.
    *("python3", "python3-numpy", "libopenblas0-pthread", "stress-ng", "iperf3"),
    # For tasks that meet on ZooKeeper.
    "python3-kazoo",
    *("dash", "coreutils", "grep", "sed", "netbase"),
)
UNNEEDED = (
    # Only packages' scripts need these, and no script is run.
    *("adduser", "debconf", "dpkg", "libpam*", "libsemanage*", "libsepol*", "passwd", "perl*", "libperl*", "tar"),
    # kazoo in other ways than with threads, and logins that it can do without.
    *("python3-eventlet", "python3-gevent", "python3-greenlet", "python3-dnspython", "python3-jinja2", "libev4*"),
    *("python3-markupsafe", "python3-zope*", "python3-pure-sasl", "python3-kerberos", "lsb-release"),
    # Drivers of graphics cards, for a test of stress-ng that no lab can run; what it links against stays.
    *("libegl-mesa*", "libgl1-mesa*", "libglx-mesa*", "libllvm*", "libz3-*"),
)
"""Patterns of packages that others depend on and that a container does without."""
LEFT_OUT = (
    *("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/bug"),
    *("usr/share/menu", "usr/share/X11", "usr/share/bash-completion", "usr/share/pixmaps", "usr/share/applications"),
    *("usr/share/stress-ng", "var/cache", "var/lib/dpkg"),
)
"""Folders that nothing in a container reads."""
_LEFT_OUT_NAMES = re.compile(r"\.a$|/__pycache__(/|$)|/dist-packages/numpy/.*/tests(/|$)|/gconv/(?!UTF|UNICODE|gconv)")
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders of the root that have moved below usr; packages still name the old places."""
_USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
_GROUPS = "root:x:0:\nnogroup:x:65534:\n"
_EMPTY = ("dev", "proc", "sys", "run", "root", "tmp", "var/tmp")
_URI = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+)")

_OUR_PLACE = "usr/lib/python3/dist-packages/foresail"

Show = Callable[[str, int, int], None]
"""Told what is going on, how much of it is done and how much there is."""


@dataclass(frozen=True)
class Package:
    """A Debian package that the image takes files from."""

    file: str
    size_bytes: int

    @property
    def name(self) -> str:
        return self.file.partition("_")[0]


def archive() -> Path:
    """Where the image is kept between labs, as an OCI archive."""
    ours = hashlib.sha256()
    for name, content in our_files().items():
        ours.update(f"{name}\0{len(content)}\0".encode() + content)
    return cache_folder() / "images" / f"workload-{VERSION}-{ours.hexdigest()[:12]}-{images.architecture()}.tar"


def our_files() -> dict[str, bytes]:
    """Path in the image to content: what of Foresail runs inside pods, and nothing else of it."""
    folder = Path(workloads.__file__).parent
    found = {f"{_OUR_PLACE}/__init__.py": b""}
    for path in sorted(folder.rglob("*.py")):
        found[f"{_OUR_PLACE}/workloads/{path.relative_to(folder)}"] = path.read_bytes()
    return found


def packages_file() -> Path:
    """The packages that the image was made of, with their versions, one a line."""
    return archive().with_suffix(".packages")


def make(show: Show | None = None, *, renew: bool = False) -> Path:
    """Make the image if it is not there yet, or anew; returns its archive."""
    show = show or _show_nothing
    path = archive()
    if path.is_file() and not renew:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.parent, "the workload image", wait=True):
        # Whoever held the lock may have made it.
        if path.is_file() and not renew:
            return path
        # Beside the archive, not in /tmp, which may be small; a killed make leaves it to the next.
        for left in path.parent.glob("making-*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="making-", dir=path.parent) as folder:
            _make(path, Path(folder), show)
    return path


def _make(path: Path, folder: Path, show: Show) -> None:
    apt = _Apt(folder)
    show("looking for packages", 0, 0)
    wanted = [one for one in apt.needed(PACKAGES) if not unneeded(one.name)]
    downloaded = apt.download(wanted, show)
    layer = folder / "layer.tar"
    with tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as tree:
        packing = LayerWriter(tree)
        for done, deb in enumerate(downloaded):
            show("unpacking", done, len(downloaded))
            _copy_files(deb, packing)
        for name, content in our_files().items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            packing.add(entry, io.BytesIO(content))
        packing.finish()
    show("writing the image", 0, 0)
    command = images.Image(WORKLOAD_IMAGE, ("/bin/sh",), "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin")
    with replacing(packages_file()) as part:
        part.write_text("".join(f"{one.file}\n" for one in wanted), encoding="utf-8")
    images.write_images(path, layer, [command])


def unneeded(name: str) -> bool:
    """Whether a package is needed only outside of a container."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in UNNEEDED)


class _Apt:
    """apt-get as if nothing were installed: the lists of packages are the machine's, all else is in a folder."""

    def __init__(self, folder: Path) -> None:
        for program, package in (("apt-get", "apt"), ("dpkg-deb", "dpkg")):
            if shutil.which(program) is None:
                raise LabError(
                    f"the workload image needs {program}, of the Debian package {package}; use Debian or Ubuntu"
                )
        self.debs = folder / "debs"
        (self.debs / "partial").mkdir(parents=True)
        status = folder / "status"
        status.touch()
        options = {
            "Dir::State::status": status,
            "Dir::State::extended_states": folder / "extended_states",
            "Dir::Cache::archives": self.debs,
            # The lists as apt-get sees them, written to the folder: the machine's own cache is root's.
            "Dir::Cache::pkgcache": folder / "pkgcache.bin",
            "Dir::Cache::srcpkgcache": "",
            "Debug::NoLocking": "1",
            "APT::Install-Recommends": "0",
            "APT::Get::Assume-Yes": "1",
            # Else root's downloads are handed to a user that may not enter this folder.
            "APT::Sandbox::User": "root",
        }
        self.command = [
            "apt-get",
            "-qq",
            *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
        ]

    def needed(self, names: Iterable[str]) -> list[Package]:
        """These packages and all they depend on."""
        printed = self._run("--print-uris", "install", *names)
        found = [at for line in printed.splitlines() if (at := _URI.match(line))]
        return sorted((Package(at["file"], int(at["size"])) for at in found), key=lambda one: one.file)

    def download(self, wanted: Sequence[Package], show: Show) -> list[Path]:
        """Fetch packages; apt-get checks each against the signed lists."""
        total = sum(one.size_bytes for one in wanted)
        show(f"downloading {len(wanted)} packages, {total / 1e6:.0f} MB", 0, 0)
        self._run("--download-only", "install", *PACKAGES)
        paths = [self.debs / one.file for one in wanted]
        lacking = [path.name for path in paths if not path.is_file()]
        if lacking:
            raise LabError(f"apt-get did not download {', '.join(lacking)}; run as root: apt-get update")
        return paths

    def _run(self, *arguments: str) -> str:
        environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        ran = subprocess.run(  # noqa: S603 - as written here
            [*self.command, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if ran.returncode:
            said = [line for line in ran.stderr.splitlines() if line.startswith("E:")] or ran.stderr.splitlines()
            raise LabError(
                f"apt-get cannot get the packages of the workload image: {' '.join(said[-2:])}; "
                "run as root: apt-get update, and try again"
            )
        return ran.stdout


def _copy_files(deb: Path, packing: LayerWriter) -> None:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as unpacking:  # noqa: S603, S607 - as written here
        assert unpacking.stdout is not None  # noqa: S101 - it is a pipe, which the types do not say
        with tarfile.open(fileobj=unpacking.stdout, mode="r|") as files:
            for entry in files:
                packing.add(entry, files.extractfile(entry) if entry.isfile() else None)
    if unpacking.returncode:
        raise LabError(f"dpkg-deb cannot unpack {deb.name}; foresail lab image --renew fetches it again")


class LayerWriter:
    """Packages' files as one tree: below usr what belongs there, without papers, with the links scripts would make."""

    def __init__(self, tree: tarfile.TarFile) -> None:
        self._tree = tree
        self._there: set[str] = set()

    def add(self, entry: tarfile.TarInfo, content: Iterable[bytes] | io.BufferedIOBase | BinaryIO | None) -> None:
        """Take over a file of a package, unless nobody needs it."""
        name = merged(entry.name)
        if not name or left_out(name) or (entry.isdir() and name in self._there):
            return
        taken = tarfile.TarInfo(name)
        taken.type, taken.mode, taken.size = entry.type, entry.mode, entry.size
        # A link of a file to another names a path of the archive, a symbolic one is read in the container.
        taken.linkname = merged(entry.linkname) if entry.islnk() else entry.linkname
        self._there.add(name)
        self._tree.addfile(taken, content)  # type: ignore[arg-type]  # the file of an open archive

    def finish(self) -> None:
        """Add what packages' scripts and Debian's installer would have made."""
        for name in _MERGED:
            if any(there.startswith(f"usr/{name}/") for there in self._there):
                self._link(name, f"usr/{name}")
        triplet = f"usr/lib/{platform.machine()}-linux-gnu"
        # Links of Debian's alternatives, to the first that is there.
        for library in ("libblas.so.3", "liblapack.so.3", "libopenblas.so.0"):
            kinds = ("openblas-pthread", library.removeprefix("lib").partition(".")[0])
            found = next((kind for kind in kinds if f"{triplet}/{kind}/{library}" in self._there), "")
            if found:
                self._link(f"{triplet}/{library}", f"{found}/{library}")
        for name, text in (("etc/passwd", _USERS), ("etc/group", _GROUPS)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            self._tree.addfile(entry, io.BytesIO(text.encode()))
        for name in _EMPTY:
            if name not in self._there:
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
                self._tree.addfile(folder)

    def _link(self, name: str, target: str) -> None:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, target
        self._there.add(name)
        self._tree.addfile(link)


def merged(name: str) -> str:
    """A package's path as it is in the container: without ./ and below usr."""
    name = name.removeprefix(".").strip("/")
    first, _, rest = name.partition("/")
    if first not in _MERGED:
        return name
    # The folder itself is a link there.
    return f"usr/{name}" if rest else ""


def left_out(name: str) -> bool:
    """Whether a path is one that nothing in a container reads."""
    return any(name == folder or name.startswith(f"{folder}/") for folder in LEFT_OUT) or bool(
        _LEFT_OUT_NAMES.search(name)
    )


def _show_nothing(_what: str, _done: int, _total: int) -> None:
    pass
