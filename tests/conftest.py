"""Where tests find data that is not part of the project."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from foresail.traces.openb.get import OPENB_NODES, openb_folder

pytest_plugins = [
    "tests.experiments.small_experiments",
    "tests.forecast.workload.small_series",
    "tests.kube.scripted_server",
    "tests.plugins.packages",
    "tests.results.made_up_runs",
]
# Properties are tried with the same examples every time, so that two runs of one tree say the same. New examples are
# looked for with `pytest --hypothesis-profile explore`.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("repeatable")
BESIDE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "data"


def _data_folders(*parts: str) -> list[Path]:
    stated = os.environ.get("FORESAIL_DATA")
    bases = [Path(stated)] if stated else []
    return [base.joinpath(*parts) for base in (*bases, BESIDE_CHECKOUT)]


@pytest.fixture(scope="session")
def openb_csv() -> Path:
    """The folder with the public openb node and pod lists."""
    for folder in _data_folders("openb", "csv"):
        if (folder / OPENB_NODES).is_file():
            return folder
    fetched = openb_folder()
    if fetched is None:
        pytest.skip("the public openb traces are not here; get them with: foresail trace get openb")
    return fetched


@pytest.fixture(scope="session")
def openb_expected() -> Path:
    """The folder with the expected tables of published openb runs."""
    for folder in _data_folders("openb", "expected"):
        if (folder / "runs.csv").is_file():
            return folder
    pytest.skip("the expected openb tables are not public; FORESAIL_DATA may name a folder with openb/expected in it")


@pytest.fixture(scope="session")
def recorded_decisions() -> Path:
    """The folder with recorded decisions of kube-scheduler."""
    for folder in _data_folders("kube-scheduler"):
        if (folder / "decisions.jsonl").is_file():
            return folder
    pytest.skip("no recorded decisions here; FORESAIL_DATA may name a folder with kube-scheduler/decisions.jsonl in it")


@pytest.fixture(scope="session")
def bsp_data() -> Path:
    """The folder with the published data of bulk-synchronous jobs."""
    for folder in _data_folders("bsp"):
        if (folder / "workload_profiling.csv").is_file():
            return folder
    pytest.skip(
        "the published data of bulk-synchronous jobs is not here; FORESAIL_DATA may name a folder with bsp in it"
    )
