import numpy as np
import pytest

from foresail.errors import OptionError
from foresail.experiments.run import run
from foresail.results.metrics import default_metrics, find_metric, measure


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
