"""Pages from docs/*.md and README.md: links rewritten, and lists made where a mark stands."""

from __future__ import annotations

import re
from collections.abc import Callable

from gemmlab.folders import ROOT
from gemmlab.site import links, lists

_MARK = re.compile(r"^<!-- made: ([\w-]+) -->$", re.M)
MADE: dict[str, Callable[[], str]] = {
    "ladder": lists.ladder,
    "ways": lists.ways,
    "glossary": lists.glossary,
    "kernels": lists.kernels,
}


def page(path: str) -> tuple[str, set[str]]:
    """The page of a file in Markdown, and what it links to, by paths in the repository.

    Raises links.DeadLink, and KeyError for a mark that nothing is made for.
    """
    rewriter = links.Rewriter(path)
    text = rewriter.html(rewriter.markdown((ROOT / path).read_text(encoding="utf-8")))
    return _MARK.sub(lambda mark: MADE[mark[1]](), text), rewriter.met
