import io

from rich.console import Console

from foresail.report.tables import comparison_cells, run_table
from foresail.results.folder import read_run, write_run
from foresail.results.key_figures import key_figures, run_labels


def printed(table):
    console = Console(file=io.StringIO(), width=120)
    console.print(table)
    return console.file.getvalue()


def test_key_figures_of_an_openb_run(make_openb):
    assert [(figure.label, figure.text) for figure in key_figures(make_openb())] == [
        ("pods", "3"),
        ("failed", "1"),
        ("GPU allocation at load 100", "95.25%"),
        ("GPU allocation at load 130", "95.25%"),
        ("fragmentation at load 100", "6.69%"),
        ("fragmentation at load 130", "4.50%"),
        ("fragmentation ratio at load 100", "99.50%"),
        ("fragmentation ratio at load 130", "99.50%"),
    ]


def test_key_figures_of_a_clock_run(make_clock):
    assert [(figure.label, figure.text) for figure in key_figures(make_clock(rows=3))] == [
        ("pods", "4"),
        ("wait mean", "13.3 s"),
        ("wait p50", "10.0 s"),
        ("wait p95", "28.0 s"),
        ("wait p99", "29.6 s"),
        ("bounded slowdown mean", "2.33"),
        ("bounded slowdown p95", "3.80"),
        ("makespan", "100 s"),
        # As the summary has it: snapshots are too few to tell.
        ("GPU allocation over time", "25.00%"),
        ("failed", "1"),
        ("failed: have too little gpu", "1"),
    ]


def test_a_stored_run_has_the_same_figures_as_the_run(tmp_path, make_openb, make_clock):
    for name, run in (("a", make_openb()), ("b", make_clock())):
        write_run(tmp_path / name, run, manifest_extra={})
        assert key_figures(read_run(tmp_path / name)) == key_figures(run)


def test_a_run_in_which_nothing_started_shows_dashes(make_clock):
    run = make_clock()
    nothing = run.pods | {"start_s": run.pods["start_s"] * float("nan"), "end_s": run.pods["end_s"] * float("nan")}
    texts = {figure.label: figure.text for figure in key_figures(make_clock(pods=nothing))}
    assert texts["wait p95"] == "–"
    assert texts["makespan"] == "–"


def test_labels_say_only_what_tells_runs_apart(make_openb):
    assert run_labels([make_openb("a"), make_openb("b")]) == ["a", "b"]
    assert run_labels([make_openb("a"), make_openb("a", seed=43)]) == ["a · seed 42", "a · seed 43"]
    assert run_labels([make_openb("a"), make_openb("a")]) == ["a", "a (2)"]


def test_names_are_not_read_as_markup(make_openb):
    assert "[red]x[/red]" in printed(run_table(make_openb("[red]x[/red]")))


def test_differences_carry_their_sign():
    row = {"policy": "[b]", "baseline": "best-fit", "metric": "allocation_pct", "mean": 2.3, "low": 2.0, "high": 2.6}
    header, cells = comparison_cells([row | {"n": 10, "unit": "percentage points"}])
    assert header == ["policy", "baseline", "metric", "difference", "interval", "n"]
    assert cells == [["[b]", "best-fit", "allocation_pct", "+2.300", "+2.000 … +2.600", "10"]]
