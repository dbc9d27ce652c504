import struct
import sys

import pytest

from foresail.errors import OptionError
from foresail.report.html import report_figures
from foresail.report.png import SCALE, WIDTH_PX, write_pngs


def require_browser():
    pytest.importorskip("kaleido", reason="kaleido is not installed (pip install 'foresail[png]')")
    from choreographer.browsers.chromium import Chromium  # noqa: PLC0415 - comes with kaleido

    if not Chromium.find_browser(skip_local=False):
        pytest.skip("no Chrome or Chromium on this machine")


def test_every_figure_becomes_a_picture_of_the_stated_size(tmp_path, make_openb):
    require_browser()
    figures = report_figures([make_openb()])
    written = write_pngs(tmp_path / "pictures", figures)
    assert [path.name for path in written] == [f"{name}.png" for name in figures]
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == sorted(path.name for path in written)
    for path, figure in zip(written, figures.values(), strict=True):
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert struct.unpack(">II", content[16:24]) == (SCALE * WIDTH_PX, SCALE * figure["layout"]["height"])


def test_without_kaleido_the_remedy_is_named(tmp_path, make_openb, monkeypatch):
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(OptionError, match=r"PNG files need kaleido .*pip install 'foresail\[png\]'"):
        write_pngs(tmp_path / "pictures", report_figures([make_openb()]))
    assert not list(tmp_path.iterdir())


def test_without_a_browser_the_remedy_is_named(tmp_path, make_openb, monkeypatch):
    pytest.importorskip("kaleido", reason="kaleido is not installed (pip install 'foresail[png]')")
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "nowhere"))
    with pytest.raises(OptionError, match=r"need Chrome or Chromium, and none was found; install chromium"):
        write_pngs(tmp_path / "pictures", report_figures([make_openb()]))
    assert not list(tmp_path.iterdir())


def test_a_figure_name_cannot_lead_out_of_the_folder(tmp_path):
    with pytest.raises(ValueError, match="is no file name"):
        write_pngs(tmp_path, {"../x": {"data": [], "layout": {}}})
