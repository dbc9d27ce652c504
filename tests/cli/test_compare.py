import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from foresail.cli.compare import EPILOG, compare
from foresail.errors import OptionError, PolicyError, ResultsError
from foresail.plugins.registry import forget_packages
from foresail.traces.generate.generate import GenerateSettings, generate
from foresail.traces.write import write

app = typer.Typer()
app.command(epilog=EPILOG)(compare)


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a tiny trace in it, which is where we are."""
    write(tmp_path / "nodes.csv", tmp_path / "pods.csv", *generate(GenerateSettings(nodes=6, pods=40, seed=1)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


TRACE = ("--nodes", "nodes.csv", "--pods", "pods.csv")


def install(site, monkeypatch, body):
    """A package with the policy "mine", whose score() is the body."""
    dist = site / "mine-1.0.dist-info"
    dist.mkdir(parents=True)
    (site / f"{site.name}_mine.py").write_text(
        "import glob, os, signal\nimport numpy as np\n"
        "class Mine:\n    def seed(self, seed):\n        self._seed = seed\n"
        f"    def score(self, pod, nodes):\n        {body}\n        return np.zeros(len(nodes))\n"
    )
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (dist / "entry_points.txt").write_text(f"[foresail.policies]\nmine = {site.name}_mine:Mine\n")
    monkeypatch.syspath_prepend(str(site))
    forget_packages()


def test_compare_shows_and_writes(here):
    ran = call(*TRACE, "--policy", "fgd", "--policy", "best-fit", "--seeds", "42-43", "--out", "out")
    assert ran.exit_code == 0, ran.output
    assert "↑ allocation_at_130_pct" in ran.stdout
    assert ran.stdout.endswith("4 runs in out/runs\nwrote out/comparison.csv, out/runs.csv and out/report.html\n")
    assert ran.stderr == ""
    assert sorted(path.name for path in (here / "out").iterdir()) == [
        "comparison.csv",
        "experiment.json",
        "report.html",
        "runs",
        "runs.csv",
    ]
    again = call(*TRACE, "--policy", "fgd", "--policy", "best-fit", "--seeds", "42-43", "--out", "out", "-v")
    assert "4 runs (4 of them from before) in out/runs" in again.stdout
    assert again.stderr.splitlines()[0] == "policy fgd, trace pods, seed 42: kept"
    assert len(again.stderr.splitlines()) == 4


def test_a_file_with_options_over_it(here):
    (here / "e.toml").write_text(
        'nodes = "nodes.csv"\npolicies = ["fgd"]\nseeds = [1]\nprotocol = "clock"\n[[traces]]\npods = "pods.csv"\n'
    )
    ran = call("e.toml", "--seeds", "2,3", "--until", 600, "--keep-impossible", "--metric", "wait_mean_s", "-o", "out")
    assert ran.exit_code == 0, ran.output
    lines = (here / "out" / "runs.csv").read_text().splitlines()
    assert lines[0] == "trace,policy,seed,folder,wait_mean_s"
    assert [line.split(",")[2] for line in lines[1:]] == ["2", "3"]
    described = (here / "out" / "experiment.json").read_text()
    assert '"until_s": 600.0' in described
    assert '"fail_impossible": false' in described


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--jobs", 0), "--jobs is 0; at least 1 run goes at a time"),
        (("--ray", ""), "--ray is empty; give the address"),
        (("--seeds", "4-1"), 'seeds are "4-1", but 1 is below 4'),
        (("--policy", "fgdd"), 'no policy "fgdd"; did you mean "fgd"?'),
        (("--baseline", "simon"), 'the baseline "simon" is none of the policies; they are fgd'),
        (("--until", 5), "the clock settings need --protocol clock"),
    ],
)
def test_mistakes_write_nothing(here, options, said):
    ran = call(*TRACE, "--policy", "fgd", "--out", "out", *options)
    assert isinstance(ran.exception, OptionError), ran.output
    assert str(ran.exception).startswith(said)
    assert not (here / "out").exists()


def test_a_missing_ray_says_how_to_get_it(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    ran = call(*TRACE, "--policy", "fgd", "--ray", "local", "--out", "out")
    assert str(ran.exception).endswith("install it with: pip install 'foresail[ray]'")
    assert not (here / "out").exists()


def test_failing_runs_are_named_at_the_end(here, monkeypatch):
    body = "if self._seed == 2: raise ValueError('no luck')"
    install(here / "fails", monkeypatch, body)
    ran = call(*TRACE, "--policy", "fgd", "--policy", "mine", "--seeds", "1-3", "--out", "out")
    assert isinstance(ran.exception, PolicyError)
    first, second = str(ran.exception).splitlines()
    assert first == "1 of 6 runs failed; the others are kept; mend the cause and give the same command again"
    assert second.startswith("  policy mine, trace pods, seed 2: ")
    assert second.endswith("ValueError: no luck")
    assert "5 runs in out/runs" in ran.stdout
    assert len((here / "out" / "runs.csv").read_text().splitlines()) == 6
    forget_packages()


def is_running(pid: str) -> bool:
    """Whether a process is there; one that has ended counts as gone, also where nobody asks what became of it."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_workers_end_with_their_parent(here, monkeypatch, how):
    install(here / "waits", monkeypatch, "open(f'pid-{os.getpid()}', 'w').close(); signal.pause()")
    hears = "signal.signal(signal.SIGHUP, signal.SIG_DFL)"  # nohup lets its children ignore it
    (here / "go.py").write_text(
        f"import signal\nfrom foresail.cli.main import main\n{hears}\nif __name__ == '__main__':\n    main()\n"
    )
    command = [sys.executable, "go.py", "compare", *TRACE, "--policy", "mine", "--policy", "fgd", "--out", "out"]
    monkeypatch.setenv("PYTHONPATH", str(here / "waits"), prepend=os.pathsep)
    until_s = time.monotonic() + 120
    with subprocess.Popen([*command, "--jobs", "2"], stderr=subprocess.PIPE, text=True) as running:
        try:
            while not (begun := list(here.glob("pid-*"))):
                assert time.monotonic() < until_s, "no worker has begun"
                time.sleep(0.05)
            running.send_signal(how)
            said = running.communicate(timeout=120)[1]
        finally:
            running.kill()
    assert running.returncode == (-signal.SIGKILL if how is signal.SIGKILL else 130), said
    for path in begun:
        while is_running(path.name.removeprefix("pid-")):
            assert time.monotonic() < until_s, "a worker is still there"
            time.sleep(0.05)
    forget_packages()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_real_interrupt_keeps_what_is_finished(here, monkeypatch, jobs):
    # The policy itself sends the signal, to the command: in this process, or from a worker to its parent.
    target = "os.getpid()" if jobs == 1 else "os.getppid()"
    # Not before a run is on the disk: a worker may be done long before its parent has written what it was handed.
    body = f"""if self._seed == 9 and not os.path.exists('calm'):
            while not glob.glob('out/runs/*/*/*/manifest.json'): os.sched_yield()
            os.kill({target}, signal.SIGINT)
            signal.pause()"""
    install(here / "signals", monkeypatch, body)
    (here / "go.py").write_text("from foresail.cli.main import main\nif __name__ == '__main__':\n    main()\n")
    command = [
        sys.executable,
        "go.py",
        "compare",
        *TRACE,
        "--policy",
        "fgd",
        "--policy",
        "mine",
        "--seeds",
        "8,9",
        "--out",
        "out",
    ]
    environment = {**os.environ, "PYTHONPATH": str(here / "signals")}

    def go():
        return subprocess.run(
            [*command, "--jobs", str(jobs)], env=environment, capture_output=True, text=True, check=False
        )

    ran = go()
    assert ran.returncode == 130, ran.stderr
    assert ran.stderr == "interrupted; finished runs are kept in out, the same command goes on from there\n"
    finished = len(list((here / "out" / "runs").rglob("manifest.json")))
    assert finished >= 1
    assert not (here / "out" / "comparison.csv").exists()
    assert not [path for path in (here / "out").rglob("*") if path.name.startswith(".")]
    (here / "calm").touch()
    ran = go()
    assert ran.returncode == 0, ran.stderr
    assert f"4 runs ({finished} of them from before) in out/runs" in ran.stdout
    forget_packages()


def test_bad_rows_stop_or_are_dropped_and_counted(here):
    lines = (here / "pods.csv").read_text().splitlines()
    (here / "pods.csv").write_text("\n".join([*lines, "bad" + ",x" * lines[0].count(",")]) + "\n")
    ran = call(*TRACE, "--policy", "fgd", "--out", "out")
    assert str(ran.exception).startswith("pods.csv:42: ")
    assert not (here / "out").exists()
    ran = call(*TRACE, "--policy", "fgd", "--out", "out", "--skip-bad-rows")
    assert ran.exit_code == 0, ran.output
    assert ran.stderr == "trace pods: dropped 1 bad rows\n"


def test_a_foreign_folder_is_refused(here):
    ran = call(*TRACE, "--policy", "fgd", "--out", ".")
    assert isinstance(ran.exception, ResultsError)
    assert str(ran.exception) == ".: is not empty and holds no comparison; name another folder with --out"


def test_help_shows_examples():
    ran = call("--help")
    assert ran.exit_code == 0
    assert "foresail compare experiment.toml --jobs 8" in ran.output
