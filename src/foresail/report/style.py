"""How every plot looks: colours that colour-blind readers tell apart, axes with units, room for a long legend."""

from __future__ import annotations

import html
from typing import Any

Figure = dict[str, Any]
"""A plotly figure as plain data: `data` and `layout`; `plotly.graph_objects.Figure(figure)` makes an object of it.

Plain data on purpose: nothing here needs plotly's slow import, and the same figure is always the same text.
"""

# Okabe and Ito's colours without black and yellow, which vanish on a dark and on a white page.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#7F7F7F")
DASHES = ("solid", "dash", "dot", "dashdot")
NEUTRAL = "#8A8F98"
SEQUENTIAL = "Cividis"

INK = "#24292F"
GRID = "rgba(128,134,144,0.25)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
LINE_WIDTH = 1.8


def colour_and_dash(index: int) -> tuple[str, str]:
    """Give the index-th group its own look; after all colours come the same ones dashed."""
    return PALETTE[index % len(PALETTE)], DASHES[index // len(PALETTE) % len(DASHES)]


def text(value: str) -> str:
    """Escape a name for plotly, which reads a part of HTML in every text it draws."""
    return html.escape(value, quote=False)


def axis(title: str, **further: Any) -> dict[str, Any]:
    return {
        "title": {"text": title, "standoff": 10},
        "gridcolor": GRID,
        "zeroline": False,
        "linecolor": GRID,
        "automargin": True,
        **further,
    }


def layout(title: str, *, height: int = 400, **further: Any) -> dict[str, Any]:
    """Give a figure its title, font and legend; the page around it brings background and dark mode."""
    return {
        "title": {
            "text": title,
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 6},
            "font": {"size": 16, "weight": 600},
        },
        "font": {"family": FONT, "size": 13, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "height": height,
        "margin": {"l": 64, "r": 16, "t": 48, "b": 16},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.22, "yanchor": "top", "traceorder": "normal"},
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "namelength": -1},
        "hovermode": "closest",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": NEUTRAL, "activecolor": PALETTE[0]},
        **further,
    }
