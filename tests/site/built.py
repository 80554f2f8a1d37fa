"""The pages of the built site: parsed, and watched in a browser."""

import posixpath
import re
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from urllib.parse import urlsplit

from gemmlab.folders import ROOT

SITE = ROOT / "build" / "site"
LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src", "video": "src"}  # fmt: skip # noqa: E501


@dataclass
class Page(HTMLParser):
    """What a page is made of, as far as these tests look at it."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)  # without being asked
    scripts: set[str] = field(default_factory=set)
    pictures: list[dict] = field(default_factory=list)
    headings: list[int] = field(default_factory=list)
    language: str = ""
    in_title: bool = False
    title: str = ""

    def __post_init__(self):
        super().__init__()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if values.get("rel") == "canonical":  # this page's own address
            return
        if tag in LOADED and (where := values.get(LOADED[tag])):
            self.loaded.append(where)
            if tag == "script":
                self.scripts.add(posixpath.basename(urlsplit(where).path))
        if tag == "img":
            self.pictures.append(values)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "html":
            self.language = values.get("lang", "")
        self.in_title = tag == "title" or (self.in_title and tag != "body")

    def handle_endtag(self, tag):
        self.in_title &= tag != "title"

    def handle_data(self, data):
        self.title += data if self.in_title else ""


@cache
def parsed(path: str) -> Page:
    page = Page()
    page.feed((SITE / path).read_text(encoding="utf-8"))
    return page


@dataclass
class Watched:
    """What went wrong on a page, and which other hosts it asked."""

    here: str
    troubles: list[str] = field(default_factory=list)

    def of(self, page) -> None:
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", self._asked)
        page.on("response", self._answered)

    def now_on(self, name: str) -> None:
        """Troubles so far that have no page yet are of this one."""
        self.troubles[:] = [
            trouble if ".html: " in trouble else f"{name}: {trouble}" for trouble in self.troubles
        ]

    def _logged(self, message) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"{message.type}: {message.text}")

    def _asked(self, request) -> None:
        if not request.url.startswith((self.here, "data:", "blob:", "about:")):
            self.troubles.append(f"asks {request.url}")

    def _answered(self, response) -> None:
        if response.status >= 400:
            self.troubles.append(f"{response.status} {response.url}")
