from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

import foresail
from foresail.errors import OptionError
from foresail.lab import LabSettings, workload_image
from foresail.lab.errors import LabError
from foresail.lab.workload_image import LayerWriter, left_out, merged, unneeded

SOURCE = Path(foresail.__file__).parent
OUR_PLACE = "usr/lib/python3/dist-packages/foresail"
needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="there is no dpkg-deb")


def make_deb(folder, name, files):
    """A Debian package of these files; links are written as -> target."""
    tree = folder / f"{name}-tree"
    for path, content in files.items():
        place = tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            place.symlink_to(content[3:])
        else:
            place.write_text(content)
    control = (
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: Tests <tests@example.org>\nDescription: test\n"
    )
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(control)
    deb = folder / f"{name}_1_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, deb], check=True, capture_output=True)  # noqa: S607 - on PATH
    return deb


def fake_apt(folder, uris, debs=(), *, fails=""):
    """An apt-get that offers what it is told, and writes down how it was called."""
    folder.mkdir(exist_ok=True)
    copies = "\n".join(f'cp "{deb}" "$archives/"' for deb in debs)
    script = f"""#!/bin/sh
echo "$@" >> "{folder}/calls"
for word in "$@"; do case "$word" in Dir::Cache::archives=*) archives="${{word#*=}}";; esac; done
{f'echo "E: {fails}" >&2; exit 100' if fails else ""}
case "$*" in *--print-uris*) cat "{folder}/uris";; *) {copies or "true"};; esac
"""
    (folder / "uris").write_text("".join(f"'http://example.org/{deb}' {deb} 1000 MD5Sum:0\n" for deb in uris))
    program = folder / "apt-get"
    program.write_text(script)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder / "calls"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    return tmp_path


def layer_of(archive):
    """Path: type, mode and what a link points to, of all that a container will find."""
    with tarfile.open(archive) as files:
        blobs = {entry.name: files.extractfile(entry).read() for entry in files}
    (described,) = json.loads(blobs["index.json"])["manifests"]
    manifest = json.loads(blobs[f"blobs/sha256/{described['digest'].removeprefix('sha256:')}"])
    (layer,) = manifest["layers"]
    with tarfile.open(fileobj=io.BytesIO(blobs[f"blobs/sha256/{layer['digest'].removeprefix('sha256:')}"])) as tree:
        found = {entry.name: f"-> {entry.linkname}" if entry.issym() else "" for entry in tree}
        found |= {entry.name: tree.extractfile(entry).read().decode() for entry in tree if entry.isfile()}
        assert {(entry.mtime, entry.uid, entry.gid) for entry in tree} == {(0, 0, 0)}
    return described["annotations"]["io.containerd.image.name"], found


