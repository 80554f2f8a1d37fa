"""The files of the built site, without a browser: links lead somewhere, pictures have texts."""

import html
import posixpath
import re
from urllib.parse import unquote, urlsplit

import pytest
from built import SITE, parsed

from gemmlab.folders import NOTEBOOKS
from tools.site.tables import profiler

MOST_BYTES = 150e6
IN_STYLES = re.compile(r"""(?:url\(\s*['"]?|@import\s+['"])([^'")]+)""")


@pytest.fixture(scope="module")
def pages(site) -> list[str]:
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))


def dead(path: str, target: str) -> bool:
    """Whether a link of the page leads to no file of the site, or to no place in it."""
    parts = urlsplit(html.unescape(target))
    if parts.scheme or parts.netloc:
        return False
    file = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(parts.path)))
    to = path if not parts.path else file
    if to.startswith("..") or not (SITE / to).is_file():
        return True
    anchor = unquote(parts.fragment)
    if not anchor or not to.endswith(".html"):
        return False
    return anchor not in parsed(to).ids


def test_there_is_a_page_for_every_notebook(pages):
    names = {path.stem for path in NOTEBOOKS.glob("*.ipynb")} - {"index"}
    assert {f"notebooks/{name}.html" for name in names} <= set(pages) and "index.html" in pages


def test_every_link_leads_somewhere(pages):
    broken = {(path, link) for path in pages for link in parsed(path).links if dead(path, link)}
    assert sorted(broken)[:20] == []


def test_a_link_that_leads_nowhere_is_found(pages):
    assert dead("index.html", "missing.html") and dead("index.html", "#missing")
    assert dead("notebooks/01_naive.html", "02_coalescing.html#missing")
    assert dead("index.html", "../outside.html") and dead("index.html", "notebooks")
    assert not dead("notebooks/01_naive.html", "02_coalescing.html#the-idea")


def test_nothing_of_another_host_is_loaded(pages, site):
    foreign = [(path, address) for path in pages for address in parsed(path).loaded
             if re.match(r"(\w+:)?//", address)]  # fmt: skip
    for path in site.rglob("*.css"):
        styles = path.read_text(encoding="utf-8")
        foreign += [(path.name, address) for address in IN_STYLES.findall(styles)
                  if re.match(r"(\w+:)?//", address)]  # fmt: skip
    assert foreign == []


def test_what_is_loaded_is_there(pages):
    missing = [(path, address) for path in pages for address in parsed(path).loaded
             if not address.startswith("data:") and dead(path, address)]  # fmt: skip
    assert missing[:20] == []


def test_every_picture_has_a_text(pages):
    """Empty where it only decorates: where a text beside it says the same."""
    without = {(path, picture.get("src", "")[:60]) for path in pages
               for picture in parsed(path).pictures if picture.get("alt") is None}  # fmt: skip
    assert sorted(without)[:20] == []
    figures = [picture for path in pages if path.startswith("notebooks/")
               for picture in parsed(path).pictures if "logo" not in picture["src"]]  # fmt: skip
    assert len(figures) > 100
    assert [picture["src"] for picture in figures if len(picture["alt"]) < 10] == []


def test_pictures_of_notebooks_wait_and_keep_their_place(pages):
    for path in pages:
        if path.startswith("notebooks/"):
            for picture in parsed(path).pictures:
                if "logo" not in picture["src"]:
                    assert picture.get("loading") == "lazy", (path, picture)
                    assert picture.get("width") and picture.get("height"), (path, picture)


def test_every_page_says_its_title_and_language_and_begins_with_one_heading(pages):
    for path in pages:
        page = parsed(path)
        assert page.language == "en" and "GEMM Lab" in page.title, path
        assert page.headings.count(1) == 1 and page.headings[0] == 1, path


def test_no_mark_is_left_and_every_section_of_the_walk_is_there(site):
    text = (site / "nsight_compute.html").read_text(encoding="utf-8")
    assert all(title in text for title in profiler.TITLES)
    for path in site.glob("*.html"):
        assert "made:" not in path.read_text(encoding="utf-8"), path


def test_the_site_is_small(site):
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < MOST_BYTES
