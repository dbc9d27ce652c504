"""Every page does what it shows: its Python runs, its commands run, and what they print is what the page says.

A fence says what a block is. `python` is run, one page after the other from top to bottom in one namespace; functions
called test_* are called at the end. `console` holds commands after `$` and what they print; `…` on a line of its own
stands for any lines. A block of Python, TOML or CSV whose first line is a comment with nothing but a file name in it is
that file. `sh` holds commands that take long, need a network or are one of several ways: they are parsed but not run,
and so are commands in a block without a name. Nothing is done with `text`.

A page that makes its own trace starts in an empty folder. The others find `nodes.csv`, `pods.csv`, a larger trace in
`demo/`, the results of two runs in `results/fgd` and `results/best-fit`, and an `experiment.toml`.
"""

from __future__ import annotations

import importlib
import itertools
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.plugins.registry import forget_packages

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
WIDTH = 100
"""Columns of the terminal that the pages were written in."""
EXPERIMENT = """
nodes = "nodes.csv"
policies = ["fgd", "best-fit"]
seeds = [42, 43]

[[traces]]
pods = "pods.csv"
"""
HARMLESS = ("cat", "head", "ls")
"""Programs other than our own that pages may show."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([\w./-]+\.(?:py|toml|csv))")


class Block(NamedTuple):
    page: Path
    line: int
    kind: str
    body: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class Command(NamedTuple):
    words: list[str]
    prints: list[str]


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, at.start()) + 1, at[1] or _kind(at[2]), at[2]) for at in FENCE.finditer(text)
    ]


def _kind(body: str) -> str:
    return "sh" if all(line.startswith("foresail ") for line in body.splitlines()) else "text"


def commands_of(block: Block) -> list[Command]:
    commands: list[Command] = []
    unfinished = ""
    for line in block.body.splitlines():
        if unfinished or line.startswith("$ ") or block.kind == "sh":
            unfinished += line.removeprefix("$ ").removesuffix("\\")
            if not line.endswith("\\"):
                commands.append(Command(shlex.split(unfinished, comments=True), []))
                unfinished = ""
        else:
            assert commands, f"{block.place}: a console block starts with a command after $"
            commands[-1].prints.append(line.rstrip())
    return commands


def invoke(words: list[str]) -> str:
    """What a command prints to standard output; it must end with 0."""
    if words[0] in HARMLESS:
        return subprocess.run(words, check=True, capture_output=True, encoding="utf-8").stdout
    assert words[0] == "foresail", f"only foresail, {' and '.join(HARMLESS)} are run; put others into a sh block"
    result = CliRunner().invoke(app, words[1:], prog_name="foresail")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the page shows what was printed, `…` standing for any lines."""
    pattern = "".join(r"(?:.*\n)*" if line == "…" else re.escape(line) + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed)) is not None


def trimmed(lines: list[str]) -> list[str]:
    """Without blanks at the ends of lines and blank lines around them."""
    return "\n".join(line.rstrip() for line in lines).strip("\n").splitlines()


def install(project: Path) -> None:
    """Make the entry points of a pyproject.toml known, as pip install --editable would."""
    about = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    info = project.parent / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    lines = []
    for group, points in about["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    importlib.invalidate_caches()
    forget_packages()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        invoke(shlex.split("foresail trace generate --nodes 100 --pods 2000 --seed 1 --out demo"))
        invoke(shlex.split("foresail trace generate --nodes 12 --pods 200 --seed 1 --out ."))
        for policy in ("fgd", "best-fit"):
            inputs = ["--nodes", "nodes.csv", "--pods", "pods.csv"]
            invoke(["foresail", "simulate", *inputs, "--policy", policy, "--out", f"results/{policy}", "--no-html"])
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where a page's blocks run; afterwards it is as if they had not."""
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(folder)):
            del sys.modules[name]
    forget_packages()


def runnable(page: Path) -> bool:
    return any(block.kind in ("python", "console") for block in blocks_of(page))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if runnable(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_does_what_it_shows(page: Path, folder: Path, prepared: Path):
    blocks = blocks_of(page)
    if not any(block.kind == "console" and "foresail trace generate" in block.body for block in blocks):
        shutil.copytree(prepared, folder, dirs_exist_ok=True)
    namespace: dict[str, object] = {"__name__": "__page__"}
    for block in blocks:
        named = FILE_NAME.fullmatch(block.body.partition("\n")[0])
        if named and block.kind in ("python", "toml", "csv"):
            path = folder / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            content = block.body.partition("\n")[2] if block.kind == "csv" else block.body
            path.write_text(content, encoding="utf-8")
            if path.name == "pyproject.toml":
                install(path)
        if block.kind == "python":
            # As many blank lines as stand above the block, so that a traceback names the line of the page.
            exec(compile("\n" * block.line + block.body, page, "exec"), namespace)  # noqa: S102 - our own page
        elif block.kind == "console":
            for command in commands_of(block):
                printed = trimmed(invoke(command.words).splitlines())
                shown = trimmed(command.prints)
                if shown:
                    assert matches(shown, printed), f"{block.place}: {shlex.join(command.words)} prints\n" + "\n".join(
                        printed
                    )
    for name, value in list(namespace.items()):
        if name.startswith("test_") and callable(value):
            value()


def own_words(words: list[str]) -> list[str]:
    """A command without what it leaves to the shell: where its output goes, and that it runs in the background."""
    return list(itertools.takewhile(lambda word: word not in {">", "|", "&"}, words))


SHELL_COMMANDS = [
    pytest.param(own_words(command.words), id=f"{block.place} {shlex.join(command.words)}")
    for page in PAGES
    for block in blocks_of(page)
    if block.kind == "sh"
    for command in commands_of(block)
    if command.words and command.words[0] == "foresail"
]


@pytest.mark.parametrize("words", SHELL_COMMANDS)
def test_commands_that_are_not_run_could_be(words: list[str]):
    command = typer.main.get_command(app)
    rest = words[1:]
    while hasattr(command, "commands"):
        # Raises on a verb that is not there.
        _, command, rest = command.resolve_command(command.context_class(command), list(rest))
    if "--help" not in rest:
        command.make_context(words[1], list(rest))  # raises on unknown options and on missing ones


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_of_a_kind_that_is_known_here(page: Path):
    known = {"python", "console", "sh", "text", "toml", "csv"}
    assert [block.place for block in blocks_of(page) if block.kind not in known] == []


def test_elided_lines_may_be_any():
    assert matches(["a", "…", "d"], ["a", "b", "c", "d"])
    assert not matches(["a", "…", "d"], ["a", "b"])
    assert not matches(["a"], ["a", "b"])
