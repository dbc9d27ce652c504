"""Write the pages, and the parts of pages, that the project can print itself.

`python docs/generate.py` writes them; with `--check` nothing is written, and a page that is out of date is an error.
"""

# ruff: noqa: INP001 - a script that stands beside the pages it writes
from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import MISSING
from pathlib import Path

# Before typer is loaded: it asks for its width once, and a reference must not depend on whose terminal printed it.
os.environ |= {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb"}
for forcing in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
    os.environ.pop(forcing, None)

import typer  # noqa: E402 - see above
from typer.testing import CliRunner  # noqa: E402 - see above

from foresail.cli.main import app  # noqa: E402 - see above
from foresail.experiments.experiment import Experiment  # noqa: E402 - see above
from foresail.results.metrics import FULL_LOAD, LOAD_STEMS, at_load, metrics  # noqa: E402 - see above
from foresail.results.tables import TableSpec, table_named, tables  # noqa: E402 - see above
from foresail.settings import Described, described  # noqa: E402 - see above
from foresail.sim.protocols.clock_settings import ClockSettings  # noqa: E402 - see above
from foresail.traces.training.settings import TrainingSettings  # noqa: E402 - see above

ROOT = Path(__file__).resolve().parents[1]
PARTLY_PRINTED = (ROOT / "docs/reference/results.md", ROOT / "docs/reference/experiments.md")
SETTINGS: dict[str, tuple[type, tuple[str, ...]]] = {
    "settings of an experiment": (Experiment, ("traces", "clock")),
    "settings of protocol clock": (ClockSettings, ()),
    "settings of training jobs": (TrainingSettings, ()),
}
"""Tables of settings that pages ask for, with the keys that they tell of themselves."""
CLI_INTRODUCTION = """\
# Command line

Printed by the program itself. `foresail --help` and `foresail VERB --help` say the same on your machine.

Every verb ends with 0 if it did what was asked. Something you can mend (a wrong value, a missing file, a policy that
raises) ends with 2 and one message that names the place, the value and the remedy. An interrupt ends with 130. Tables,
JSON and what was written go to standard output; errors, notes and progress bars go to standard error, the bars only if
it is a terminal.
"""


def cli_page() -> str:
    """The reference: the help of the program, then of every verb."""
    parts = [CLI_INTRODUCTION]
    for words in _verbs():
        name = " ".join(["foresail", *words])
        parts.append(f"## {name}\n\n```text\n{_help(words)}\n```\n")
    return "\n".join(parts)


def _verbs() -> Iterator[list[str]]:
    """The program, then each verb, and each verb of a group after its group."""
    group = typer.main.get_command(app)
    yield []
    for name, command in getattr(group, "commands", {}).items():
        yield [name]
        for inner in getattr(command, "commands", {}):
            yield [name, inner]


def _help(words: list[str]) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="foresail")
    if result.exit_code:
        raise SystemExit(f"foresail {' '.join(words)} --help ended with {result.exit_code}: {result.output}")
    return "\n".join(line.rstrip() for line in result.stdout.strip("\n").splitlines()).strip("\n")


def filled(page: str) -> str:
    """A page with each part between `<!-- printed: WHAT -->` and `<!-- end -->` printed anew."""
    return re.sub(
        r"(<!-- printed: (.+?) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n{_printed(found[2])}\n{found[3]}",
        page,
        flags=re.DOTALL,
    )


def _printed(what: str) -> str:
    """The rows of a Markdown table, from what the program itself goes by."""
    if what == "files":
        return _files()
    if what == "metrics":
        return _metrics()
    if what in SETTINGS:
        return _settings(*SETTINGS[what])
    if what.startswith("columns of "):
        return _columns(table_named(what.removeprefix("columns of ")))
    raise SystemExit(f'a page asks for "{what}" to be printed, which nobody can')


def _files() -> str:
    lines = ["| file | rows | present |", "|---|---|---|", "| `manifest.json` | | always |"]
    lines.append("| `summary.json` | | always |")
    lines += [f"| `{table.file}` | {table.rows} | {table.present} |" for table in tables()]
    return "\n".join(lines) + "\n"


def _columns(table: TableSpec) -> str:
    lines = ["| column | unit | meaning |", "|---|---|---|"]
    for column in table.columns:
        meaning = f"*optional*: {column.meaning}" if column.optional else column.meaning
        lines.append(f"| `{column.name}` | {column.unit} | {meaning} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def _settings(kind: type, without: tuple[str, ...]) -> str:
    lines = ["| key | option | default | meaning |", "|---|---|---|---|"]
    for one in described(kind):
        if one.key not in without and not one.is_group:
            option = "" if one.look.without_option else f"`{one.option}`{' sets it false' if one.look.negates else ''}"
            lines.append(f"| `{one.key}` | {option} | {_default(one)} | {one.meaning} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def _default(one: Described) -> str:
    if one.default is MISSING:
        return "needed"
    if one.default in (None, "", ()) or one.look.write is not None:
        return f"`{list(one.default)}`" if one.key == "seeds" else ""
    if isinstance(one.default, bool):
        return str(one.default).lower()
    return f"{one.default:g}" if isinstance(one.default, int | float) else f'`"{one.default}"`'


def _metrics() -> str:
    lines = ["| metric | shown as | protocol | unit | better | formula |", "|---|---|---|---|---|---|"]
    for metric in [*(at_load(stem, FULL_LOAD) for stem in LOAD_STEMS), *metrics()]:
        name, label, formula = (
            text.replace(f"at_{FULL_LOAD}_", "at_<a>_").replace(f"load {FULL_LOAD}", "load a")
            for text in (metric.name, metric.label, metric.formula)
        )
        cells = f"`{name}` | {label} | {', '.join(metric.protocols)} | {metric.unit} | {metric.better} | {formula}"
        lines.append(f"| {cells} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """What each generated page should hold."""
    return {
        ROOT / "docs/reference/cli.md": cli_page(),
        ROOT / "docs/changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        **{path: filled(path.read_text(encoding="utf-8")) for path in PARTLY_PRINTED},
    }


def main() -> None:
    """Write the pages, or with `--check` compare them with what is there."""
    stale = [path for path, text in pages().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if sys.argv[1:] == ["--check"]:
        if stale:
            names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
            raise SystemExit(f"{names}: out of date; run python docs/generate.py")
        return
    for path in stale:
        path.write_text(pages()[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
