"""`foresail simulate` and `foresail explain` as a user runs them: the real command, real files, exit codes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FORESAIL = str(Path(sys.executable).parent / "foresail")


def foresail(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FORESAIL, *map(str, words)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("inputs") / "trace"
    made = foresail("trace", "generate", "--nodes", 20, "--pods", 200, "--seed", 3, "--out", folder)
    assert made.returncode == 0, made.stderr
    return folder


def inputs(trace: Path) -> list[str | Path]:
    return ["--nodes", trace / "nodes.csv", "--pods", trace / "pods.csv"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("protocol", ["openb", "clock"])
def test_one_seed_writes_the_same_bytes_twice(trace, tmp_path, protocol):
    for name in ("first", "second"):
        done = foresail("simulate", *inputs(trace), "--protocol", protocol, "--policy", "fgd", "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        assert f"wrote {tmp_path / name}" in done.stdout
    first = contents(tmp_path / "first")
    assert first == contents(tmp_path / "second")
    assert {"manifest.json", "placements.csv", "summary.json", "timeline.parquet", "report.html"} <= set(first)
    assert first["placements.csv"].startswith(b"order,pod,node,devices,time_s\n")


def test_the_command_in_the_manifest_gives_the_run_again(trace, tmp_path):
    words = ["--protocol", "clock", "--policy", "power:1+fgd:3", "--arrival-scale", "0.01", "--backoff", "1:10"]
    done = foresail(
        "simulate",
        *inputs(trace),
        *words,
        "--until",
        "20000",
        "--keep-impossible",
        "--preemption",
        "--out",
        tmp_path / "a",
    )
    assert done.returncode == 0, done.stderr
    command = json.loads((tmp_path / "a" / "manifest.json").read_text())["command"]
    again = foresail(*command[1:], "--out", tmp_path / "b")
    assert again.returncode == 0, again.stderr
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "best-fitt"], 'no policy "best-fitt"; did you mean "best-fit"?'),
        (["--policy", "fgd(levels=0)"], "levels is 0"),
        (["--protocol", "clok"], 'no protocol "clok"; did you mean "clock"?'),
        (["--load", "-1"], "--load is -1"),
        (["--load", "nan"], "--load is nan"),
        (["--seed", "-3"], "--seed is -3"),
        (["--faults", "faults.csv"], "--faults needs --protocol clock"),
        (["--protocol", "clock", "--backoff", "ten"], '--backoff is "ten"; write FIRST:MOST'),
        (["--protocol", "clock", "--until", "-5"], "until"),
        (["--nodes", "missing.csv"], "missing.csv"),
    ],
)
def test_bad_options_end_with_2_and_one_clear_line_and_write_nothing(trace, tmp_path, words, said):
    done = foresail("simulate", *inputs(trace), *words, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bad_row_is_named_and_can_be_skipped(trace, tmp_path):
    pods = tmp_path / "pods.csv"
    lines = (trace / "pods.csv").read_text().splitlines()
    lines[5] = lines[5].replace(lines[5].split(",")[1], "-7", 1)
    pods.write_text("\n".join(lines) + "\n")
    words = ["simulate", "--nodes", trace / "nodes.csv", "--pods", pods, "--out", tmp_path / "out"]
    refused = foresail(*words)
    assert refused.returncode == 2
    assert f'{pods}:6: cpu_milli is "-7"' in refused.stderr
    assert not (tmp_path / "out").exists()
    done = foresail(*words, "--skip-bad-rows")
    assert done.returncode == 0
    assert "dropped 1 bad row" in done.stderr


def test_an_earlier_results_folder_is_replaced_only_when_asked(trace, tmp_path):
    words = ["simulate", *inputs(trace), "--policy", "best-fit", "--out", tmp_path / "out"]
    assert foresail(*words).returncode == 0
    refused = foresail(*words)
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert foresail(*words, "--overwrite").returncode == 0


@pytest.mark.parametrize("protocol", ["openb", "clock"])
def test_explain_repeats_the_recorded_decision(trace, tmp_path, protocol):
    out = tmp_path / "out"
    done = foresail("simulate", *inputs(trace), "--protocol", protocol, "--policy", "fgd", "--out", out)
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in (out / "placements.csv").read_text().splitlines()[1:]]
    placed = next(row for row in reversed(rows) if row[2])
    explained = foresail("explain", out, f"#{placed[0]}", "--json")
    assert explained.returncode == 0, explained.stderr
    said = json.loads(explained.stdout)
    assert (said["recorded_node"], said["decision"]["outcome"][1]) == (placed[2], placed[2])
    assert said["decision"]["candidates"][0]["node"] == placed[2]
    asked, refused = said["decision"]["filters"][-1]["asked"], said["decision"]["filters"][-1]["refused"]
    assert said["decision"]["feasible"] == asked - sum(refused.values())
    assert placed[2] in foresail("explain", out, f"#{placed[0]}").stdout


def test_explain_says_why_a_pod_found_no_node(trace, tmp_path):
    out = tmp_path / "out"
    assert foresail("simulate", *inputs(trace), "--policy", "random", "--out", out).returncode == 0
    rows = [line.split(",") for line in (out / "placements.csv").read_text().splitlines()[1:]]
    failed = next(row for row in rows if not row[2])
    assert "0/20 nodes fit" in foresail("explain", out, f"#{failed[0]}").stdout.replace("\n", " ")


def test_explain_of_a_pod_that_is_not_there(trace, tmp_path):
    out = tmp_path / "out"
    assert foresail("simulate", *inputs(trace), "--out", out).returncode == 0
    for pod, said in (("pod-99999", 'no pod "pod-99999"'), ("#100000", 'no order "#100000"')):
        refused = foresail("explain", out, pod)
        assert refused.returncode == 2
        assert said in refused.stderr


def test_inputs_that_changed_since_the_run_cannot_explain_it(trace, tmp_path):
    pods = tmp_path / "pods.csv"
    pods.write_bytes((trace / "pods.csv").read_bytes())
    out = tmp_path / "out"
    assert foresail("simulate", "--nodes", trace / "nodes.csv", "--pods", pods, "--out", out).returncode == 0
    pods.write_text(pods.read_text().replace("pod-0000000", "pod-renamed"))
    refused = foresail("explain", out, "#0")
    assert refused.returncode == 2
    assert "has changed since the run" in refused.stderr


def test_inputs_that_are_gone_are_named(trace, tmp_path):
    pods = tmp_path / "pods.csv"
    pods.write_bytes((trace / "pods.csv").read_bytes())
    out = tmp_path / "out"
    assert foresail("simulate", "--nodes", trace / "nodes.csv", "--pods", pods, "--out", out).returncode == 0
    pods.unlink()
    refused = foresail("explain", out, "#0")
    assert refused.returncode == 2
    assert f"{pods}: cannot be read any more" in refused.stderr


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_interrupt_ends_with_130_and_leaves_no_half_folder(trace, tmp_path):
    big = tmp_path / "big"
    assert foresail("trace", "generate", "--nodes", 200, "--pods", 60_000, "--seed", 1, "--out", big).returncode == 0
    out = tmp_path / "out"
    words = ["simulate", "--protocol", "clock", *map(str, inputs(big)), "--arrival-scale", "0.001", "--out", str(out)]
    with subprocess.Popen([FORESAIL, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        while cpu_seconds(running.pid) < 3:  # well past the start, well before the end
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert said.splitlines()[-1] == "interrupted; the same command goes on from there"
    assert not out.exists()


def test_results_are_stored_where_nobody_can_be_told(trace, tmp_path):
    out = tmp_path / "out"
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123 - a device
        words = [FORESAIL, "simulate", *map(str, inputs(trace)), "--out", str(out)]
        ran = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (
        2,
        "error: standard output cannot be written: No space left on device",
    )
    assert (out / "manifest.json").exists()


def test_a_polite_end_leaves_no_part_of_a_file(tmp_path):
    out = tmp_path / "big"
    words = ["trace", "generate", "--nodes", "2000", "--pods", "3000000", "--seed", "1", "--out", str(out)]
    with subprocess.Popen([FORESAIL, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        while cpu_seconds(running.pid) < 2:
            assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        said = running.communicate(timeout=60)[1]
    assert (running.returncode, "interrupted" in said) == (130, True), said
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
