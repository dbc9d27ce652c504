"""Install Prometheus, if there is none, for the test that reads from a real one; without it that test is skipped."""

from __future__ import annotations

import shutil

from foresail.errors import ForesailError
from foresail.lab import packages

if __name__ == "__main__" and shutil.which("prometheus") is None:
    try:
        packages.install(["prometheus"])
    except ForesailError as error:
        print(f"no Prometheus, so its test is skipped: {error}")