@needs_dpkg
def test_packages_become_one_tree_without_papers_and_are_fetched_once(cache):
    triplet = f"usr/lib/{os.uname().machine}-linux-gnu"
    debs = [
        make_deb(cache, "dash", {"bin/dash": "shell", "bin/sh": "-> dash", "usr/share/doc/dash/copyright": "paper"}),
        make_deb(cache, "libblas3", {f"{triplet}/blas/libblas.so.3": "library", "usr/lib/x.a": "static"}),
        make_deb(cache, "perl-base", {"usr/bin/perl": "only scripts need it"}),
    ]
    calls = fake_apt(cache / "bin", [deb.name for deb in debs], debs)
    made = workload_image.make()
    name, found = layer_of(made)
    folders = {path for path, content in found.items() if content == ""}
    assert name == workload_image.WORKLOAD_IMAGE
    ours = {path: found.pop(path) for path in list(found) if "/dist-packages/foresail/" in path}
    assert {path: content for path, content in found.items() if path not in folders} == {
        "bin": "-> usr/bin",
        "lib": "-> usr/lib",
        "usr/bin/dash": "shell",
        "usr/bin/sh": "-> dash",
        f"{triplet}/blas/libblas.so.3": "library",
        f"{triplet}/libblas.so.3": "-> blas/libblas.so.3",
        "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
        "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    }
    assert {"dev", "proc", "sys", "tmp", "usr/lib"} <= folders
    assert ours == {path: content.decode() for path, content in workload_image.our_files().items()}
    assert f"{OUR_PLACE}/workloads/trainers/__main__.py" in ours
    assert ours[f"{OUR_PLACE}/workloads/report.py"] == (SOURCE / "workloads/report.py").read_text()
    assert {path.removeprefix(f"{OUR_PLACE}/").partition("/")[0] for path in ours} == {"__init__.py", "workloads"}
    assert workload_image.packages_file().read_text() == "dash_1_all.deb\nlibblas3_1_all.deb\n"
    assert sorted(path.name for path in made.parent.iterdir()) == [workload_image.packages_file().name, made.name]

    # It is there now: apt-get is not asked again, unless told to, and gives the same bytes.
    before, asked = made.read_bytes(), len(calls.read_text().splitlines())
    workload_image.make()
    assert len(calls.read_text().splitlines()) == asked
    workload_image.make(renew=True)
    assert (len(calls.read_text().splitlines()), made.read_bytes() == before) == (2 * asked, True)


def test_a_list_of_packages_that_is_missing_is_said_with_the_remedy(cache):
    fake_apt(cache / "bin", [], fails="Unable to locate package stress-ng")
    with pytest.raises(
        LabError, match=r"Unable to locate package stress-ng; run as root: apt-get update, and try again"
    ):
        workload_image.make()
    assert list((cache / "cache" / "foresail" / "lab" / "images").iterdir()) == []


def test_a_package_that_did_not_come_is_named(cache):
    fake_apt(cache / "bin", ["dash_1_all.deb"])
    with pytest.raises(LabError, match=r"apt-get did not download dash_1_all\.deb; run as root: apt-get update"):
        workload_image.make()


def test_where_there_is_no_apt_the_error_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        LabError, match="the workload image needs apt-get, of the Debian package apt; use Debian or Ubuntu"
    ):
        workload_image.make()


def test_what_a_killed_make_left_is_swept_up(cache):
    left = workload_image.archive().parent / "making-abc"
    left.mkdir(parents=True)
    (left / "layer.tar").write_text("half")
    fake_apt(cache / "bin", [])
    workload_image.make()
    assert not left.exists()


def test_paths_move_below_usr_and_the_moved_folders_themselves_vanish():
    paths = ("./bin/sh", "./lib64/ld.so", "./lib", "./", "./usr/bin/env", "./library/x", "./etc/passwd")
    assert [merged(path) for path in paths] == [
        *("usr/bin/sh", "usr/lib64/ld.so", "", "", "usr/bin/env", "library/x", "etc/passwd")
    ]


def test_a_hard_link_follows_the_file_it_names():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tree:
        link = tarfile.TarInfo("./bin/other")
        link.type, link.linkname = tarfile.LNKTYPE, "./bin/one"
        LayerWriter(tree).add(link, None)
    file.seek(0)
    with tarfile.open(fileobj=file) as tree:
        assert tree.getmember("usr/bin/other").linkname == "usr/bin/one"


def test_only_what_nobody_reads_is_left_out():
    assert [
        path for path in ("usr/share/doc/x", "usr/share/docs", "usr/lib/a.a", "usr/lib/a.so") if left_out(path)
    ] == [
        "usr/share/doc/x",
        "usr/lib/a.a",
    ]
    assert [name for name in ("perl-base", "python3", "libperl5.36", "tar", "libstartup") if unneeded(name)] == [
        *("perl-base", "libperl5.36", "tar")
    ]


def test_the_image_is_for_real_nodes():
    with pytest.raises(OptionError, match=r"--workload-image is for real nodes; add --kubelets 1 or more"):
        LabSettings(workload_image=True, fake_nodes=3).check()
