"""The pages that the program prints are the ones that are kept."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_generated_pages_are_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "docs/generate.py", "--check"], capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_reference_is_plain_text_that_fits_the_page():
    lines = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8").splitlines()
    in_block = [line for line in lines if line.startswith((" ", "│", "╭", "╰"))]
    assert in_block
    assert max(map(len, in_block)) <= 100
    assert not any("\x1b" in line for line in lines)
