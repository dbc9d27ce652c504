from dataclasses import replace

import numpy as np
import pytest

from foresail.errors import OptionError
from foresail.experiments.run import run
from foresail.results import metrics as registry
from foresail.results.key_figures import key_figures
from foresail.results.metrics import Metric, default_metrics, find_metric, measure, metrics, register
from foresail.sim.protocols.clock_settings import ClockSettings


def test_the_key_figures_of_each_protocol():
    assert default_metrics("openb", 1.3) == [
        "allocation_at_130_pct",
        "allocation_at_100_pct",
        "fragmentation_at_130_pct",
        "fragmentation_at_100_pct",
        "fragmentation_ratio_at_130_pct",
        "fragmentation_ratio_at_100_pct",
        "failed_pods",
    ]
    assert default_metrics("openb", 0.8)[0] == "allocation_at_80_pct"
    assert len(default_metrics("openb", 0.8)) == 4
    for name in default_metrics("clock", 1.3):
        assert find_metric(name, "clock", 1.3).name == name


def test_which_way_is_better():
    better = {name: find_metric(name, "openb", 1.3).better for name in default_metrics("openb", 1.3)}
    assert [name for name in better if better[name] == "higher"] == ["allocation_at_130_pct", "allocation_at_100_pct"]
    assert find_metric("allocation_over_time_pct", "clock", 1).better == "higher"
    assert find_metric("wait_p95_s", "clock", 1).better == "lower"


@pytest.mark.parametrize(
    ("name", "protocol", "said"),
    [
        ("allocation_at_150_pct", "openb", 'metric "allocation_at_150_pct" is above the last load, 130 %'),
        ("failed_pod", "openb", 'protocol openb has no metric "failed_pod"; did you mean "failed_pods"?'),
        ("wait_mean_s", "openb", 'protocol openb has no metric "wait_mean_s"'),
        ("allocation_at_100_pct", "clock", 'protocol clock has no metric "allocation_at_100_pct"'),
    ],
)
def test_unknown_metrics_are_refused(name, protocol, said):
    with pytest.raises(OptionError) as refused:
        find_metric(name, protocol, 1.3)
    assert str(refused.value).startswith(said)


def test_values_are_those_of_the_tables(experiment):
    request = experiment().requests()[0]
    result = run(request)
    metrics = [find_metric(name, "openb", 1.3) for name in ("allocation_at_57_pct", "failed_pods")]
    loads = np.asarray(result.by_load["load"])
    row = np.flatnonzero(loads <= 57)[-1]
    assert measure(result, metrics) == {
        "allocation_at_57_pct": result.by_load["allocation_pct"][row],
        "failed_pods": result.summary["failed_pods"],
    }


def test_a_clock_run_has_every_clock_figure(experiment):
    result = run(experiment(protocol="clock").requests()[0])
    names = default_metrics("clock", 1.3)
    measured = measure(result, [find_metric(name, "clock", 1.3) for name in names])
    assert list(measured) == names
    assert None not in measured.values()
    assert measured["wait_mean_s"] == pytest.approx(np.mean(result.pods["wait_s"]))


def test_a_summary_says_what_the_metrics_say(experiment):
    result = run(experiment(protocol="clock").requests()[0])
    figures, summary = measure(result, metrics()), result.summary
    assert figures["allocation_over_time_pct"] == summary["allocation"]["gpu_pct"]
    assert figures["makespan_s"] == summary["makespan_s"]
    for figure in ("mean", "p50", "p95", "p99"):
        assert figures[f"wait_{figure}_s"] == summary["wait_s"][figure]
    for figure in ("mean", "p95"):
        assert figures[f"slowdown_{figure}"] == summary["bounded_slowdown"][figure]
    assert figures["failed_pods"] == summary["failed"]


def test_no_metric_depends_on_how_often_a_snapshot_is_taken(experiment):
    rare, often = (
        run(experiment(protocol="clock", clock=ClockSettings(snapshot_every_s=every_s)).requests()[0])
        for every_s in (1e9, 7.0)
    )
    assert len(rare.timeline["time_s"]) < len(often.timeline["time_s"])
    assert measure(rare, metrics()) == measure(often, metrics())


def test_every_metric_says_what_it_is():
    for metric in metrics():
        assert metric.formula
        assert metric.better in {"higher", "lower"}
        assert metric.unit or metric.name.startswith("slowdown")


def test_a_package_adds_a_metric(experiment, monkeypatch):
    monkeypatch.setattr(registry, "_METRICS", dict(registry._METRICS))
    nodes = Metric("nodes", "cluster size", "nodes", "higher", "rows", lambda one: len(one.nodes["node"]), ("clock",))
    register(nodes)
    assert find_metric("nodes", "clock", 1.3) is nodes
    result = run(experiment(protocol="clock").requests()[0])
    assert measure(result, [nodes]) == {"nodes": 6}
    assert [figure.text for figure in key_figures(result) if figure.label == "cluster size"] == ["6.00 nodes"]
    with pytest.raises(OptionError, match='protocol openb has no metric "nodes"'):
        find_metric("nodes", "openb", 1.3)
    for taken in ("nodes", "allocation_at_7_pct"):
        with pytest.raises(ValueError, match=r"there is a metric .* already"):
            register(replace(nodes, name=taken))
