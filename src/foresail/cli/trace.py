"""`foresail trace`: check, fetch, make and record the inputs of a simulation."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foresail.cli.trace_generate import EPILOG as GENERATE_EXAMPLES
from foresail.cli.trace_generate import generate
from foresail.cli.trace_snapshot import EPILOG as SNAPSHOT_EXAMPLES
from foresail.cli.trace_snapshot import snapshot
from foresail.cli.trace_training import EPILOG as TRAINING_EXAMPLES
from foresail.cli.trace_training import training
from foresail.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from foresail.traces.check.checks import Finding
    from foresail.traces.openb.get import Fetched, PublicFile

app = typer.Typer(
    name="trace",
    help="Check, fetch, make and record traces: node lists and pod lists.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.command("generate", epilog=GENERATE_EXAMPLES)(generate)
app.command("training", epilog=TRAINING_EXAMPLES)(training)
app.command("snapshot", epilog=SNAPSHOT_EXAMPLES)(snapshot)

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}
_PIPE_WIDTH = 100_000
"""A pipe has no edge: one finding stays one line there."""


@app.command()
def check(
    nodes: Annotated[
        Path | None, typer.Argument(metavar="NODES", help="Node list: .csv, .parquet, .yaml, .json or .jsonl.")
    ] = None,
    pods: Annotated[
        Path | None, typer.Argument(metavar="PODS", help="Pod list: .csv, .parquet, .yaml, .json or .jsonl.")
    ] = None,
    *,
    nodes_option: Annotated[Path | None, typer.Option("--nodes", help="Node list, to check it alone.")] = None,
    pods_option: Annotated[Path | None, typer.Option("--pods", help="Pod list, to check it alone.")] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="CODE", help="Say what a code means; needs no files.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """List everything that is wrong or odd with a trace.

    Ends with 0 if the trace can be used (warnings and notes may be there), with 2 if there are errors.

    For example:

        foresail trace check nodes.csv pods.csv

        foresail trace check --pods pods.csv --json

        foresail trace check --explain FS211
    """
    if explain is not None:
        _print_explanation(explain, as_json=as_json)
        return
    nodes_path, pods_path = _one("NODES", nodes, nodes_option), _one("PODS", pods, pods_option)
    if nodes_path is None and pods_path is None:
        raise OptionError("nothing to check; name a node list and a pod list, or one of them with --nodes or --pods")

    from foresail.traces.trace import check as check_files

    findings = check_files(nodes_path, pods_path)
    count = {severity: sum(finding.severity == severity for finding in findings) for severity in _COLOURS}
    if as_json:
        totals = {f"{severity}s": number for severity, number in count.items()}
        typer.echo(json.dumps({**totals, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _print_findings(findings)
        typer.echo(_verdict(count))
    if count["error"]:
        raise typer.Exit(2)


@app.command()
def get(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="Which traces: openb.")],
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="Folder to write to.", show_default="~/.cache/foresail/traces/openb"),
    ] = None,
    only: Annotated[
        str, typer.Option("--only", metavar="NAMES", help="Pod lists by short name, with commas; all if left out.")
    ] = "",
    mirror: Annotated[
        str | None, typer.Option("--mirror", metavar="URL", help="Base address to fetch from (https, http, file).")
    ] = None,
    from_folder: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="Copy from a local folder instead of the network.")
    ] = None,
) -> None:
    """Fetch the public openb GPU traces (26 files, 13 MB) and check every byte.

    An interrupted download goes on where it stopped; files that are there and right are left alone.

    For example:

        foresail trace get openb

        foresail trace get openb --only default,gpuspec33 --to data

        foresail trace get openb --from /mnt/usb/openb
    """
    if trace != "openb":
        raise OptionError(f'no public trace "{trace}"{did_you_mean(trace, ["openb"])} (there is openb)')
    if mirror is not None and from_folder is not None:
        raise OptionError("--mirror and --from name two sources; give one of them")
    if from_folder is not None and not from_folder.is_dir():
        raise OptionError(f'--from is "{from_folder}"; there is no such folder')

    from foresail.traces.openb import get as public

    names = [name.strip() for name in only.split(",") if name.strip()]
    source = mirror or (from_folder.resolve().as_uri() if from_folder is not None else public.OPENB_URL)
    try:
        done = _get_with_bars(public.choose(names), to or public.openb_cache(), source)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command goes on from there") from None
    typer.echo(
        f"{len(done.fetched) + len(done.present)} files in {done.folder} "
        f"({len(done.fetched)} fetched, {len(done.present)} there already), all sums right"
    )


def _get_with_bars(files: tuple[PublicFile, ...], to: Path, source: str) -> Fetched:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn

    from foresail.traces.openb.get import get_files

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    bars: dict[str, TaskID] = {}
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def show(file: PublicFile, done_bytes: int, /) -> None:
            if file.name not in bars:
                bars[file.name] = progress.add_task(file.name, total=file.size_bytes)
            progress.update(bars[file.name], completed=done_bytes)

        return get_files(files, to, mirror=source, progress=show)


def _one(what: str, argument: Path | None, option: Path | None) -> Path | None:
    if argument is not None and option is not None:
        raise OptionError(f"{what} is given twice: {argument} and --{what.lower()} {option}; give one of them")
    return argument if argument is not None else option


def _print_explanation(code: str, *, as_json: bool) -> None:
    from foresail.traces.check.explanations import EXPLANATIONS

    explanation = EXPLANATIONS.get(code.upper())
    if explanation is None:
        hint = did_you_mean(code.upper(), EXPLANATIONS)
        raise OptionError(f'no finding "{code}"{hint} (the codes go from {min(EXPLANATIONS)} to {max(EXPLANATIONS)})')
    if as_json:
        typer.echo(json.dumps({"code": code.upper(), **asdict(explanation)}, indent=2))
        return
    typer.echo(
        f"{code.upper()} ({explanation.severity}): {explanation.title}\n\n"
        f"Why it matters: {explanation.why}\n"
        f"What to do:     {explanation.remedy}\n"
        f"Example:        {explanation.example}"
    )


def _print_findings(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not findings:
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPE_WIDTH)
    table = Table("#", "code", "severity", "place", "message", box=None, pad_edge=False)
    for number, finding in enumerate(findings, 1):
        place = finding.path if finding.line is None else f"{finding.path}:{finding.line}"
        severity = Text(finding.severity, style=_COLOURS[finding.severity])
        # Text, not markup: a pod may be called "[red]".
        table.add_row(str(number), finding.code, severity, Text(place, overflow="fold"), Text(finding.message))
    console.print(table)


def _verdict(count: dict[str, int]) -> str:
    parts = [f"{number} {severity}{'' if number == 1 else 's'}" for severity, number in count.items()]
    verdict = "the trace cannot be used as it is" if count["error"] else "the trace can be used"
    hint = " (foresail trace check --explain CODE says more)" if any(count.values()) else ""
    return f"{', '.join(parts)}: {verdict}{hint}"
