from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

import pytest

from foresail.lab.errors import LabError
from foresail.lab.images import BASE_IMAGE, PAUSE_IMAGE, is_static, write_archive


def make_elf(*kinds: int) -> bytes:
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    header[32:40] = (64).to_bytes(8, "little")
    header[54:56] = (56).to_bytes(2, "little")
    header[56:58] = len(kinds).to_bytes(2, "little")
    return bytes(header) + b"".join(kind.to_bytes(4, "little") + bytes(52) for kind in kinds)


def test_a_program_that_asks_for_a_loader_is_not_static():
    assert (is_static(make_elf(1, 2)), is_static(make_elf(1, 3)), is_static(b"#!/bin/sh")) == (True, False, False)
    assert not is_static(Path(sys.executable).resolve().read_bytes())


def test_an_archive_names_both_images_and_every_digest_is_right(tmp_path):
    busybox = tmp_path / "busybox"
    busybox.write_bytes(make_elf(1))
    write_archive(tmp_path / "images.tar", busybox)
    with tarfile.open(tmp_path / "images.tar") as archive:
        files = {entry.name: archive.extractfile(entry).read() for entry in archive}
    blobs = {name.rpartition("/")[2]: content for name, content in files.items() if name.startswith("blobs/")}
    assert {name: hashlib.sha256(blob).hexdigest() for name, blob in blobs.items()} == {name: name for name in blobs}
    index = json.loads(files["index.json"])
    named = {one["annotations"]["io.containerd.image.name"]: one["digest"] for one in index["manifests"]}
    assert list(named) == [BASE_IMAGE, PAUSE_IMAGE]
    manifest = json.loads(blobs[named[PAUSE_IMAGE].removeprefix("sha256:")])
    config = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
    assert config["config"]["Cmd"] == ["/bin/sleep", "2147483647"]
    layer = blobs[manifest["layers"][0]["digest"].removeprefix("sha256:")]
    with tarfile.open(fileobj=io.BytesIO(layer)) as tree:
        assert tree.getmember("bin/sh").linkname == "busybox"
        assert tree.extractfile("bin/busybox").read() == make_elf(1)


def test_the_same_busybox_gives_the_same_bytes(tmp_path):
    busybox = tmp_path / "busybox"
    busybox.write_bytes(make_elf(1))
    for name in ("a.tar", "b.tar"):
        write_archive(tmp_path / name, busybox)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_a_busybox_that_a_container_cannot_run_is_refused(tmp_path):
    busybox = tmp_path / "busybox"
    busybox.write_bytes(make_elf(3))
    with pytest.raises(LabError, match=r"needs shared libraries.*busybox-static"):
        write_archive(tmp_path / "images.tar", busybox)
    assert [path.name for path in tmp_path.iterdir()] == ["busybox"]
