"""The controller that the guide shows is short, and is the one the example package ships."""

import ast
import re
import tomllib
from pathlib import Path

from tests.plugins.packages import distribution

from foresail.controllers import load_controllers
from foresail.testing import check_controller

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/my-controller"
SHOWN = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/guides/write-a-controller.md").read_text(encoding="utf-8"), re.DOTALL
)[0]


def code(source: str) -> str:
    """A module without its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.unparse(tree)


def test_the_controller_is_short_and_the_example_package_ships_it():
    assert len([line for line in SHOWN.splitlines() if line.strip()]) <= 15
    assert code(SHOWN) == code((EXAMPLE / "my_controller.py").read_text(encoding="utf-8"))


def test_the_example_package_declares_what_it_ships(packages):
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    source = (EXAMPLE / "my_controller.py").read_text(encoding="utf-8")
    distribution(packages, "my-controller", declared["foresail.controllers"], source, group="foresail.controllers")
    (trim,) = load_controllers(["trim-long-runs:after_s=1"]).values()
    assert trim.after_s == 1.0
    check_controller(trim)
