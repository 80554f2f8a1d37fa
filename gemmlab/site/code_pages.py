"""A kernel or a module as a page: numbered lines with an anchor each, includes as links, and heat.

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

from gemmlab.folders import ROOT
from gemmlab.site import links

LANGUAGES = {".cu": "cuda", ".cuh": "cuda", ".py": "python"}


def page(path: str) -> str:
    """Markdown of the page of a file of code, `path` from the repository's root."""
    text = (ROOT / path).read_text(encoding="utf-8")
    parts = [f"# {posixpath.basename(path)}", about(path, text), _table(path, text)]
    return "\n\n".join(part for part in parts if part) + "\n"


def folder(path: str) -> str:
    """Markdown of the page of a folder: its folders and files, each with what it is for."""
    lines = [f"# {path}", "", "| | |", "|---|---|"]
    for one in sorted((ROOT / path).iterdir(), key=lambda one: (one.is_file(), one.name)):
        if one.name.startswith((".", "__pycache__")):
            continue
        within = f"{path}/{one.name}"
        target = links.between(f"{path}/index.md", links.source(within))
        words = about(within, one.read_text(encoding="utf-8")) if one.suffix in LANGUAGES else ""
        if (one / "__init__.py").is_file():
            words = about(
                f"{within}/__init__.py", (one / "__init__.py").read_text(encoding="utf-8")
            )
        lines.append(f"| [{one.name}]({target}) | {words} |")
    return "\n".join(lines) + "\n"


def children(path: str) -> list[str]:
    """What a folder's page links to, by paths in the repository."""
    return [
        f"{path}/{one.name}"
        for one in sorted((ROOT / path).iterdir())
        if not one.name.startswith((".", "__pycache__"))
    ]


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
    """HTML: a row for each line."""
    lexer = get_lexer_by_name(LANGUAGES[posixpath.splitext(path)[1]], stripnl=False, ensurenl=False)
    code = highlight(text.rstrip("\n"), lexer, HtmlFormatter(nowrap=True)).removesuffix("\n")
    rows = []
    for number, line in enumerate(code.split("\n"), 1):
        rows.append(
            f'<tr id="L{number}"><td class="number"><a href="#L{number}">{number}</a></td>'
            f"<td><pre>{_linked(path, line)}</pre></td></tr>"
        )
    body = "\n".join(rows)
    name = html.escape(posixpath.basename(path))
    return (
        "```{raw} html\n"
        f'<div class="code-page highlight" tabindex="0" role="region" aria-label="{name}">'
        f"<table><tbody>\n{body}\n</tbody></table></div>\n```"
    )


def _linked(path: str, line: str) -> str:
    """A highlighted line, with a link where it includes a header of ours."""
    found = re.search(r"#\s*(?:</span>)?.*include.*?(?:\"|&quot;)([\w./]+)(?:\"|&quot;)", line)
    if not found or not (ROOT / posixpath.dirname(path) / found[1]).is_file():
        return line
    target = links.address(links.source(posixpath.join(posixpath.dirname(path), found[1])))
    where = links.between(links.source(path), target)
    return line.replace(found[1], f'<a href="{where}">{found[1]}</a>')
