"""`foresail run` with a lease as short as a test needs it; started by `RealProcess`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import uvloop

from foresail.core.backoff import Backoff
from foresail.kube.api.lease import LeaderSettings
from foresail.live.scheduler.run import RunSettings, run_scheduler
from foresail.live.serving.server import ServerSettings


def main() -> None:
    said = json.loads(sys.argv[1])
    settings = RunSettings(
        scheduler_name=said["scheduler_name"],
        kubeconfig=Path(said["kubeconfig"]),
        leader_elect=bool(said["lease"]),
        lease=LeaderSettings(
            name=said["lease"] or "none", lease_s=said["lease_s"], renew_s=said["renew_s"], retry_s=said["retry_s"]
        ),
        backoff=Backoff(0.05, 0.4),
        server=ServerSettings(port=0),
    )
    uvloop.run(run_scheduler(settings, announce=lambda what: print(what, flush=True)))


if __name__ == "__main__":
    main()
