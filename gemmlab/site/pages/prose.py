"""Pages from docs/*.md and README.md: links rewritten, and lists made where a mark stands."""

from __future__ import annotations

import re
from collections.abc import Callable

from gemmlab.folders import ROOT
from gemmlab.site import hosted
from gemmlab.site.pages import links, lists
from gemmlab.site.tables import profiler, teaching

_MARK = re.compile(r"^<!-- made: ([\w-]+) -->$", re.M)
MADE: dict[str, Callable[[], str]] = {
    "ladder": lists.ladder,
    "ways": lists.ways,
    "glossary": lists.glossary,
    "kernels": lists.kernels,
    "hosted": lambda: hosted.every_link(hosted.repository()),
    **profiler.PARTS,
    **teaching.PARTS,
}


class UnknownMark(Exception):
    """A mark that nothing is made for. The message says which, where, and which there are."""


def page(path: str) -> tuple[str, set[str]]:
    """The page of a file in Markdown, and what it links to, by paths in the repository.

    Raises links.DeadLink, UnknownMark, and what making the lists raises.
    """
    rewriter = links.Rewriter(path)
    text = rewriter.html(rewriter.markdown((ROOT / path).read_text(encoding="utf-8")))
    return _MARK.sub(lambda mark: _made(path, mark[1]), text), rewriter.met


def _made(path: str, name: str) -> str:
    if name not in MADE:
        raise UnknownMark(f"{path} has a mark {name!r}, and what is made is {', '.join(MADE)}.")
    return MADE[name]()
