"""Pages from docs/*.md and README.md: lists inserted at their marks, and links rewritten."""

from __future__ import annotations

import re
from collections.abc import Callable

from gemmlab.folders import ROOT
from tools.site import hosted
from tools.site.pages import links, lists
from tools.site.tables import profiler, speeds, teaching

_MARK = re.compile(r"^<!-- made: ([\w-]+) -->$", re.M)
# Links of what is made lead from docs/, as those of the pages themselves do.
MADE: dict[str, Callable[[], str]] = {
    "ladder": lists.ladder,
    "ways": lists.ways,
    "glossary": lists.glossary,
    "kernels": lists.kernels,
    "speeds": speeds.table,
    "records": speeds.files,
    "colab": hosted.first_cell,
    **profiler.PARTS,
    **teaching.PARTS,
}


class UnknownMark(Exception):
    """A mark that nothing is made for. The message says which, where, and which there are."""


def page(path: str) -> tuple[str, set[str]]:
    """The page of a file in Markdown, and what it links to, by paths in the repository.

    Raises links.DeadLink, UnknownMark, and what making the lists raises.
    """
    text = (ROOT / path).read_text(encoding="utf-8")
    text = _MARK.sub(lambda mark: _made(path, mark[1]), text)
    rewriter = links.Rewriter(path)
    return rewriter.html(rewriter.markdown(text)), rewriter.met


def _made(path: str, name: str) -> str:
    if name not in MADE:
        raise UnknownMark(f"{path} has a mark {name!r}, and what is made is {', '.join(MADE)}.")
    return MADE[name]()
