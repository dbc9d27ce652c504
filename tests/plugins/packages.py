"""Packages with plug-ins, as an installer leaves them behind."""

import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from foresail.plugins.registry import forget_packages


def distribution(
    folder: Path, name: str, entry_points: Mapping[str, str], source: str = "", *, group: str = "foresail.policies"
) -> None:
    """A module and its metadata."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    lines = "\n".join(f"{key} = {value}" for key, value in entry_points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}\n", encoding="utf-8")


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder in which packages are found, and forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    forget_packages()
    yield tmp_path
    forget_packages()
