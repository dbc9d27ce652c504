"""Container images made here from a static busybox: nothing is pulled."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foresail.atomic import replacing
from foresail.lab.errors import LabError

BASE_IMAGE = "localhost/foresail/base:1"
"""For workloads: a shell and busybox's tools. Pods name it with imagePullPolicy: Never."""
PAUSE_IMAGE = "localhost/foresail/pause:1"
_ELF_INTERPRETER = 3
# fmt: off - one tool a line would hide the rest
_TOOLS = (
    "sh",
    "cat",
    "echo",
    "sleep",
    "true",
    "false",
    "test",
    "date",
    "env",
    "ls",
    "cp",
    "mv",
    "rm",
    "mkdir",
    "dd",
    "wc",
    "seq",
    "head",
    "tail",
    "grep",
    "sed",
    "awk",
    "sort",
    "tr",
    "cut",
    "tee",
    "kill",
    "ps",
    "nc",
    "wget",
    "httpd",
    "ip",
    "ping",
    "hostname",
    "id",
    "md5sum",
    "yes",
    "time",
    "timeout",
    "nproc",
    "vi",
)
# fmt: on
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_archive(path: Path, busybox: Path) -> None:
    """Write both images as one OCI archive, which `ctr images import` reads."""
    program = busybox.read_bytes()
    if not is_static(program):
        raise LabError(f"{busybox} needs shared libraries; run as root: apt-get install -y busybox-static")
    layer = gzip.compress(_layer(program), mtime=0)
    blobs: dict[str, bytes] = {}
    manifests = []
    for name, command in ((BASE_IMAGE, ["/bin/sh"]), (PAUSE_IMAGE, ["/bin/sleep", "2147483647"])):
        manifest = _store(blobs, json.dumps(_manifest(blobs, layer, command)).encode())
        described = _described("application/vnd.oci.image.manifest.v1+json", manifest, blobs)
        manifests.append({**described, "annotations": {"io.containerd.image.name": name}})
    index = {"schemaVersion": 2, "manifests": manifests}
    with replacing(path) as part, tarfile.open(part, "w") as archive:
        _add(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(archive, "index.json", json.dumps(index).encode())
        for digest, blob in blobs.items():
            _add(archive, f"blobs/sha256/{digest}", blob)


def is_static(program: bytes) -> bool:
    """Whether a 64-bit little-endian ELF program asks for no loader: a container has none."""
    if program[:6] != b"\x7fELF\x02\x01":
        return False
    start, size = int.from_bytes(program[32:40], "little"), int.from_bytes(program[54:56], "little")
    count = int.from_bytes(program[56:58], "little")
    kinds = (int.from_bytes(program[start + i * size :][:4], "little") for i in range(count))
    return _ELF_INTERPRETER not in kinds


def find_busybox() -> Path:
    """A busybox that a container can run."""
    found = shutil.which("busybox")
    if found is None:
        raise LabError("there is no busybox; run as root: apt-get install -y busybox-static")
    return Path(found)


def _layer(program: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in ("bin", "dev", "etc", "proc", "sys", "tmp", "root"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(folder)
        _add(archive, "bin/busybox", program, mode=0o755)
        # The commonest tools as links; the others are called as: busybox TOOL
        for tool in _TOOLS:
            link = tarfile.TarInfo(f"bin/{tool}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        _add(archive, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    return file.getvalue()


def _manifest(blobs: dict[str, bytes], layer: bytes, command: list[str]) -> dict[str, Any]:
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": command, "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(gzip.decompress(layer)).hexdigest()}"]},
    }
    return {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _described(
            "application/vnd.oci.image.config.v1+json", _store(blobs, json.dumps(config).encode()), blobs
        ),
        "layers": [_described("application/vnd.oci.image.layer.v1.tar+gzip", _store(blobs, layer), blobs)],
    }


def _store(blobs: dict[str, bytes], blob: bytes) -> str:
    digest = hashlib.sha256(blob).hexdigest()
    blobs[digest] = blob
    return digest


def _described(media_type: str, digest: str, blobs: Mapping[str, bytes]) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(blobs[digest])}


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
