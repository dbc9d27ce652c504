"""Container images made here from a static busybox: nothing is pulled."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foresail.atomic import replacing
from foresail.lab.errors import LabError

BASE_IMAGE = "localhost/foresail/base:1"
"""For workloads: a shell and busybox's tools. Pods name it with imagePullPolicy: Never."""
PAUSE_IMAGE = "localhost/foresail/pause:1"
_ELF_INTERPRETER = 3
_TOOLS = (
    *("sh", "cat", "echo", "sleep", "true", "false", "test", "date", "env", "ls", "cp", "mv"),
    *("rm", "mkdir", "dd", "wc", "seq", "head", "tail", "grep", "sed", "awk", "sort", "tr"),
    *("cut", "tee", "kill", "ps", "nc", "wget", "httpd", "ip", "ping", "hostname", "id", "md5sum"),
    *("yes", "time", "timeout", "nproc", "vi"),
)
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Image:
    """A name, and what runs in a container of it."""

    name: str
    command: tuple[str, ...]
    search_path: str
    """The environment variable PATH."""


def write_archive(path: Path, busybox: Path) -> None:
    """Write the images of busybox as one OCI archive, which `ctr images import` reads."""
    program = busybox.read_bytes()
    if not is_static(program):
        raise LabError(f"{busybox} needs shared libraries; run as root: apt-get install -y busybox-static")
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        layer = Path(folder) / "layer.tar"
        layer.write_bytes(_layer(program))
        images = (
            Image(BASE_IMAGE, ("/bin/sh",), "/bin"),
            Image(PAUSE_IMAGE, ("/bin/sleep", "2147483647"), "/bin"),
        )
        write_images(path, layer, images)


def write_images(path: Path, layer: Path, images: Sequence[Image]) -> None:
    """Write images that share a layer, a tar of files, as one OCI archive; the same layer gives the same bytes."""
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    described_layer = {
        "mediaType": "application/vnd.oci.image.layer.v1.tar",
        "digest": f"sha256:{digest}",
        "size": layer.stat().st_size,
    }
    blobs: dict[str, bytes] = {}
    manifests = []
    for image in images:
        config = {
            "architecture": architecture(),
            "os": "linux",
            "config": {"Env": [f"PATH={image.search_path}"], "Cmd": list(image.command), "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [described_layer["digest"]]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _stored(blobs, "application/vnd.oci.image.config.v1+json", config),
            "layers": [described_layer],
        }
        described = _stored(blobs, "application/vnd.oci.image.manifest.v1+json", manifest)
        manifests.append({**described, "annotations": {"io.containerd.image.name": image.name}})
    with replacing(path) as part, tarfile.open(part, "w") as archive:
        _add(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(archive, "index.json", json.dumps({"schemaVersion": 2, "manifests": manifests}).encode())
        for name, blob in blobs.items():
            _add(archive, f"blobs/sha256/{name}", blob)
        entry = tarfile.TarInfo(f"blobs/sha256/{digest}")
        entry.size, entry.mode = layer.stat().st_size, 0o644
        with layer.open("rb") as file:
            archive.addfile(entry, file)


def architecture() -> str:
    """What images and Debian packages call the architecture of this machine."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


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


def _stored(blobs: dict[str, bytes], media_type: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a JSON blob; returns how others refer to it."""
    blob = json.dumps(content).encode()
    digest = hashlib.sha256(blob).hexdigest()
    blobs[digest] = blob
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(blob)}


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
