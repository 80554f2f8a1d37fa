"""The place of a file of the repository on the site, and links between pages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from urllib.parse import unquote

from gemmlab.folders import ROOT

CODE = {".cu", ".cuh", ".py"}  # files that have a page with numbered lines
HOME = "index.md"
# Files outside of docs/ that have a page of their own.
PAGES = {f"{name}.md": f"{name.lower()}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")}
PAGES["ptxsim/README.md"] = "ptxsim.md"
# Pages that stand for a file, or a folder, of another name.
INSTEAD = {**PAGES, "notebooks/index.ipynb": HOME, "notebooks": HOME, "kernels": "kernels.md"}
_MARKDOWN = re.compile(r"(\]\()([^()\s]+)(\))")
_HTML = re.compile(r'(<a\b[^>]*?\bhref=")([^"]+)(")')


class DeadLink(Exception):
    """A link to what is not in the repository. The message says where it stands and where to."""


def source(path: str) -> str:
    """Of a file or folder, its path in the repository -> the path of its page's source.

    A file that has no page, such as a table, keeps its path: it is copied.
    """
    if path in INSTEAD:
        return INSTEAD[path]
    if posixpath.dirname(path) in ("docs", "ptxsim/docs") and path.endswith(".md"):
        return posixpath.basename(path)
    if posixpath.splitext(path)[1] in CODE:
        return path + ".md"
    return f"{path}/index.md" if (ROOT / path).is_dir() else path


def address(page: str) -> str:
    """Of a page's source, the path that the built page has in the site."""
    stem, suffix = posixpath.splitext(page)
    return stem + ".html" if suffix in (".md", ".ipynb") else page


def between(page: str, other: str) -> str:
    """From one path on the site to another, relative."""
    return posixpath.relpath(other, posixpath.dirname(page) or ".")


class Rewriter:
    """Turns the links of one file of the repository into links of its page.

    `met`: the files and folders that it links to, by their paths in the repository.
    """

    def __init__(self, path: str):
        self.path, self.page = path, source(path)
        self.met: set[str] = set()

    def markdown(self, text: str) -> str:
        """Text in Markdown, with links to sources of pages, which Sphinx resolves."""
        return self._each(_MARKDOWN, text, lambda page: page)

    def html(self, text: str) -> str:
        """HTML, with links to built pages."""
        return self._each(_HTML, text, address)

    def _each(self, pattern: re.Pattern, text: str, form: Callable[[str], str]) -> str:
        return pattern.sub(lambda m: m[1] + self._target(m[2], form) + m[3], text)

    def _target(self, target: str, form: Callable[[str], str]) -> str:
        if re.match(r"[a-z]+:|#|//", target):
            return target
        file, mark, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.path), unquote(file)))
        if path.startswith("..") or not (ROOT / path).exists():
            raise DeadLink(f"{self.path} links to {target}, and there is no {path} in the repository.")  # fmt: skip # noqa: E501
        self.met.add(path)
        return between(self.page, form(source(path))) + mark + anchor
