"""One task of a bulk-synchronous job: awaits each superstep, works, reports, until the job is over.

    python -m foresail.workloads.supersteps.task --board lease://default/job --task a --method bsearch --modifier 4000

Ends with 0 when the job is over or the task another pod's, with 143 at SIGTERM, and with 1 and the reason on standard
error otherwise; started again, it does the step again that it had not reported.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from foresail.workloads.report import EXIT_INTERRUPTED
from foresail.workloads.supersteps.address import FORMS, connect
from foresail.workloads.supersteps.api_server import in_cluster
from foresail.workloads.supersteps.board import BoardError, Finished, TaskBoard, TaskReplacedError
from foresail.workloads.supersteps.records import StepResult
from foresail.workloads.supersteps.work import StressWork, WorkError


def main(arguments: Sequence[str] | None = None) -> int:
    """Be a task until the job is over; returns the exit code."""
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _leave)
    work = StressWork(given.method, given.modifier, given.workers, given.work_timeout_s)
    try:
        work.check()
        store = connect(given.board, lambda: in_cluster(given.api_server, given.api_ca, given.api_token_file))
        with TaskBoard(store, given.task, pod_uid=given.pod_uid, run=given.run) as board:
            return _supersteps(board, work, given.timeout_s)
    except (BoardError, WorkError) as error:
        _say(str(error))
        return 0 if isinstance(error, TaskReplacedError) else 1


def _supersteps(board: TaskBoard, work: StressWork, timeout_s: float) -> int:
    after = -1
    while True:
        found = board.await_step(after, timeout_s)
        if isinstance(found, Finished):
            print(f"foresail superstep finished: {found.reason}", flush=True)
            return 0
        done = work.do(found.workload)
        result = StepResult(board.task, found.step, done.seconds, done.ops, done.started_s, done.ended_s)
        became = board.report(result, timeout_s)
        told = f"workload={found.workload:g} ops={done.ops} seconds={done.seconds:.6f} report={became}"
        print(f"foresail superstep step={found.step} {told}", flush=True)
        after = found.step


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m foresail.workloads.supersteps.task", description="One task of a bulk-synchronous job."
    )
    parser.add_argument("--board", required=True, help=f"where the job's tasks meet: {FORMS}")
    parser.add_argument("--task", required=True, help="name of the task, one for each pod of the job")
    parser.add_argument(
        "--method", default="spin", help="stressor of stress-ng, such as bsearch; or spin (Python alone)"
    )
    parser.add_argument("--modifier", type=float, default=1.0, help="operations for a workload of 1")
    parser.add_argument("--workers", type=int, default=0, help="processes of stress-ng; 0 for one a CPU")
    parser.add_argument("--run", default=os.environ.get("FORESAIL_RUN", ""), help="which run of the job; $FORESAIL_RUN")
    pod = os.environ.get("FORESAIL_POD_UID") or socket.gethostname()
    parser.add_argument("--pod-uid", default=pod, help="uid of the pod; $FORESAIL_POD_UID, else the host's name")
    parser.add_argument("--timeout-s", type=float, default=600.0, help="how long to wait for a step, or for the board")
    parser.add_argument("--work-timeout-s", type=float, default=3600.0, help="how long the work of a step may take")
    parser.add_argument("--api-server", default="", metavar="URL", help="of a lease:// board; else the pod's own")
    parser.add_argument("--api-ca", type=Path, metavar="FILE", help="who signed the API server's certificate")
    parser.add_argument("--api-token-file", type=Path, metavar="FILE", help="a token for the API server")
    return parser


def _leave(*_signal: object) -> NoReturn:
    """SIGTERM: the step that is under way is the next pod's."""
    raise SystemExit(EXIT_INTERRUPTED)


def _say(text: str) -> None:
    sys.stderr.write(f"foresail task: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
