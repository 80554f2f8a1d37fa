"""The built site, served on this machine alone, and pages of it in Chromium.

`make test-site` builds it first. Needs a Chromium; `.ci/run` installs one and sets
GEMMLAB_REQUIRE_BROWSER, so that nothing skips there.
"""

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from built import SITE
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
DESKTOP = {"width": 1400, "height": 1000}  # pixels
SECOND = 1000  # Playwright counts milliseconds
PATIENCE_S = 60  # for a page on a busy machine

if not CHROMIUM and os.environ.get("GEMMLAB_REQUIRE_BROWSER"):
    raise RuntimeError("GEMMLAB_REQUIRE_BROWSER is set, and there is no Chromium.")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@dataclass
class Watched:
    """What went wrong on a page, and which other hosts it asked."""

    here: str
    troubles: list[str] = field(default_factory=list)

    def of(self, page: Page) -> None:
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", self._asked)
        page.on("response", self._answered)

    def _said(self, message) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"{message.type}: {message.text}")

    def _asked(self, request) -> None:
        if not request.url.startswith((self.here, "data:", "blob:", "about:")):
            self.troubles.append(f"asks {request.url}")

    def _answered(self, response) -> None:
        if response.status >= 400:
            self.troubles.append(f"{response.status} {response.url}")


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
