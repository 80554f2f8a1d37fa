"""Every page in Chromium: no error, no other host, little to load, no wider than a phone."""

import pytest
from built import SITE, Watched, parsed

DESKTOP, PHONE = {"width": 1400, "height": 1000}, {"width": 390, "height": 844}  # pixels
MOST_BYTES = 2e6  # of a notebook's page, before the reader does anything
# Pages that show code are all made alike: of each folder of the package one is opened.
CODE = ("gemmlab/", "tools/", "tests/", "benchmarks/", "requirements/")

TRANSFERRED = """() => performance.getEntriesByType('navigation')
    .concat(performance.getEntriesByType('resource'))
    .reduce((sum, entry) => sum + entry.transferSize, 0)"""
# What makes a page wider than the window: the outermost elements that reach past its right edge.
TOO_WIDE = """() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    return [...document.querySelectorAll('body *')]
        .filter(element => element.getBoundingClientRect().right > width + 1)
        .slice(0, 3).map(element => element.outerHTML.slice(0, 100));
}"""


def opened() -> list[str]:
    """The pages that are opened: all but those of code, of which one in each folder."""
    folders, opened_files = set(), []
    for path in sorted(SITE.rglob("*.html")):
        name = path.relative_to(SITE).as_posix()
        if not name.startswith(CODE) or path.parent not in folders:
            opened_files.append(name)
            folders.add(path.parent)
    return opened_files


@pytest.fixture(scope="module")
def names(site) -> list[str]:
    return opened()


def of_reading(name: str) -> bool:
    """Whether a page is of prose: a notebook, or a page beside the first one."""
    return name.startswith("notebooks/") or "/" not in name


def wide_on_a_phone(page) -> list[str]:
    page.set_viewport_size(PHONE)
    elements = page.evaluate(TOO_WIDE)
    page.set_viewport_size(DESKTOP)
    return elements


def test_pages_of_code_load_without_an_error_ask_no_other_host_and_fit(page, watched, names):
    plain = [name for name in names if not of_reading(name)]
    assert len(plain) > 40
    wide = {}
    for name in plain:
        page.goto(name)
        watched.now_on(name)
        wide[name] = wide_on_a_phone(page)
    assert not any(wide.values()), wide


@pytest.mark.parametrize("part", range(2))
def test_pages_of_prose_load_without_an_error_and_little_and_fit(browser, address, names, part):
    chosen = [name for name in names if of_reading(name)][part::2]
    assert len(chosen) > 12
    sizes, wide, troubles = {}, {}, []
    for name in chosen:
        context = browser.new_context(viewport=DESKTOP, base_url=address)  # with no cache
        page, watched = context.new_page(), Watched(address)
        watched.of(page)
        page.goto(name)
        page.wait_for_load_state("networkidle")
        sizes[name] = page.evaluate(TRANSFERRED)
        watched.now_on(name)
        wide[name] = wide_on_a_phone(page)
        troubles += watched.troubles
        context.close()
    assert troubles == [] and not any(wide.values()), wide
    assert min(sizes.values()) > 10_000
    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}


def test_pages_of_code_that_are_not_opened_load_nothing_else(names, site):
    known = set().union(*(parsed(name).scripts for name in names))
    for path in site.rglob("*.html"):
        assert parsed(path.relative_to(site).as_posix()).scripts <= known, path


def test_an_error_on_a_page_is_seen(page, watched, address):
    page.goto("index.html")
    page.evaluate("console.error('planted')")
    page.evaluate("fetch('missing.json')")
    page.evaluate("fetch('http://192.0.2.1/').catch(() => 0)")
    page.wait_for_timeout(500)
    words = " ".join(watched.troubles)
    assert "planted" in words and "404" in words and "asks http://192.0.2.1/" in words
    watched.troubles.clear()
