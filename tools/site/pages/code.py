"""A kernel or a module as a page: numbered lines with an anchor each, and includes as links.

A folder of such files is a page, too: a list with what each file is for.
"""

from __future__ import annotations

import ast
import posixpath
import re

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from gemmlab.folders import ROOT, kernel_files
from tools.site.pages import links

ANCHOR = "L"  # line 44 is "#L-44"
LANGUAGES = {".cu": "cuda", ".cuh": "cuda", ".py": "python"}
_INCLUDE = re.compile(r'(<span class="cpf">")([\w./]+)("</span>)')


def page(path: str) -> str:
    """Markdown of the page of a file of code, `path` from the repository's root."""
    text = (ROOT / path).read_text(encoding="utf-8")
    name, suffix = posixpath.basename(path), posixpath.splitext(path)[1]
    form = HtmlFormatter(
        linenos="table", lineanchors=ANCHOR, anchorlinenos=True, cssclass="code-page highlight"
    )
    shown = highlight(text, get_lexer_by_name(LANGUAGES[suffix]), form)
    shown = _INCLUDE.sub(lambda match: _linked(path, match), shown)
    return f"# {name}\n\n{about(path, text)}\n\n```{{raw}} html\n{shown}```\n"


def folder(path: str) -> str:
    """Markdown of the page of a folder: its folders and files, each with what it is for."""
    lines = [f"# {path}", "", "| in it | what it is for |", "|---|---|"]
    for entry in sorted((ROOT / path).iterdir(), key=lambda entry: (entry.is_file(), entry.name)):
        if entry.name.startswith((".", "__pycache__")):
            continue
        says = entry / "__init__.py" if (entry / "__init__.py").is_file() else entry
        words = ""
        if says.suffix in LANGUAGES:
            words = about(says.name, says.read_text(encoding="utf-8"))
        lines.append(f"| `{entry.name}{'/' if entry.is_dir() else ''}` | {words} |")
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
        return f"{title}. {_first_sentence(idea[1])}"
    return _first_sentence(words)


def _first_sentence(words: str) -> str:
    words = re.split(r"(?<=[\w)»\"'])\.(?=\s+[A-Z]|$)", words)[0].strip().rstrip(".") + "."
    return words[0].upper() + words[1:]


def _linked(path: str, match: re.Match) -> str:
    """The name of an included file, as a link where it is one of ours."""
    header = next(
        (file for file in kernel_files() if file.name == posixpath.basename(match[2])), None
    )
    if header is None:
        return match[0]
    target = links.address(links.source(header.relative_to(ROOT).as_posix()))
    where = links.between(links.source(path), target)
    return f'{match[1]}<a href="{where}">{match[2]}</a>{match[3]}'
