import pytest
from typer.testing import CliRunner

from foresail.cli.trace import app
from foresail.errors import OptionError
from foresail.experiments.request import RunRequest
from foresail.experiments.run import run
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.traces.training.settings import TrainingSettings

CLOCK = ClockSettings(work="shared-cpu")


def call(*arguments):
    result = CliRunner().invoke(app, ["training", *(str(argument) for argument in arguments)])
    if isinstance(result.exception, OptionError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("start", ["balanced", "cold-images", "random", "released"])
def test_files_give_the_run_that_the_schedule_gives(tmp_path, start):
    told = call("--schedule", "20", "--start", start, "--seed", "3", "--cores", "4", "--out", tmp_path)
    assert "4 nodes with 4 CPUs" in told
    assert "20 training jobs submitted until 600 s" in told
    pins = tmp_path / "pins.csv"
    assert pins.exists() == (start in {"random", "released"})
    made = run(
        RunRequest(
            protocol="clock",
            policy="kubernetes",
            seed=3,
            clock=CLOCK,
            training=TrainingSettings("20", start=start, cores=4.0),
        )
    )
    mib = 1200 if start == "cold-images" else 0
    read = run(
        RunRequest(
            nodes=str(tmp_path / "nodes.yaml"),
            pods=str(tmp_path / "pods.yaml"),
            protocol="clock",
            policy="kubernetes",
            seed=3,
            clock=ClockSettings(work="shared-cpu", pulled_image_mib=mib),
            pin_to=str(pins) if pins.exists() else None,
        )
    )
    assert read.placements["node"] == made.placements["node"]
    assert read.pods["end_s"].tolist() == made.pods["end_s"].tolist()
    assert read.pods["target_s"].tolist() == made.pods["target_s"].tolist()


def test_files_that_are_there_are_kept(tmp_path):
    call("--schedule", "7", "--out", tmp_path)
    before = (tmp_path / "pods.yaml").read_bytes()
    with pytest.raises(OptionError, match=r"nodes.yaml and .*pods.yaml would be overwritten; add --force"):
        call("--schedule", "25", "--out", tmp_path)
    assert (tmp_path / "pods.yaml").read_bytes() == before
    call("--schedule", "25", "--out", tmp_path, "--force")
    assert (tmp_path / "pods.yaml").read_bytes() != before


def test_what_is_missing_or_wrong_is_told(tmp_path):
    with pytest.raises(OptionError, match="--schedule is missing; write 7, 20, 25, 50 or random"):
        call("--out", tmp_path)
    with pytest.raises(OptionError, match='no schedule "24"'):
        call("--schedule", "24", "--out", tmp_path)
    with pytest.raises(OptionError, match="--seed is -1"):
        call("--schedule", "7", "--seed", "-1", "--out", tmp_path)
