import importlib
import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.clock import SimClock
from foresail.core.profile import Profile, UsedScore
from foresail.core.spec import Gang, NodeSpec, PodSpec, Workload
from foresail.errors import ResultsError
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.plain.fit import Fit, Schedulable
from foresail.policies.profiles.load import load_profile
from foresail.sim.checkpoint import Checkpoint
from foresail.sim.faults import Faults
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.traces.trace import Trace


def make_trace(seed: int = 0, pods: int = 700) -> Trace:
    """A busy little cluster: queues, priorities, gangs, GPU shares."""
    random = np.random.default_rng(seed)
    specs = [PodSpec(cpu_milli=1000)]
    specs += [PodSpec(cpu_milli=500, gpu_count=1, gpu_milli=milli) for milli in (250, 400, 1000)]
    specs += [PodSpec(cpu_milli=4000, gpu_count=2, gpu_milli=1000)]
    gang_of = np.where(random.random(pods) < 0.1, random.integers(0, 6, pods), -1)
    workload = Workload(
        names=[f"p{number}" for number in range(pods)],
        specs=specs,
        spec_of=random.integers(0, len(specs), pods),
        arrival_s=np.sort(random.integers(0, 600, pods)).astype(np.float64),
        duration_s=random.integers(0, 40, pods).astype(np.float64),
        priority=random.integers(0, 2, pods),
        gang_of=gang_of,
        gangs=[Gang(f"g{number}", 3, 50.0) for number in range(6)],
    )
    nodes = [NodeSpec(f"n{number}", 8000, 0, 4, "T4") for number in range(4)]
    return Trace(f"busy-{seed}", nodes, workload)


class Lottery:
    """A score that draws from the run's seed, one number a decision."""

    row_wise = False

    def seed(self, seed):
        self._random = np.random.default_rng(seed)

    def score(self, _pod, nodes):
        return self._random.random(len(nodes))


class Silent:
    """A score that does not say whether it is row-wise."""

    def score(self, _pod, nodes):
        return nodes.free[:, 0].astype(np.float64)


class Counting(Silent):
    """A score that says it is row-wise, and counts how often it is asked."""

    row_wise = True
    asked = 0

    def score(self, pod, nodes):
        self.asked += 1
        return super().score(pod, nodes)


def make_profile(policy) -> Profile:
    filters = [("schedulable", Schedulable()), ("fit", Fit())]
    return Profile("mine", filters=filters, scores=[UsedScore("mine", policy)], devices=LeastSufficient())


MAKERS = {
    "fgd": lambda: load_profile("fgd"),
    "random": lambda: load_profile("random"),
    "lottery": lambda: make_profile(Lottery()),
    "silent": lambda: make_profile(Silent()),
}
SETTINGS = ClockSettings(snapshot_every_s=10, gang_restart="all")


def go(trace, profile, **more):
    faults = Faults.random(trace.nodes, mttf_s=300, mttr_s=40, until_s=700, seed=5)
    return run_clock(trace, profile, seed=8, settings=SETTINGS, faults=faults, **more)


def bytes_of(result) -> bytes:
    parts = [result.placements, result.timeline, result.nodes, result.pods]
    columns = [(name, np.asarray(values).tolist()) for table in parts for name, values in table.items()]
    return (repr(columns) + json.dumps(result.summary)).encode()


def interrupted(trace, profile, checkpoint, at: int) -> None:
    """Run until the `at`-th word of progress, and then as if the user had pressed Ctrl-C."""
    told = 0

    def stop(_done, _whole):
        nonlocal told
        told += 1
        if told > at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(trace, profile, checkpoint=checkpoint, on_progress=stop)


@pytest.mark.parametrize("policy", MAKERS)
def test_an_interrupted_run_ends_as_if_it_had_not_been(tmp_path, policy):
    trace = make_trace()
    whole = bytes_of(go(trace, MAKERS[policy]()))
    path = tmp_path / "run.checkpoint"
    resumed = []
    for at in (0, 1, 2):  # interrupted three times, each time further on
        interrupted(trace, MAKERS[policy](), Checkpoint(path), at)
    checkpoint = Checkpoint(path)
    assert bytes_of(go(trace, MAKERS[policy](), checkpoint=checkpoint)) == whole
    resumed.append(checkpoint.resumed)
    assert resumed[0] > 100
    # And once more, from the whole of it: the results were not written in time, say.
    checkpoint = Checkpoint(path)
    assert bytes_of(go(trace, MAKERS[policy](), checkpoint=checkpoint)) == whole
    assert checkpoint.resumed > resumed[0]
    checkpoint.remove()
    checkpoint.remove()
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), part=st.floats(0, 1), policy=st.sampled_from(sorted(MAKERS)))
def test_a_run_can_go_on_after_any_decision(tmp_path_factory, seed, part, policy):
    """A crash leaves what was last saved, which may be as much or as little as you like."""
    trace = make_trace(seed, pods=120)
    path = tmp_path_factory.mktemp("crash") / "run.checkpoint"
    checkpoint = Checkpoint(path)
    whole = bytes_of(go(trace, MAKERS[policy](), checkpoint=checkpoint))
    count = int(part * len(checkpoint._rows))
    for name in ("_rows", "_scores", "_device_counts"):
        setattr(checkpoint, name, getattr(checkpoint, name)[:count])
    checkpoint.save()
    again = Checkpoint(path)
    assert bytes_of(go(trace, MAKERS[policy](), checkpoint=again)) == whole
    assert again.resumed == count


