"""`simulate --from-snapshot`, `trace snapshot` and `explain --live`: options that do not go together."""

import json

import pytest
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.errors import ForesailError, InputError, OptionError

NODE = {
    "kind": "Node",
    "metadata": {"name": "a"},
    "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "9"}},
}
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "1500m"}}}]}}


def foresail(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps([NODE, {"kind": "Pod", **POD}]))
    return path


def test_pods_are_told_their_node_and_the_folder_is_written(cluster, tmp_path):
    pods = tmp_path / "new.json"
    pods.write_text(json.dumps({"kind": "Pod", **POD, "metadata": {"name": "more"}}))
    words = ["simulate", "--from-snapshot", cluster, "--pods", pods, "--out", tmp_path / "out"]
    done = foresail(*words)
    assert done.exit_code == 0, done.exception
    assert "kubernetes on cluster" in done.output
    assert f"1 of 2 pods fit\nwrote {tmp_path / 'out'}\n" in done.output
    assert (tmp_path / "out" / "placements.csv").read_text() == (
        "order,pod,node,devices,time_s\n0,default/p,a,,0\n1,default/more,,,0\n"
    )
    assert "exists already" in str(foresail(*words).exception)
    assert "#0 default/p went to a\n" in foresail("explain", tmp_path / "out", "default/p").output
    more = foresail("explain", tmp_path / "out", "default/more").output
    assert "#1 default/more: 0/1 nodes fit default/more: 1 Insufficient cpu\n" in more
    pods.write_text("[]")
    assert "has changed since the run" in str(foresail("explain", tmp_path / "out", "default/p").exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--load", "2"], "--load does not go with --from-snapshot"),
        (["--nodes", "n.csv"], "--nodes does not go with --from-snapshot"),
        (["--replicas", "2"], "--replicas needs --pods"),
        (["--no-waiting"], "--no-waiting leaves nobody to place"),
    ],
)
def test_options_that_do_not_go_with_a_snapshot(cluster, words, said):
    done = foresail("simulate", "--from-snapshot", cluster, *words)
    assert isinstance(done.exception, OptionError)
    assert said in str(done.exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["simulate"], "--nodes and --pods is missing"),
        (["simulate", "--nodes", "n.csv"], "--pods is missing"),
        (["simulate", "--nodes", "n.csv", "--pods", "p.csv", "--evict-all"], "--evict-all needs --from-snapshot"),
        (["explain", "results"], 'which pod of "results"?'),
        (["explain", "results", "p", "--live"], "--live takes a pod alone, as in: foresail explain p --live"),
        (["explain", "results", "p", "--policy", "fgd"], "--policy needs --live"),
        (["explain", "p", "--live", "--kubeconfig", "no-such-file"], "no-such-file"),
        (["trace", "snapshot", "--out", "cluster.csv"], 'the ending ".csv" is not known'),
        (["trace", "snapshot", "--out", "cluster.yaml", "--kubeconfig", "no-such-file"], "no-such-file"),
    ],
)
def test_what_is_missing_or_too_much_is_told(words, said):
    done = foresail(*words)
    assert isinstance(done.exception, ForesailError)
    assert said in str(done.exception)


def test_a_snapshot_without_nodes_names_the_way_to_get_one(tmp_path):
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"kind": "Pod", **POD}))
    done = foresail("simulate", "--from-snapshot", path)
    assert isinstance(done.exception, InputError)
    assert "foresail trace snapshot --out pods.json" in str(done.exception)
