"""From a training loop to what a controller reads, one test a transport; over HTTP it stands in test_telemetry_cluster.

The loop is a process of its own with the reporter as users copy it; on the way come rows that do not count.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CollectorRegistry
from tests.kube.scripted_server import serving
from tests.live.telemetry.reporting import Reporting
from tests.live.telemetry.test_pod_log import Kubelet
from tests.live.telemetry.test_tfrecord import framed
from tests.live.telemetry.training import WITHIN_S, TrainingProcess

from foresail.core.control import LOSS, STEPS_DONE, STEPS_TOTAL
from foresail.live.telemetry.settings import TelemetrySettings
from foresail.live.telemetry.sources import Sources

JOB = "team/train"


class Watched(Reporting):
    """A job's pod, and what a controller is told of it."""

    def __init__(self, settings: TelemetrySettings, **annotations: str) -> None:
        super().__init__()
        self.kubelet = Kubelet()
        self.registry_of_its_own = CollectorRegistry()
        stated = {f"foresail.dev/progress-{name}": text for name, text in annotations.items()}
        about = {"scheduler_name": "foresail", "registry": self.registry_of_its_own}
        nobody: Any = None  # each look has a client of its own
        self.telemetry = Sources(settings, nobody, self.cache, self.clock, **about)
        self.uid = self.run("pod-1", job="train", began_s=int(time.time()) - 1000, annotations=stated)
        self.logs: list[dict[str, Any]] = []

    def look(self, after_s: float = 60.0) -> tuple[float | None, ...]:
        """What a controller reads, after every source has looked once more."""

        async def look() -> None:
            async with serving(self.kubelet) as api:
                for source in (self.telemetry._csv, self.telemetry._events, self.telemetry._logs):
                    if source is not None:
                        source._api = api
                        await source.look()

        self.clock.advance_to(self.clock.now() + after_s)
        with structlog.testing.capture_logs() as logs:
            asyncio.run(look())
        self.logs += logs
        return tuple(self.telemetry.reading(self.uid, name) for name in (STEPS_DONE, STEPS_TOTAL, LOSS))

    def look_until(self, wanted: tuple[float | None, ...], verdicts: dict[str, int]) -> None:
        """For writers that take their time to put on disk what they were given."""
        end_s = time.monotonic() + WITHIN_S
        while (seen := (self.look(), self.verdicts())) != (wanted, verdicts):
            assert time.monotonic() < end_s, seen
            time.sleep(0.05)

    def verdicts(self) -> dict[str, int]:
        """How many rows of each verdict there were."""
        found = {}
        for family in self.registry_of_its_own.collect():
            for one in family.samples:
                if one.name == "foresail_progress_rows_total" and one.value:
                    found[one.labels["verdict"]] = int(one.value)
        return found

    def told(self) -> list[str]:
        """Why rows were skipped, as the log says it of this job."""
        skipped = [one for one in self.logs if one["event"] == "progress_row_skipped"]
        assert {one["job"] for one in skipped} <= {JOB}
        return [one["why"] for one in skipped]


def test_rows_on_a_shared_volume(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "team").mkdir(parents=True)
    watched = Watched(TelemetrySettings(progress_dirs=(str(shared),)))
    environment = {"FORESAIL_JOB": "train", "FORESAIL_PROGRESS_DIR": str(shared / "team")}
    with TrainingProcess(tmp_path / "image", **environment) as training:
        training.report(step=10, total=100, loss=0.5, accuracy=0.25)
        assert watched.look() == (10.0, 100.0, 0.5)
        file = shared / "team/train/progress.csv"
        written = file.read_text().splitlines()[-1]
        at_s = float(written.split(",")[0])
        late, back = f"{at_s - 60:.3f},9,100,0.9,,", f"{at_s + 0.001:.3f},5,100,0.9,,"
        with file.open("a") as rows:
            rows.write(f"12,nonsense\n{written}\n{late}\n{back}\n")
        assert watched.look() == (10.0, 100.0, 0.5)
        assert watched.verdicts() == {"taken": 1, "damaged": 1, "doubled": 1, "late": 1, "out_of_order": 1}
        assert watched.told() == [
            "the line has 2 cells, its file 6 columns",
            "step 10 was told before",
            "it is 60.000 s older than the last row, of step 10",
            'it goes back from step 10 to 5 without the note "resume"',
        ]
        training.report(step=20, total=100, loss=0.25)
        assert watched.look() == (20.0, 100.0, 0.25)
    # The next pod's process goes on in the same file.
    with TrainingProcess(tmp_path / "next", **environment) as training:
        training.report(step=15, total=100, loss=0.375)
        assert watched.look() == (15.0, 100.0, 0.375)
    assert watched.verdicts()["taken"] == 3


def test_lines_in_a_pods_log(tmp_path: Path) -> None:
    watched = Watched(TelemetrySettings(progress_logs=True))
    with TrainingProcess(tmp_path / "image", FORESAIL_JOB="train") as training:

        def printed(count: int) -> None:
            """As the kubelet has it, once the process has printed so many lines."""
            end_s = time.monotonic() + WITHIN_S
            while len(training.lines) < count:
                assert time.monotonic() < end_s, training.lines
                time.sleep(0.01)
            log(training.lines[count - 1].rstrip("\n"))

        def log(text: str) -> None:
            watched.kubelet.lines.setdefault("pod-1", []).append((datetime.now(UTC), text))

        training.report(step=10, total=100, loss=0.5)
        printed(1)
        assert watched.look() == (10.0, 100.0, 0.5)
        for text in (
            training.lines[0].rstrip("\n"),
            "foresail progress step=ten",
            "foresail progress step=900 total=100",
        ):
            log(text)
        assert watched.look() == (10.0, 100.0, 0.5)
        training.report(step=20, total=100, loss=0.25)
        printed(2)
        assert watched.look() == (20.0, 100.0, 0.25)
    assert watched.verdicts() == {"taken": 2, "doubled": 1, "damaged": 2}
    assert watched.told()[0] == "step 10 was told before"


def test_event_files_of_tensorboard(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    watched = Watched(TelemetrySettings(tensorboard_dirs=(str(shared),)), total="100")
    with TrainingProcess(tmp_path / "image", board=shared / "team/train") as training:
        training.report(step=10, loss=0.5)
        watched.look_until((10.0, 100.0, 0.5), {"taken": 1})
        training.report(step=10, loss=0.5)
        watched.look_until((10.0, 100.0, 0.5), {"taken": 1, "doubled": 1})
        damaged = bytearray(framed(b"no event, and cut about"))
        damaged[-1] ^= 1
        (shared / "team/train/events.out.tfevents.1.other").write_bytes(bytes(damaged))
        watched.look_until((10.0, 100.0, 0.5), {"taken": 1, "doubled": 1, "damaged": 1})
        training.report(step=20, loss=0.25)
        watched.look_until((20.0, 100.0, 0.25), {"taken": 2, "doubled": 1, "damaged": 1})
    assert "step 10 was told before" in watched.told()
