"""An experiment with a bulk-synchronous job on a real cluster, from its pods to its rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from foresail.experiments.supersteps.experiment import ExperimentJob, SuperstepsExperiment, prepare
from foresail.kube.api.client import Client
from foresail.kube.api.connect import Connection
from foresail.live.boards import api_access
from foresail.live.program import Announce, connected, run_until_signal
from foresail.live.supersteps.coordinator import SuperstepsProgram
from foresail.live.supersteps.job import GangJob, JobFailedError, RowFile, SuperstepRow
from foresail.live.supersteps.pods import GangPods
from foresail.logs import get_logger
from foresail.workloads.supersteps.address import connect
from foresail.workloads.supersteps.board import CoordinatorBoard

ROWS = "supersteps.jsonl"


def gang_job(experiment: SuperstepsExperiment, prepared: ExperimentJob) -> GangJob:
    """The job as a coordinator takes it."""
    return GangJob(
        name=experiment.name,
        run=experiment.run,
        tasks=experiment.gang_tasks,
        works=prepared.works,
        splitter=prepared.splitter,
        measures_penalty=experiment.measures_penalty,
    )


def run_experiment(
    experiment: SuperstepsExperiment,
    connection: Connection,
    out: Path,
    *,
    announce: Announce,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[SuperstepRow]:
    """Run the job, or go on with it, until it ends; JobFailedError says why it did not come to a good end.

    What was seen stands in `out` at any time. KeyboardInterrupt if a signal came first: the job waits on the cluster.
    """
    # Kernels are compiled before anything begins: a coordinator that is busy for seconds would lose its Lease.
    prepare(experiment).splitter.decide(0, experiment.length, None, None)
    job = gang_job(experiment, prepare(experiment))
    rows = RowFile(out / ROWS)
    asyncio.run(_run(job, experiment, connection, rows, announce, on_progress))
    return rows.rows()


async def _run(
    job: GangJob,
    experiment: SuperstepsExperiment,
    connection: Connection,
    rows: RowFile,
    announce: Announce,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    store = connect(experiment.board, lambda: api_access(connection))
    with CoordinatorBoard(store, run=job.run, tell=_log) as board:
        async with await connected(connection, announce) as api:
            settings = experiment.cluster
            program = SuperstepsProgram(
                *(job, settings, api, board, experiment.board), rows=rows, announce=announce, on_progress=on_progress
            )
            await run_until_signal(program)
    if not program.finished:
        raise KeyboardInterrupt(
            f"interrupted; {job.name} waits on the cluster with superstep {len(rows.rows())}: the same command "
            "goes on, and --delete removes it"
        )
    if program.failure:
        raise JobFailedError(program.failure)


def _log(text: str) -> None:
    get_logger().info("board", said=text)


def delete_experiment(experiment: SuperstepsExperiment, connection: Connection) -> None:
    """Remove the job of this name from the cluster, whichever experiment it is of."""
    job = gang_job(replace(experiment, forecast="perfect"), prepare(replace(experiment, forecast="perfect")))

    async def remove() -> None:
        async with Client(connection) as api:
            await GangPods(api, job, experiment.board, experiment.cluster).remove()

    asyncio.run(remove())
    store = connect(experiment.board, lambda: api_access(connection))
    with CoordinatorBoard(store, run=job.run) as board:
        board.remove()
