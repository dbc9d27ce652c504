"""Where tests find data that is not part of the project."""

import os
from pathlib import Path

import pytest

from foresail.traces.get import OPENB_NODES, openb_folder

BESIDE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "data"


def _data_folders(kind: str) -> list[Path]:
    stated = os.environ.get("FORESAIL_DATA")
    bases = [Path(stated)] if stated else []
    return [base / "openb" / kind for base in (*bases, BESIDE_CHECKOUT)]


@pytest.fixture(scope="session")
def openb_csv() -> Path:
    """The folder with the public openb node and pod lists."""
    for folder in _data_folders("csv"):
        if (folder / OPENB_NODES).is_file():
            return folder
    fetched = openb_folder()
    if fetched is None:
        pytest.skip("the public openb traces are not here; get them with: foresail trace get openb")
    return fetched


@pytest.fixture(scope="session")
def openb_expected() -> Path:
    """The folder with the expected tables of published openb runs."""
    for folder in _data_folders("expected"):
        if (folder / "runs.csv").is_file():
            return folder
    pytest.skip("the expected openb tables are not public; FORESAIL_DATA may name a folder with openb/expected in it")
