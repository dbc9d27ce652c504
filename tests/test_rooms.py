"""The tree is the architecture: each folder says what it may know, and knows no more.

Arrows between the rooms are import-linter's business (`pyproject.toml`); here is what it cannot say: that `core` knows
nothing but what is allowed, and what the folders inside rooms keep to.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
FOLDERS = sorted(path.parent for path in SOURCE.glob("foresail/**/__init__.py"))

ALWAYS = ("foresail.errors", "foresail.formats", "foresail.logs", "foresail.atomic", "foresail.digest", "foresail.toml")
"""Modules that know nothing themselves and that any room but core may use."""

MAY_KNOW = {
    "foresail.plugins": (),
    "foresail.controllers": ("foresail.core", "foresail.plugins"),
    "foresail.kube.objects": ("foresail.core",),
    "foresail.live.serving": (),
    "foresail.policies": ("foresail.core", "foresail.plugins"),
    "foresail.report": ("foresail.results",),
    "foresail.sim.work": ("foresail.core", "foresail.sim.agenda"),
    "foresail.traces.check": ("foresail.core",),
    "foresail.traces.generate": ("foresail.core",),
    "foresail.traces.openb": ("foresail.core", "foresail.traces", "foresail.addresses"),
}
"""Rooms beside itself that a folder, with all in it, may import from."""


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it, also only for types."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports by dots; write the whole name"
            whole = node.module or ""
            # `from foresail import toml` means a module, or a name of the package itself such as __version__.
            yield from (f"{whole}.{name.name}" for name in node.names) if whole == "foresail" else (whole,)


def files_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def is_within(module: str, *rooms: str) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


@pytest.mark.parametrize("path", files_below(SOURCE / "foresail/core"), ids=lambda path: path.stem)
def test_core_knows_numpy_the_standard_library_and_itself_alone(path):
    foreign = [
        module
        for module in imports(path)
        if module.partition(".")[0] not in sys.stdlib_module_names
        and not is_within(module, "numpy", "foresail.core", "foresail.errors")
    ]
    assert foreign == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(SOURCE)))
def test_every_folder_says_in_a_sentence_what_it_may_know(folder):
    if folder.name == "foresail":
        return
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert re.search(r"(^|[.:] )Knows \w", docstring.splitlines()[0] if docstring else ""), docstring


def test_every_folder_with_code_is_a_package():
    assert {path.parent for path in files_below(SOURCE / "foresail")} == set(FOLDERS)


@pytest.mark.parametrize("room", MAY_KNOW)
def test_a_folder_knows_no_more_than_it_may(room):
    allowed = (room, *MAY_KNOW[room], *ALWAYS, "foresail.__version__")
    more = {
        (str(path.relative_to(SOURCE)), module)
        for path in files_below(SOURCE / room.replace(".", "/"))
        for module in imports(path)
        if is_within(module, "foresail") and not is_within(module, *allowed)
    }
    assert more == set()


def test_the_arrows_of_the_design_are_the_contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    rooms = {part.strip() for layer in layers for part in layer.split("|")}
    there = {f"foresail.{folder.name}" for folder in FOLDERS if folder.parent.name == "foresail"}
    assert there - rooms == set(), "a room that no arrow reaches"
    at = {part.strip(): number for number, layer in enumerate(layers) for part in layer.split("|")}
    assert at["foresail.live"] == at["foresail.sim"], "neither may import the other"