def test_known_decisions_are_not_made_again(tmp_path):
    trace = make_trace()
    first, second = Counting(), Counting()
    whole = go(trace, make_profile(first), checkpoint=Checkpoint(tmp_path / "c"))
    again = go(trace, make_profile(second), checkpoint=Checkpoint(tmp_path / "c"))
    assert bytes_of(whole) == bytes_of(again)
    assert (first.asked > 100, second.asked) == (True, 0)


class Restless(SimClock):
    """A clock that moves on by a second whenever it is looked at."""

    def now(self) -> float:
        self.advance_to(super().now() + 1)
        return super().now()


def test_what_is_decided_is_saved_as_time_goes_by(tmp_path):
    path = tmp_path / "c"
    sizes = []

    def look(_done, _whole):
        sizes.append(path.stat().st_size if path.exists() else 0)

    go(make_trace(), load_profile("fgd"), checkpoint=Checkpoint(path, every_s=1, clock=Restless()), on_progress=look)
    assert sizes[0] == 0
    assert sizes == sorted(sizes)
    assert 0 < sizes[1] < path.stat().st_size


def test_the_checkpoint_of_another_run_is_refused_by_what_differs(tmp_path):
    path = tmp_path / "c"
    trace = make_trace(pods=20)
    run_clock(trace, load_profile("fgd"), seed=1, checkpoint=Checkpoint(path))
    saved = path.read_bytes()
    faults = Faults.random(trace.nodes, mttf_s=300, mttr_s=40, until_s=700, seed=5)
    fewer_nodes = Trace(trace.name, trace.nodes[:3], trace.workload)
    for run, differs in (
        (lambda: run_clock(trace, load_profile("fgd"), seed=2, checkpoint=Checkpoint(path)), r"seed \(1, now 2\)"),
        (lambda: run_clock(make_trace(1, 20), load_profile("fgd"), seed=1, checkpoint=Checkpoint(path)), "pods"),
        (lambda: run_clock(fewer_nodes, load_profile("fgd"), seed=1, checkpoint=Checkpoint(path)), "nodes"),
        (lambda: run_clock(trace, load_profile("best-fit"), seed=1, checkpoint=Checkpoint(path)), "profile"),
        (
            lambda: run_clock(
                trace, load_profile("fgd"), seed=1, settings=ClockSettings(until_s=3), checkpoint=Checkpoint(path)
            ),
            "settings",
        ),
        (
            lambda: run_clock(trace, load_profile("fgd"), seed=1, faults=faults, checkpoint=Checkpoint(path)),
            "faults",
        ),
    ):
        with pytest.raises(
            ResultsError, match=f"c: this is the checkpoint of another run; what differs: {differs}. Go"
        ):
            run()
        assert path.read_bytes() == saved  # nothing is written over


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(ResultsError, match=r"cannot be read as a checkpoint .*; remove the file to start over"):
        go(make_trace(pods=5), load_profile("fgd"), checkpoint=Checkpoint(path))
    assert path.read_bytes() == content


def test_a_policy_that_changed_in_secret_is_found_out_where_decisions_are_made_again(tmp_path):
    class Lottery2(Lottery):
        def score(self, pod, nodes):
            return -super().score(pod, nodes)

    Lottery2.__qualname__ = Lottery.__qualname__
    trace = make_trace(pods=50)
    go(trace, make_profile(Lottery()), checkpoint=Checkpoint(tmp_path / "c"))
    with pytest.raises(ResultsError, match=r"decision \d+ comes out differently this time"):
        go(trace, make_profile(Lottery2()), checkpoint=Checkpoint(tmp_path / "c"))


def test_a_checkpoint_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="the checkpoint cannot be written"):
        go(make_trace(pods=5), load_profile("fgd"), checkpoint=Checkpoint(tmp_path / "file" / "c"))


POLICY = """
class Own:
    row_wise = True

    def __init__(self, reads=()):
        self.reads = reads

    def score(self, _pod, nodes):
        return {sign}nodes.free[:, 0]
"""
CONTROLLER = """
class Own:
    every_s = 100.0

    def act(self, _view):
        return []  # {sign}
"""


@pytest.mark.parametrize("what", ["policy", "controller"])
def test_an_edited_plugin_does_not_go_on_where_another_stopped(packages, what):
    """It would get the other's decisions from the file, and its results would be neither's."""
    trace, path = make_trace(pods=60), packages / "c"

    def go_on(sign: str) -> None:
        text = POLICY if what == "policy" else CONTROLLER
        (packages / "own_plugin.py").write_text(text.replace("{sign}", sign))
        sys.modules.pop("own_plugin", None)
        importlib.invalidate_caches()
        own = importlib.import_module("own_plugin").Own()
        profile = make_profile(own) if what == "policy" else load_profile("fgd")
        controllers = {"own": own} if what == "controller" else None
        run_clock(trace, profile, checkpoint=Checkpoint(path), controllers=controllers)

    go_on("+1 * ")
    go_on("+1 * ")
    with pytest.raises(ResultsError, match=r"another run; what differs: source of plug-ins\. Go back"):
        go_on("-1 * ")


def test_a_file_that_a_plugin_reads_is_a_part_of_the_run(packages):
    (packages / "own_reader.py").write_text(POLICY.replace("{sign}", ""))
    own, model = importlib.import_module("own_reader").Own, packages / "model.npz"
    trace, path = make_trace(pods=60), packages / "c"
    model.write_bytes(b"one")
    run_clock(trace, make_profile(own(reads=model)), checkpoint=Checkpoint(path))
    model.write_bytes(b"two")
    with pytest.raises(ResultsError, match=r"another run; what differs: files that plug-ins read\. Go back"):
        run_clock(trace, make_profile(own(reads=model)), checkpoint=Checkpoint(path))
