import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.report import plots
from foresail.report.heatmap import MOST_CELLS, node_map
from foresail.report.html import report_figures
from foresail.report.style import colour_and_dash
from foresail.report.thin import MOST_POINTS, thin

DIFFERENCES = [
    {"policy": "fgd", "baseline": "best-fit", "metric": "allocation_pct", "mean": 2.3, "low": 2.0, "high": 2.6},
    {"policy": "near", "baseline": "best-fit", "metric": "allocation_pct", "mean": 0.1, "low": -0.2, "high": 0.4},
    {"policy": "fgd", "baseline": "best-fit", "metric": "wait_s", "mean": -3.0, "low": -4.0, "high": -2.0},
]
for row, unit in zip(DIFFERENCES, ("percentage points", "percentage points", "s"), strict=True):
    row["unit"] = unit


def test_plotly_accepts_every_figure(make_openb, make_clock):
    figures = report_figures([make_openb("a"), make_openb("b"), make_clock("c")], DIFFERENCES)
    assert list(figures) == [
        "paired-differences",
        "allocation-by-load",
        "fragmentation-by-load",
        "utilisation",
        "waiting-pods",
        "wait-distribution",
        "fragment-classes-1",
        "nodes-1",
        "fragment-classes-2",
        "nodes-2",
        "fragment-classes-3",
        "nodes-3",
    ]
    for figure in figures.values():
        go.Figure(figure)


def test_a_run_without_a_table_has_no_plot_of_it(make_openb, make_clock):
    assert list(report_figures([make_openb()])) == [
        "allocation-by-load",
        "fragmentation-by-load",
        "fragment-classes",
        "nodes",
    ]
    assert list(report_figures([make_clock()])) == [
        "utilisation",
        "waiting-pods",
        "wait-distribution",
        "fragment-classes",
        "nodes",
    ]


@settings(deadline=None)
@given(
    rows=st.integers(1, 5000),
    lines=st.integers(1, 7),
    most=st.integers(30, 500),
    seed=st.integers(0, 2**32 - 1),
)
def test_thinning_keeps_the_ends_and_every_extreme(rows, lines, most, seed):
    values = [np.random.default_rng([seed, line]).normal(size=rows) for line in range(lines)]
    kept = thin(values, most)
    assert len(kept) <= most
    assert (np.diff(kept) > 0).all()
    assert (kept[0], kept[-1]) == (0, rows - 1)
    for line in values:
        assert (line[kept].min(), line[kept].max()) == (line.min(), line.max())


def test_a_million_rows_become_a_plot_that_still_shows_the_peak(make_clock, long_timeline):
    timeline = long_timeline(1_000_000)
    timeline["used_gpu_milli"] = np.full(1_000_000, 1000)
    timeline["used_gpu_milli"][123_456] = 4000
    run = make_clock(timeline=timeline)
    for figure in (plots.utilisation([run]), plots.fragment_classes(run), plots.waiting_pods([run])):
        assert all(len(line["x"]) == len(line["y"]) <= MOST_POINTS for line in figure["data"])
    gpu = plots.utilisation([run])["data"][0]
    assert gpu["name"] == "GPU"
    assert (min(gpu["y"]), max(gpu["y"])) == (25.0, 100.0)


def test_classes_stack_up_to_what_is_idle(make_openb):
    figure = plots.fragment_classes(make_openb(rows=3))
    assert figure["layout"]["xaxis"]["title"]["text"] == "load: GPUs asked for (% of all GPUs)"
    assert figure["data"][0]["x"] == [0, 50, 100]
    total = np.sum([line["y"] for line in figure["data"]], axis=0)
    assert total.tolist() == pytest.approx([100, 50, 0])


def test_waits_count_pods_that_never_started(make_clock):
    line = plots.wait_distribution([make_clock()])["data"][0]
    assert (line["x"], line["y"]) == ([1.0, 10.0, 30.0], [25.0, 50.0, 75.0])


def test_allocation_has_a_closer_look_near_full_load(make_openb):
    whole, near = plots.allocation_by_load([make_openb()])["data"]
    assert (whole["x"][0], near["x"][0], near["x"][-1]) == (0, 80, 130)
    assert (near["xaxis"], near["showlegend"]) == ("x2", False)


def test_seeds_of_one_policy_share_a_colour_and_a_legend_entry(make_openb):
    runs = [make_openb("a"), make_openb("b"), make_openb("a", seed=43)]
    lines = plots.fragmentation_by_load(runs)["data"]
    assert [line["showlegend"] for line in lines] == [True, True, False]
    assert lines[0]["line"] == lines[2]["line"] != lines[1]["line"]


def test_looks_repeat_only_after_colours_and_dashes_are_used_up():
    assert len({colour_and_dash(index) for index in range(32)}) == 32


def test_a_difference_is_filled_only_if_its_interval_leaves_out_zero():
    figure = plots.paired_differences(DIFFERENCES)
    assert [trace["marker"]["symbol"] for trace in figure["data"]] == [["circle", "circle-open"], ["circle"]]
    titles = [figure["layout"][name]["title"]["text"] for name in ("xaxis", "xaxis2")]
    assert titles == ["difference in allocation_pct (percentage points)", "difference in wait_s (s)"]
    top, bottom = (figure["layout"][name]["domain"] for name in ("yaxis", "yaxis2"))
    assert 0 <= bottom[0] < bottom[1] < top[0] < top[1] == 1


def test_nodes_are_grouped_by_model_and_nodes_without_gpus_come_last(make_openb):
    figure = node_map(make_openb())
    assert figure["layout"]["yaxis"]["ticktext"] == ["A100 × 1", "T4 × 1", "no GPU × 1"]
    grey, coloured = figure["data"]
    assert [row[0] for row in coloured["z"]] == [50.0, None, 50.0, None, None]
    assert [row[0] for row in grey["z"]] == [None, None, None, None, 0.0]
    assert coloured["text"][0][0] == (
        "<b>n1</b><br>A100<br>GPU allocated: 50.0% of 2<br>free per device (milli): 1000 · 0<br>"
        "CPU free: 2.0 of 8.0 cores<br>pods: 3"
    )


def test_a_large_cluster_shares_cells(make_openb, make_nodes):
    count = 2 * MOST_CELLS
    nodes = make_nodes([f"n{index:06d}" for index in range(count)], ["T4"] * count)
    figure = node_map(make_openb(nodes=nodes))
    cells = [cell for row in figure["data"][0]["z"] for cell in row if cell is not None]
    assert len(cells) == MOST_CELLS
    assert figure["data"][0]["text"][0][0].startswith("<b>2 nodes, n000000 … n000001</b>")
