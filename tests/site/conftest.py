"""The built site, served on this machine alone, and pages of it in Chromium.

`make test-site` builds it first. Needs a Chromium; `.ci/run` installs one and sets
GEMMLAB_REQUIRE_BROWSER, so that nothing skips there.
"""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from built import SITE, Watched
from chromium import CHROMIUM, FLAGS
from playwright.sync_api import Browser, Page, sync_playwright

DESKTOP = {"width": 1400, "height": 1000}  # pixels
SECOND = 1000  # Playwright counts milliseconds
PATIENCE_S = 60  # for a page on a busy machine


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def site() -> Path:
    assert (SITE / "index.html").is_file(), f"{SITE} is not built: run `make site`"
    return SITE


@pytest.fixture(scope="session")
def address(site) -> Iterator[str]:
    """Where the site is served: "http://127.0.0.1:PORT/"."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("needs a Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def watched(address) -> Watched:
    return Watched(address)


@pytest.fixture
def page(browser, address, watched) -> Iterator[Page]:
    """A fresh page of desktop size, with an empty cache. It fails if anything went wrong on it."""
    context = browser.new_context(viewport=DESKTOP, base_url=address)
    context.set_default_timeout(PATIENCE_S * SECOND)
    page = context.new_page()
    watched.of(page)
    yield page
    context.close()
    assert watched.troubles == []
