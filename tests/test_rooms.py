"""The tree is the architecture: each folder says what it may know, and knows no more.

Arrows between the rooms, and what `core` may know, are import-linter's business (`pyproject.toml`); here is what it
cannot say: what the folders inside rooms keep to.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp
import pytest
from tests.import_contracts import ClosedContract

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
FOLDERS = sorted(path.parent for path in SOURCE.glob("foresail/**/__init__.py"))

ALWAYS = (
    *("foresail.errors", "foresail.formats", "foresail.logs", "foresail.atomic", "foresail.digest"),
    *("foresail.toml", "foresail.yaml_files"),
)
"""Modules that know nothing themselves and that any room but core may use."""

MAY_KNOW = {
    "foresail.plugins": (),
    "foresail.controllers": ("foresail.core", "foresail.plugins", "foresail.forecast"),
    "foresail.forecast": ("foresail.core", "foresail.traces.series"),
    "foresail.kube.objects": ("foresail.core",),
    "foresail.live.serving": (),
    "foresail.policies": ("foresail.core", "foresail.plugins", "foresail.forecast"),
    "foresail.report": ("foresail.results",),
    "foresail.sim.work": ("foresail.core", "foresail.sim.agenda", "foresail.forecast"),
    "foresail.traces.check": ("foresail.core",),
    "foresail.traces.generate": ("foresail.core",),
    "foresail.traces.training": ("foresail.core", "foresail.settings"),
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


@pytest.fixture
def room(tmp_path, monkeypatch):
    """Check a contract on a package whose core has a file with this content."""

    def check(content, **options):
        (tmp_path / "room/core").mkdir(parents=True)
        for path in ("room/__init__.py", "room/above.py", "room/core/__init__.py"):
            (tmp_path / path).touch()
        (tmp_path / "room/core/deep.py").write_text(content)
        monkeypatch.syspath_prepend(tmp_path)
        graph = grimp.build_graph("room", include_external_packages=True, cache_dir=None)
        return ClosedContract("closed", {"root_packages": ["room"]}, options).check(graph, verbose=False)

    return check


@pytest.mark.parametrize(
    ("line", "modules", "third_party", "more"),
    [
        ("import json, numpy.linalg", ["room.core"], ["numpy"], []),
        ("import yaml", ["room.core"], ["numpy"], ["yaml"]),
        ("from yaml import dump", ["room.core"], None, []),
        ("def late():\n    import yaml.nodes", ["room.core"], ["numpy"], ["yaml"]),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import yaml", ["room.core"], ["numpy"], ["yaml"]),
        ("from room import above", ["room.core"], ["numpy"], ["room.above"]),
        ("from room import above", ["room.core"], None, ["room.above"]),
        ("from room import above", ["room.core", "room.above"], ["numpy"], []),
        ("from room import above", ["(room.core)"], ["numpy"], ["room.above"]),
        ("from room import above", ["(room.later)"], ["numpy"], []),
    ],
)
def test_a_closed_room_imports_what_is_allowed_and_no_more(room, line, modules, third_party, more):
    found = room(line, modules=modules, **({"third_party": third_party} if third_party else {}))
    assert [(module, imported) for module, imported, _ in found.metadata["more"]] == [
        ("room.core.deep", name) for name in more
    ]
    assert found.kept == (not more)


def test_a_closed_room_that_is_not_there_is_a_mistake(room):
    found = room("", modules=["room.none"])
    assert (found.kept, found.metadata["missing"]) == (False, ["room.none"])


def test_core_is_held_by_what_it_may_know():
    closed = {tuple(one["modules"]): one.get("third_party") for one in contracts() if one["type"] == "closed"}
    assert closed["foresail.core", "foresail.errors"] == ["numpy"]


def test_no_class_name_stands_for_two_things():
    places: dict[str, list[str]] = {}
    for path in files_below(SOURCE / "foresail"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_of_what_runs_inside_pods_trainers_alone_know_numpy():
    room = SOURCE / "foresail/workloads"
    more = {
        (path.name, module)
        for path in files_below(room)
        for module in imports(path)
        if path.parent.name != "trainers" and is_within(module, "numpy")
    }
    assert more == set()


def test_of_what_runs_inside_pods_one_file_knows_zookeeper():
    room = SOURCE / "foresail/workloads"
    knowing = {path.name for path in files_below(room) for module in imports(path) if is_within(module, "kazoo")}
    assert knowing == {"zookeeper.py"}


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


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def test_the_arrows_of_the_design_are_the_contract():
    layers = next(contract["layers"] for contract in contracts() if contract["type"] == "layers")
    at = {part.strip(" ()"): number for number, layer in enumerate(layers) for part in layer.split("|")}
    there = {f"foresail.{folder.name}" for folder in FOLDERS if folder.parent.name == "foresail"}
    assert there - at.keys() == set(), "a room that no arrow reaches"
    assert at["foresail.live"] == at["foresail.sim"], "neither may import the other"


def test_the_page_of_the_design_draws_the_rooms_and_the_arrows():
    page = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    tree, arrows = (block for block in re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[-2:])
    drawn = re.findall(r"^  (\w+)/ ", tree, re.MULTILINE)
    there = {folder.name for folder in FOLDERS if folder.parent.name == "foresail"}
    assert there - set(drawn) == set(), "a room that the tree does not show"
    missing = {name for name in drawn if re.search(rf"^  {name}/ +to come", tree, re.MULTILINE)}
    assert set(drawn) - there <= missing, "a room that is not there, nor said to come"
    layers = next(contract["layers"] for contract in contracts() if contract["type"] == "layers")
    assert arrows.splitlines() == [re.sub(r"foresail\.|[()]", "", layer) for layer in layers]
