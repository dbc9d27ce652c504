"""The page that every report is: its look, its parts, and the few lines of script that draw its plots."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from foresail import __version__
from foresail.atomic import replacing
from foresail.errors import ForesailError
from foresail.report.style import Figure

# The browser itself refuses to load anything: a report may be opened where nothing may leave the machine.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"

PAGE_CSS = """
:root { --paper: #f6f7f9; --card: #ffffff; --ink: #24292f; --soft: #59636e; --line: #dfe3e8; --accent: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #0e1116; --card: #171b22; --ink: #e3e7ec; --soft: #9aa4af; --line: #2c333d; --accent: #56b4e9; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 32px 20px 48px; }
header { border-left: 4px solid var(--accent); padding-left: 16px; margin-bottom: 24px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 12px; }
header p, .note, footer { color: var(--soft); margin: 0; overflow-wrap: anywhere; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 20px; margin: 0 0 20px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 14px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
tr:last-child > * { border-bottom: 0; }
th:first-child, table.differences td:nth-child(-n+3), table.differences th:nth-child(-n+3) { text-align: left; }
table.counts { margin-bottom: 16px; }
table.counts td:first-child, table.actions td:nth-child(n+2), table.actions th:nth-child(n+2) { text-align: left; }
th:first-child, td:first-child { padding-left: 0; }
tbody th { font-weight: 400; color: var(--soft); max-width: 460px; overflow: hidden; text-overflow: ellipsis; }
tbody tr:hover > * { background: color-mix(in srgb, var(--accent) 7%, transparent); }
details { border: 1px solid var(--line); border-radius: 10px; background: var(--card);
  padding: 10px 20px; margin-bottom: 10px; }
summary { cursor: pointer; }
pre { overflow-x: auto; font-size: 12.5px; }
footer { margin-top: 28px; font-size: 13px; }
/* Plotly writes colours into each element; only !important lets one page serve light and dark readers. */
.plot .main-svg text:not(.hovertext text):not(.hoverlayer text) { fill: var(--ink) !important; }
.plot .legendtoggle, .plot .bg { fill: transparent !important; }
@media print { body { background: #fff; } .card { break-inside: avoid; } }
"""

# Plotly's own set of buttons has one that sends the chart to a company's server. A list of what may be there, rather
# than of what may not, keeps such a button out of the report whatever a later plotly adds.
PAGE_SCRIPT = """
const figures = JSON.parse(document.getElementById("figures").textContent);
for (const [name, figure] of Object.entries(figures)) {
  Plotly.newPlot(name, figure.data, figure.layout, {responsive: true, displaylogo: false,
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
    showSendToCloud: false, plotlyServerURL: "", toImageButtonOptions: {filename: name, scale: 2}});
}
"""


def render_page(
    title: str, subtitle: str, sections: Sequence[str], figures: Mapping[str, Figure], notes: Sequence[str] = ()
) -> str:
    """The whole page as text: sections, then plots, then notes. All but the title is HTML already."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - plotly is slow to import and only the page needs it

    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{PAGE_CSS}</style>",
        f"<script>{get_plotlyjs()}</script>",
        "</head>",
        "<body>",
        "<main>",
        f"<header><h1>{html.escape(title)}</h1><p>{subtitle}</p></header>",
        *sections,
        *(f'<figure class="card"><div class="plot" id="{name}"></div></figure>' for name in figures),
        *notes,
        f"<footer>Made by foresail {html.escape(__version__)}. This page holds its data and needs no network.</footer>",
        "</main>",
        f'<script type="application/json" id="figures">{_json_in_html(figures)}</script>',
        f"<script>{PAGE_SCRIPT}</script>",
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join(parts)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str) -> str:
    """A table of texts."""
    names = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def table_card(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A section with one table, whose first columns are names."""
    return f'<section class="card"><h2>{html.escape(title)}</h2>{html_table(head, rows, "differences")}</section>'


def write_page(path: Path, page: str, failed: Callable[[str], ForesailError] | None = None) -> None:
    """Write a page, whole or not at all; `failed` makes the error to raise of what the system says."""
    with replacing(path, failed) as part:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(page, encoding="utf-8", newline="\n")


def _json_in_html(value: object) -> str:
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    # Inside a script element only "<" can end it; JSON reads the escape as the same character.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
