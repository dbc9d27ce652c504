import json
from html.parser import HTMLParser

import pytest

from foresail.errors import ResultsError
from foresail.report.html import MOST_RUNS_IN_DETAIL, render_report, write_report
from foresail.report.page import PAGE_SCRIPT
from foresail.results.folder import read_run, write_run

EVIL = '</script><script>alert(1)</script><img src="https://x.test/a.png"><b>&amp;"\''


class Page(HTMLParser):
    """Everything in a page that could load something, and its scripts and texts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.attributes, self.ids, self.tags, self.texts, self.scripts = [], [], [], [], []
        self._script = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._script = tag == "script"
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        self._script = False

    def handle_data(self, data):
        (self.scripts if self._script else self.texts).append(data)


@pytest.fixture
def evil_page(make_openb, make_clock, make_nodes):
    nodes = make_nodes([EVIL, "n1", "n2"], [EVIL, "T4", ""])
    runs = [make_openb(EVIL, trace=EVIL, nodes=nodes), make_clock("b", trace=EVIL)]
    row = {"policy": EVIL, "baseline": "b", "metric": EVIL, "mean": 1.0, "low": 0.5, "high": 1.5}
    return render_report(runs, title=EVIL, comparison=[row])


def test_nothing_is_fetched(evil_page):
    page = Page(evil_page)
    loading = {"src", "href", "action", "data", "srcset", "poster", "background"}
    assert [entry for entry in page.attributes if entry[1] in loading] == []
    assert not {"img", "link", "iframe", "object", "embed", "base"} & set(page.tags)
    policies = [value for tag, name, value in page.attributes if (tag, name) == ("meta", "content") and "src" in value]
    assert policies == [
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
    ]
    style = evil_page[evil_page.index("<style>") : evil_page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_the_button_that_sends_charts_away_is_not_there():
    assert "modeBarButtons:" in PAGE_SCRIPT
    assert "showSendToCloud: false" in PAGE_SCRIPT
    assert "sendChartToCloud" not in PAGE_SCRIPT


def test_names_are_text_wherever_they_stand(evil_page):
    page = Page(evil_page)
    assert page.tags.count("script") == 3  # plotly, the figures, the lines that draw them
    assert EVIL in page.texts
    figures = json.loads(page.scripts[1])
    assert EVIL not in json.dumps(figures, ensure_ascii=False)
    assert "&lt;/script&gt;" in figures["allocation-by-load"]["data"][0]["name"]


def test_every_figure_has_its_place_and_plotly_is_there_once(evil_page):
    page = Page(evil_page)
    figures = json.loads(page.scripts[1])
    assert [name for name in page.ids if name != "figures"] == list(figures)
    assert evil_page.count("plotly.js v") == 1


def test_the_same_runs_give_the_same_page(tmp_path, make_openb):
    write_run(tmp_path / "run", make_openb(), manifest_extra={"command": ["foresail"]})
    pages = [render_report([read_run(tmp_path / "run")], title="t") for _ in range(2)]
    assert pages[0] == pages[1]
    assert "&quot;format_version&quot;: 1" in pages[0]


def test_many_runs_say_which_are_shown_in_detail(make_openb):
    runs = [make_openb(seed=seed) for seed in range(MOST_RUNS_IN_DETAIL + 2)]
    page = render_report(runs, title="t")
    assert "shown for the first 8 of 10 runs" in page
    assert 'id="nodes-8"' in page
    assert 'id="nodes-9"' not in page


def test_a_report_that_cannot_be_written_says_where(tmp_path, make_openb):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"r\.html: cannot be written .*choose another file with --out"):
        write_report(tmp_path / "file" / "r.html", [make_openb()], title="t")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
