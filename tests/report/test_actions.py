"""What controllers did, as the report shows it: counted, listed, and marked in time."""

import plotly.graph_objects as go
import pytest
from tests.report.test_html import EVIL, Page

from foresail.core.journal import Record, What
from foresail.report.actions import actions_over_time
from foresail.report.html import MOST_ACTIONS_LISTED, render_report, report_figures
from foresail.report.thin import MOST_POINTS
from foresail.results.actions import Acted, actions_of, counted, first
from foresail.results.folder import read_run, write_run
from foresail.results.key_figures import key_figures, run_labels
from foresail.results.tables import journal_columns

RECORDS = [
    Record(0.0, What.ARRIVE, "a"),
    Record(0.0, What.START, "a", "n0"),
    Record(10.0, What.RESIZE, "a", "n0", "500 → 900 milli-CPU: it is urgent", "shares"),
    Record(20.0, What.START, "a", "n1"),
    Record(20.0, What.MOVE, "a", "", "from n0: n0 is crowded", "mover"),
    Record(30.0, What.DECLINE, "a", "n2", "move declined: n2 does not take it", "mover"),
    Record(40.0, What.HOLD, "b", "n2", "for 5 s: it comes soon", "mover"),
    Record(45.0, What.RELEASE, "b", "n2", "its time is over"),
    Record(50.0, What.END, "a", "n1"),
]


@pytest.fixture
def steered(make_clock):
    """A run with controllers, and what they did."""

    def make(records=RECORDS, controllers=("shares", "mover"), **fields):
        return make_clock(journal=journal_columns(records), controllers=controllers, **fields)

    return make


def test_actions_are_what_controllers_asked_for_and_a_move_says_where_to(steered, make_clock):
    assert actions_of(make_clock()) is None
    actions = actions_of(steered())
    assert first(actions, 9) == [
        Acted(10.0, "resize", "a", "n0", "500 → 900 milli-CPU: it is urgent", "shares"),
        Acted(20.0, "move", "a", "n1", "from n0: n0 is crowded", "mover"),
        Acted(30.0, "decline", "a", "n2", "move declined: n2 does not take it", "mover"),
        Acted(40.0, "hold", "b", "n2", "for 5 s: it comes soon", "mover"),
    ]
    assert first(actions, 1) == [Acted(10.0, "resize", "a", "n0", "500 → 900 milli-CPU: it is urgent", "shares")]
    # Moves, resizes, holds, declined.
    assert counted(actions) == [("mover", [1, 0, 1, 1]), ("shares", [0, 1, 0, 0])]


def test_a_pod_that_is_moved_as_it_starts_is_moved_to_its_second_node_and_only_controllers_act(steered):
    records = [
        Record(5.0, What.START, "c", "n0"),
        Record(5.0, What.START, "c", "n1"),
        Record(5.0, What.MOVE, "c", "", "from n0: why not", "mover"),
        Record(6.0, What.MOVE, "c", "n2", "by hand", ""),
    ]
    run = steered(records)
    assert first(actions_of(run), 9) == [Acted(5.0, "move", "c", "n1", "from n0: why not", "mover")]
    assert {figure.label: figure.text for figure in key_figures(run)}["moves"] == "1"


def test_actions_stand_in_the_key_figures_of_runs_that_have_controllers_alone(steered, make_clock):
    figures = {figure.label: figure.text for figure in key_figures(steered())}
    assert [figures[name] for name in ("moves", "resizes", "declined actions")] == ["1", "1", "1"]
    assert not {"moves", "resizes", "declined actions"} & {figure.label for figure in key_figures(make_clock())}


def test_every_action_is_marked_at_its_time_under_the_cpu_that_was_requested(steered, make_clock):
    assert actions_over_time(make_clock(), "c") is None
    figure = actions_over_time(steered(), "look-ahead")
    requested, *marks = figure["data"]
    assert (requested["name"], requested["y"][0], requested["y"][-1]) == ("CPU requested", 0.0, 32.0)
    per_unit = {"s": 1, "minutes": 60}[figure["layout"]["xaxis"]["title"]["text"].rpartition("(")[2][:-1]]
    assert [(mark["name"], mark["y"][0], round(mark["x"][0] * per_unit)) for mark in marks] == [
        ("1 moves", "moves", 20),
        ("1 resizes", "resizes", 10),
        ("1 holds", "holds", 40),
        ("1 declined", "declined", 30),
    ]
    assert marks[0]["text"] == ["a (n1): from n0: n0 is crowded, says mover"]
    go.Figure(figure)


def test_used_cpu_is_drawn_where_it_is_known_and_more_marks_than_a_screen_shows_are_thinned(steered):
    records = [Record(float(at), What.RESIZE, "a", "n0", "more", "shares") for at in range(2 * MOST_POINTS)]
    run = steered(records)
    run.tables["timeline"]["busy_cpu_milli"] = run.timeline["used_cpu_milli"] / 2
    requested, used, marks = actions_over_time(run, "c")["data"]
    assert (used["name"], used["y"][-1]) == ("CPU used", requested["y"][-1] / 2)
    assert marks["name"] == "4,000 resizes"
    assert len(marks["x"]) == len(marks["text"]) == MOST_POINTS


def test_the_page_has_a_table_of_counts_and_of_the_first_actions(steered, make_clock):
    texts = Page(render_report([steered()], title="t")).texts
    for text in ("What controllers did", "mover", "500 → 900 milli-CPU: it is urgent", "from n0: n0 is crowded"):
        assert text in texts
    assert not any("journal.parquet has them all" in text for text in texts)
    records = [
        Record(float(at), What.RESIZE, f"p{at}", "n0", "more", "shares") for at in range(MOST_ACTIONS_LISTED + 1)
    ]
    texts = Page(render_report([steered(records)], title="t")).texts
    assert f"The first {MOST_ACTIONS_LISTED} of {MOST_ACTIONS_LISTED + 1}; journal.parquet has them all." in texts
    assert ("p49" in texts, "p50" in texts) == (True, False)
    assert "Nothing." in Page(render_report([steered([])], title="t")).texts
    assert "What controllers did" not in Page(render_report([make_clock()], title="t")).texts


def test_of_several_runs_each_with_controllers_is_told_by_its_name(steered, make_clock):
    runs = [make_clock("fgd"), steered(policy="fgd", controllers=("mover",)), steered(policy="fgd")]
    assert run_labels(runs) == ["fgd", "fgd with mover", "fgd with shares and mover"]
    figures = report_figures(runs)
    assert [name for name in figures if name.startswith("actions")] == ["actions-2", "actions-3"]
    # Runs that differ in their controllers are not seeds of one policy.
    assert len({line["line"]["color"] for line in figures["waiting-pods"]["data"]}) == 3
    texts = Page(render_report(runs, title="t")).texts
    told = [text for text in texts if text.startswith("What controllers did")]
    assert told == ["What controllers did: fgd with mover", "What controllers did: fgd with shares and mover"]


def test_a_stored_run_shows_the_same_and_names_are_text(tmp_path, steered):
    run = steered([Record(1.0, What.MOVE, EVIL, EVIL, EVIL, EVIL)], controllers=(EVIL,))
    write_run(tmp_path / "run", run, manifest_extra={})
    stored = read_run(tmp_path / "run")
    assert stored.controllers == run.controllers == (EVIL,)
    assert actions_of(stored).equals(actions_of(run))
    assert report_figures([stored]) == report_figures([run])
    page = Page(render_report([stored], title="t"))
    assert page.tags.count("script") == 3
    assert page.texts.count(EVIL) == 4  # controller, pod, node and reason
