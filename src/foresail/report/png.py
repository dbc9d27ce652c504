"""Plots as PNG files, drawn by kaleido with a Chrome or Chromium of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foresail.atomic import replacing
from foresail.errors import OptionError, ResultsError
from foresail.report.style import Figure

WIDTH_PX = 1100
SCALE = 2
"""Dots per pixel: sharp in print and on fine screens."""

_TIMEOUT_S = 90.0
_GET_BROWSER = (
    "install chromium or google-chrome with the package manager, run plotly_get_chrome, "
    "or set BROWSER_PATH to the program"
)


def write_pngs(folder: Path, figures: Mapping[str, Figure]) -> list[Path]:
    """Draw each figure into `folder` as NAME.png and return the files; all are drawn before the first is written."""
    for name in figures:
        if Path(name).name != name:
            raise ValueError(f"figure name {name!r} is no file name")
    images = asyncio.run(_draw(figures))

    def failed(why: str) -> ResultsError:
        return ResultsError(f"{folder}: cannot be written ({why}); choose another folder with --png")

    written = []
    for name, image in images.items():
        path = folder / f"{name}.png"
        with replacing(path, failed) as part:
            folder.mkdir(parents=True, exist_ok=True)
            part.write_bytes(image)
        written.append(path)
    return written


async def _draw(figures: Mapping[str, Figure]) -> dict[str, bytes]:
    try:
        import kaleido  # noqa: PLC0415 - optional, and it needs a second to import
        from choreographer.errors import BrowserFailedError, ChromeNotFoundError  # noqa: PLC0415 - comes with kaleido
    except ImportError as error:
        raise OptionError(f"PNG files need kaleido ({error}); pip install 'foresail[png]'") from error
    images = {}
    try:
        # One browser for all figures: starting it takes longer than drawing. Without mathjax it asks no network for it.
        async with kaleido.Kaleido(n=1, mathjax=False, timeout=_TIMEOUT_S) as browser:
            for name, figure in figures.items():
                images[name] = await browser.calc_fig(_on_white(figure), opts=_size(figure))
    except ChromeNotFoundError as error:
        raise OptionError(f"PNG files need Chrome or Chromium, and none was found; {_GET_BROWSER}") from error
    except BrowserFailedError as error:
        raise OptionError(f"the browser that draws PNG files did not start; {_GET_BROWSER}") from error
    except TimeoutError as error:
        raise OptionError(f"the browser drew no PNG within {_TIMEOUT_S:.0f} s; try again, or {_GET_BROWSER}") from error
    return images


def _on_white(figure: Figure) -> Figure:
    # The page brings its own background and margin; a picture has to bring them along.
    around = {"paper_bgcolor": "white", "plot_bgcolor": "white"}
    title = {**figure["layout"].get("title", {}), "pad": {"t": 12, "l": 14}}
    return {"data": figure["data"], "layout": {**figure["layout"], **around, "title": title}}


def _size(figure: Figure) -> dict[str, Any]:
    return {"format": "png", "width": WIDTH_PX, "height": figure["layout"].get("height", 400), "scale": SCALE}
