"""The chart, its manifests and what they may do, for the tests with and without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@pytest.fixture(scope="session")
def manifests() -> dict[str, list[dict]]:
    """File of deploy/manifests: its objects."""
    return {
        path.name: list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        for path in sorted((DEPLOY / "manifests").glob("*.yaml"))
    }
