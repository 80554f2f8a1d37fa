"""A kernel or a module as a page: numbered lines with an anchor each, includes as links, and heat.

The heat of a rung's kernel is that of gl.heat, for one tile of C with the default settings.
A folder of such files is a page, too: a list with what each file is for.
"""

from __future__ import annotations

import ast
import html
import posixpath
import re

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from gemmlab.folders import ROOT, kernel_file
from gemmlab.ladder import RUNGS
from gemmlab.loading import load
from gemmlab.notebook.heat import COUNTS, Heat, heat
from gemmlab.plots.style import percent
from gemmlab.site.pages import links

STEPS, LEAST_K = 2, 64  # how far along K the product goes whose traffic is shown
_INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
LANGUAGES = {".cu": "cuda", ".cuh": "cuda", ".py": "python"}


def page(path: str) -> str:
    """Markdown of the page of a file of code, `path` from the repository's root."""
    text = (ROOT / path).read_text(encoding="utf-8")
    parts = [f"# {posixpath.basename(path)}", about(path, text), _table(path, text)]
    return "\n\n".join(part for part in parts if part) + "\n"


def folder(path: str) -> str:
    """Markdown of the page of a folder: its folders and files, each with what it is for."""
    lines = [f"# {path}", "", "| in it | what it is for |", "|---|---|"]
    for one in sorted((ROOT / path).iterdir(), key=lambda one: (one.is_file(), one.name)):
        if one.name.startswith((".", "__pycache__")):
            continue
        says = one / "__init__.py" if (one / "__init__.py").is_file() else one
        words = ""
        if says.suffix in LANGUAGES:
            words = about(says.name, says.read_text(encoding="utf-8"))
        lines.append(f"| `{one.name}{'/' if one.is_dir() else ''}` | {words} |")
    return "\n".join(lines) + "\n"


def about(path: str, text: str) -> str:
    """What a file is for, in a sentence of its own: its idea, or how its first comment begins."""
    if path.endswith(".py"):
        return ((ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]).replace("\n", " ")
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    words = " ".join(lines)
    if idea := re.search(r"Idea:\s+(.*?)\s*(?:\w+:\s{2,}|$)", words):
        title = re.sub(r"^(\d+)\s+", r"\1 · ", lines[0])
        words = idea[1]
        return f"{title}. {_first_sentence(words)}"
    return _first_sentence(words)


def _first_sentence(words: str) -> str:
    words = re.split(r"(?<=[\w)»\"'])\.(?=\s+[A-Z]|$)", words)[0].strip().rstrip(".") + "."
    return words[0].upper() + words[1:]


def _table(path: str, text: str) -> str:
    """HTML: a row for each line, with its shares of the traffic where the file is a rung's."""
    lexer = get_lexer_by_name(LANGUAGES[posixpath.splitext(path)[1]], stripnl=False, ensurenl=False)
    lines = highlight(text.rstrip("\n"), lexer, HtmlFormatter(nowrap=True)).removesuffix("\n")
    counted = _heat(path)
    kinds = [kind for kind in COUNTS if counted is not None and counted.table[kind].any()]
    costs = counted.table.set_index("line").to_dict("index") if kinds else {}
    rows = []
    for number, line in enumerate(lines.split("\n"), 1):
        heat = "".join(_cost(kind, costs.get(number, {})) for kind in kinds)
        rows.append(
            f'<tr id="L{number}"><th scope="row"><a href="#L{number}">{number}</a></th>{heat}'
            f"<td><pre>{_linked(path, line)}</pre></td></tr>"
        )
    body = "\n".join(rows)
    head = "".join(f'<th scope="col" class="heat {kind}">{kind}</th>' for kind in kinds)
    name = html.escape(posixpath.basename(path))
    return (
        f"{_caption(counted)}```{{raw}} html\n"
        f'<div class="code-page highlight" role="region" aria-label="{name}"><table><thead><tr>'
        f'<th scope="col">line</th>{head}<th scope="col">source</th></tr></thead><tbody>\n{body}\n'
        "</tbody></table></div>\n```"
    )


def _heat(path: str) -> Heat | None:
    """Of a rung's kernel its heat for one tile of C; of another file None."""
    rung = {rung.path.name: rung for rung in RUNGS}.get(posixpath.basename(path))
    if rung is None or posixpath.dirname(path) != "kernels":
        return None
    kernel = load(rung.name)
    rows, columns = rung.tile(kernel.settings)
    return heat(kernel.trace(rows, columns, max(LEAST_K, STEPS * rung.depth(kernel.settings))))


def _caption(counted: Heat | None) -> str:
    if counted is None:
        return ""
    return (
        "What each line costs in sectors of global memory and wavefronts of shared memory, counted "
        "in the simulator for one tile of C; what functions of an included file move counts for "
        f"the line that calls them. {counted.caption}\n\n"
    )


def _cost(kind: str, line: dict) -> str:
    """A cell: how much of all traffic of one kind a line causes."""
    if not line.get(kind):
        return f'<td class="heat {kind}"></td>'
    share = line[f"{kind}_share"]
    words = f"{line[kind]:,} {kind}"
    look = f'style="--share: {share:.1f}%" title="{words}"'
    return f'<td class="heat {kind}" {look}>{percent(share)}</td>'


def _linked(path: str, line: str) -> str:
    """A highlighted line, with a link where it includes a header of ours."""
    found = _INCLUDE.match(html.unescape(re.sub(r"<[^>]*>", "", line)))
    if not found or not (header := kernel_file(found[1])).is_file():
        return line
    target = links.address(links.source(header.relative_to(ROOT).as_posix()))
    where = links.between(links.source(path), target)
    return line.replace(found[1], f'<a href="{where}">{found[1]}</a>')
