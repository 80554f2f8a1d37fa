"""A notebook as a page: folds, pictures as files with a text, players and sliders in place.

Nothing is executed: the page has the outputs that the notebook was committed with.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gemmlab.folders import NOTEBOOKS, ROOT, kernel_files
from gemmlab.notebook.series import DEEPER
from tools.site import hosted, interactive
from tools.site.pages import code, links

PICTURES = "pictures"  # the folder of the site
FOLDED = "jp-MarkdownHeadingCollapsed"
_HEADING = re.compile(r"^(#{1,6}) ")
_PANDAS_STYLE = re.compile(r"<style scoped>.*?</style>\s*", re.S)
_INLINE_PICTURE = re.compile(r'src="data:image/png;base64,([^"]+)"')
_WIDGET = "application/vnd.jupyter.widget-view+json"
_CAPTION = "Figure: "  # what the text of a picture begins with, before its caption
_FILE_HEAD = re.compile(r"(>)(\w+\.cu)(</div>)")  # over a listing of gl.inner_loop
_FIRST_LINE = re.compile(r">\s*(\d+)  </span>")


class UnfitNotebook(Exception):
    """A notebook that no page can be made of. The message says which cell, and why."""


@dataclass
class Page:
    """`notebook` for Sphinx; `files` for the site, by path; `met`: what it links to."""

    notebook: dict
    files: dict[str, bytes] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)


def page(name: str, widgets: Mapping[str, str]) -> Page:
    """The page of notebooks/<name>.ipynb; widgets: HTML of sliders and players, by their names.

    Raises UnfitNotebook, links.DeadLink, and what interactive.call and hosted.repository raise.
    """
    path = f"notebooks/{name}.ipynb"
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    made = _Maker(name, links.Rewriter(path), widgets)
    cells = [new for cell in notebook["cells"] for new in made.cells(cell)]
    cells.insert(1, _words("how-to-run", hosted.links(name, hosted.repository())))
    return Page({**notebook, "cells": cells}, made.files, made.rewriter.met)


class _Maker:
    """Makes cells of a page from those of a notebook, one after the other."""

    def __init__(self, name: str, rewriter: links.Rewriter, widgets: Mapping[str, str]):
        self.name, self.rewriter, self.widgets = name, rewriter, widgets
        self.files: dict[str, bytes] = {}
        self.deeper = False
        self.known: dict[str, object] = {}  # names with their constants, for calls of players

    def cells(self, cell: dict) -> list[dict]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            return [_words(cell["id"], self._words(cell, text))]
        self.known = interactive.constants(text, self.known)
        outputs = [self._output(cell, text, output) for output in cell["outputs"]]
        outputs += self._whole_file(text)
        made = {**cell, "metadata": {}, "outputs": outputs}
        return [made]

    def _words(self, cell: dict, text: str) -> str:
        self.deeper |= text.splitlines()[:1] == [DEEPER]
        lines, fenced = [], False
        for line in self.rewriter.html(self.rewriter.markdown(text)).splitlines():
            fenced ^= line.startswith("```")
            if not fenced and _HEADING.match(line):
                if cell["metadata"].get(FOLDED):
                    lines.append("{.folded}")
                # A page has one title: what stands below "Going deeper" is a part of the page.
                line = "#" * self.deeper + line
            lines.append(line)
        return "\n".join(lines)

    def _output(self, cell: dict, source: str, output: dict) -> dict:
        data = output.get("data")
        if data is None:
            return output
        words = "".join(data.get("text/plain", ""))
        if "image/png" in data:
            size = output["metadata"].get("image/png", {})
            return _shown(self._picture(cell, "".join(data["image/png"]), words, size))
        if moved := interactive.call(source, self.known):
            return _shown(self.widgets[moved.name])
        if _WIDGET in data:
            return _shown(_only_in_the_notebook(words))
        if "text/html" in data:
            return _shown(self._markup("".join(data["text/html"])))
        return output

    def _picture(self, cell: dict, encoded: str, words: str, size: dict) -> str:
        if not words.startswith(_CAPTION):
            raise UnfitNotebook(
                f"notebooks/{self.name}.ipynb, cell {cell['id']}: the text of a picture must be "
                f'"{_CAPTION}" and what is to be seen, and is {words!r}.'
            )
        where = links.between(self.rewriter.page, self._file(encoded))
        measures = "".join(
            f' {side}="{size[side]}"' for side in ("width", "height") if side in size
        )
        return (
            f'<figure class="picture"><a href="{where}"><img src="{where}"{measures} '
            f'loading="lazy" decoding="async" alt="{html.escape(words.removeprefix(_CAPTION))}">'
            "</a></figure>"
        )

    def _file(self, encoded: str) -> str:
        content = base64.b64decode(encoded)
        path = f"{PICTURES}/{self.name}/{hashlib.sha256(content).hexdigest()[:12]}.png"
        self.files[path] = content
        return path

    def _markup(self, text: str) -> str:
        text = self.rewriter.html(_PANDAS_STYLE.sub("", text))
        text = text.replace("<th></th>", "<td></td>")  # a corner is the head of nothing
        text = _INLINE_PICTURE.sub(
            lambda m: f'loading="lazy" src="{links.between(self.rewriter.page, self._file(m[1]))}"',
            text,
        )
        return f'<div class="shown">{_FILE_HEAD.sub(self._kernel_link, text)}</div>'

    def _whole_file(self, source: str) -> list[dict]:
        """A link to the kernel's page, below a cell that shows all of its code."""
        shows = re.search(r"^(\w+)\.(?:source|listing)\(\)$", source.strip().rpartition("\n")[2])
        kernel = self.known.get(shows[1]) if shows else None
        if not isinstance(kernel, interactive.Loaded):
            return []
        file = f"{kernel.name}.cu"
        words = f'<a href="{self._page_of(file)}">{file}</a> on a page of its own.'
        return [_shown(f'<p class="source">{words}</p>')]

    def _kernel_link(self, match: re.Match) -> str:
        line = _FIRST_LINE.search(match.string, match.end())
        anchor = f"#{code.ANCHOR}-{line[1]}" if line else ""
        return f'{match[1]}<a href="{self._page_of(match[2])}{anchor}">{match[2]}</a>{match[3]}'

    def _page_of(self, file: str) -> str:
        """The address of the page of a kernel's file."""
        (path,) = (path for path in kernel_files() if path.name == file)
        path = path.relative_to(ROOT).as_posix()
        self.rewriter.met.add(path)
        return links.between(self.rewriter.page, links.address(links.source(path)))


def _only_in_the_notebook(words: str) -> str:
    """In place of sliders that compute anew at each move: what they are, and where they work."""
    what = html.escape(words.partition(". Run this cell")[0])
    return (
        f"<p>{what}. They compute anew with every move, so they work in the notebook, not on this "
        f'page: <a href="../running.html">how to run it</a>.</p>'
    )


def _words(name: str, text: str) -> dict:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}


def _shown(markup: str) -> dict:
    return {"output_type": "display_data", "data": {"text/html": markup}, "metadata": {}}
