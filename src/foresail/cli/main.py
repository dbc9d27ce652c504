"""The `foresail` command: gathers the verbs and turns errors into one line and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from foresail import __version__
from foresail.cli import bsp, forecast, lab, measure, topology, trace, train
from foresail.cli.compare import EPILOG as COMPARE_EXAMPLES
from foresail.cli.compare import compare
from foresail.cli.control import EPILOG as CONTROL_EXAMPLES
from foresail.cli.control import control
from foresail.cli.control_check import EPILOG as CHECK_EXAMPLES
from foresail.cli.control_check import control_check
from foresail.cli.controllers import controllers
from foresail.cli.explain import EPILOG as EXPLAIN_EXAMPLES
from foresail.cli.explain import explain
from foresail.cli.extender import EPILOG as EXTENDER_EXAMPLES
from foresail.cli.extender import extender
from foresail.cli.interrupts import interrupting
from foresail.cli.parity import EPILOG as PARITY_EXAMPLES
from foresail.cli.parity import parity
from foresail.cli.policies import policies
from foresail.cli.report import report
from foresail.cli.run import EPILOG as RUN_EXAMPLES
from foresail.cli.run import run
from foresail.cli.simulate import EPILOG as SIMULATE_EXAMPLES
from foresail.cli.simulate import simulate
from foresail.errors import ForesailError, InputError

_INTERRUPTED = 130
_CHECK = "control check"


class _Verbs(TyperGroup):
    """All verbs. Those that keep something when they are interrupted say what in the KeyboardInterrupt itself."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # What follows control are names of controllers otherwise, so it cannot be a group of verbs.
        words = _CHECK.split()
        return super().resolve_command(ctx, [_CHECK, *args[len(words) :]] if args[: len(words)] == words else args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            typer.echo(str(interrupt) or "interrupted", err=True)
            raise typer.Exit(_INTERRUPTED) from None
        except OSError as error:
            if error.filename is None:
                raise _output_error(error) from error
            # Names that are too long, folders that may not be searched: the same words for every verb.
            raise InputError(f"cannot be used: {error.strerror}", path=str(error.filename)) from error


def _output_error(error: OSError) -> Exception:
    """What to raise for an error of the system that names no file: of standard output, or as it is."""
    if error.errno not in {errno.ENOSPC, errno.EIO, errno.EBADF}:
        return error
    with contextlib.suppress(OSError, ValueError):
        # Python itself writes what is left when it ends, and would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ForesailError(f"standard output cannot be written: {error.strerror}")


app = typer.Typer(
    name="foresail",
    cls=_Verbs,
    help="A Kubernetes scheduler that looks ahead, and that you program in Python.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.command(epilog=SIMULATE_EXAMPLES)(simulate)
app.command(epilog=COMPARE_EXAMPLES)(compare)
app.command(epilog=RUN_EXAMPLES)(run)
app.command(epilog=EXPLAIN_EXAMPLES)(explain)
app.command(epilog=PARITY_EXAMPLES)(parity)
app.command(epilog=CONTROL_EXAMPLES)(control)
app.command(_CHECK, epilog=CHECK_EXAMPLES)(control_check)
app.command(epilog=EXTENDER_EXAMPLES)(extender)
app.command()(report)
app.command()(policies)
app.command()(controllers)
app.add_typer(trace.app, name="trace")
app.add_typer(topology.app, name="topology")
app.add_typer(lab.app, name="lab")
app.add_typer(measure.app, name="measure")
app.add_typer(forecast.app, name="forecast")
app.add_typer(bsp.app, name="bsp")
app.add_typer(train.app, name="train")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"foresail {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run one verb; an error the user can mend ends with exit code 2, an interrupt with 130."""
    try:
        with interrupting():
            app()
    except ForesailError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
