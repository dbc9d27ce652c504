"""From a request to its results folder: where it goes, what the manifest says, and where an interrupted run waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foresail.experiments.inputs import input_hashes
from foresail.experiments.request import RunRequest
from foresail.report.html import write_report
from foresail.results.folder import write_run
from foresail.results.key_figures import run_name
from foresail.results.result import RunResult
from foresail.settings import plain
from foresail.sim.checkpoint import Checkpoint

REPORT = "report.html"


def manifest_extra(request: RunRequest, inputs: dict[str, str] | None = None) -> dict[str, Any]:
    """What a manifest says about how to get the run again; the same however the run was started.

    `inputs` are those that were hashed already for another run of the same files.
    """
    hashed = input_hashes(request) if inputs is None else inputs
    return {"command": request.command, "request": plain(request), "inputs": hashed}


def checkpoint_for(out: Path | None, request: RunRequest) -> Checkpoint | None:
    """Where a run in virtual time writes its decisions down; a run by load is too short to need it."""
    if out is None or request.protocol != "clock":
        return None
    return Checkpoint(out.parent / f".{out.name}.checkpoint.npz")


def store_run(
    out: Path, request: RunRequest, result: RunResult, *, overwrite: bool = False, html: bool = True
) -> list[Path]:
    """Write the results folder, and the report into it; return what was written."""
    write_run(out, result, manifest_extra=manifest_extra(request), overwrite=overwrite)
    written = [out]
    if html:
        report = out / REPORT
        write_report(report, [result], title=f"{run_name(result.policy, result.controllers)} on {result.trace}")
        written.append(report)
    checkpoint = checkpoint_for(out, request)
    if checkpoint is not None:
        checkpoint.remove()
    return written
