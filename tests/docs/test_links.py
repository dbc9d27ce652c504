"""Every link of every page leads somewhere, and every page can be reached."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.glob("**/*.md")])
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    """The page without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text(encoding="utf-8")))


def anchor(heading: str) -> str:
    """The anchor that mkdocs gives a heading."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def anchors(page: Path) -> set[str]:
    found: list[str] = []
    for heading in HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        name = anchor(heading)
        again = sum(before == name for before in found)
        found.append(name if not again else f"{name}_{again}")
    return set(found)


def links(page: Path) -> list[str]:
    return [target for target in LINK.findall(prose(page)) if not target.startswith(("https://", "mailto:"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors_lead_somewhere(page: Path):
    broken = []
    for target in links(page):
        path, _, wanted = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.is_file() or (wanted and wanted not in anchors(there)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", [page for page in PAGES if DOCS in page.parents], ids=lambda page: page.name)
def test_pages_of_the_site_link_only_to_the_site(page: Path):
    outside = [target for target in links(page) if not (page.parent / target).resolve().is_relative_to(DOCS)]
    assert outside == []


def listed(nav: object) -> list[str]:
    """The pages in a part of the navigation, in their order."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in listed(part)]


def test_the_navigation_lists_every_page_once():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed(site["nav"])) == sorted(str(page.relative_to(DOCS)) for page in DOCS.glob("**/*.md"))


def test_the_site_fetches_nothing_when_it_is_read():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert site["theme"]["name"] == "readthedocs"
    assert site["theme"]["highlightjs"] is False  # the theme would take it from a CDN
    assert not any(
        str(path).startswith("http") for path in site.get("extra_css", []) + site.get("extra_javascript", [])
    )


def test_every_picture_is_used_and_small():
    used = {(page.parent / target).resolve() for page in PAGES for target in links(page)}
    for picture in (DOCS / "images").iterdir():
        assert picture.resolve() in used
        assert picture.stat().st_size < 300_000


def test_anchors_are_made_as_mkdocs_makes_them():
    assert anchor("FS100 (error): The file cannot be read") == "fs100-error-the-file-cannot-be-read"
    assert anchor("timeline.parquet") == "timelineparquet"
    assert anchor("One decision path") == "one-decision-path"
