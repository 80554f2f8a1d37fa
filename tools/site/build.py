"""`make site`: the sources of all pages into build/site-source, and Sphinx's into build/site."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tqdm import tqdm

from gemmlab import files
from gemmlab.folders import NOTEBOOKS, ROOT, kernel_files
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from tools.site import hosted, widgets
from tools.site.pages import code, links, notebook, prose

BUILD = ROOT / "build"
SITE, SOURCE, DOCTREES = BUILD / "site", BUILD / "site-source", BUILD / "site-doctrees"
UNFINISHED = BUILD / "site-unfinished"  # becomes SITE when all is there
DOCS = ROOT / "docs"
NOT_PAGES = {"index"}  # notebooks that the landing page stands for
LISTED = "---\nhide-toc: true\n---\n"  # pages of code; most are in no list of pages either
ORPHAN = "---\nhide-toc: true\norphan: true\nogp_disable: true\n---\n"

Put = Callable[[str, bytes], None]
"""Writes the content of a source, by its path below SOURCE."""


class BuildFailed(Exception):
    """Sphinx did not make the site; the message has what it said."""


def build() -> Path:
    """Make the whole site, and return the path of its first page. A site made before stays until
    the new one is whole.

    Raises BuildFailed, OSError, NoRecord, StaleRecord, BadRecord, and what
    widgets.write, notebook.page and prose.page raise.
    """
    shutil.rmtree(UNFINISHED, ignore_errors=True)
    drawn = widgets.write(UNFINISHED, widgets.of_notebooks(), _progress("pictures of sliders"))
    written = _write_sources(drawn)
    for stale in sorted(set(SOURCE.rglob("*")) - written, reverse=True):
        stale.unlink() if stale.is_file() else _remove_empty(stale)
    _run_sphinx()
    shutil.rmtree(SITE, ignore_errors=True)
    UNFINISHED.rename(SITE)
    return SITE / "index.html"


def _write_sources(drawn: Mapping[str, str]) -> set[Path]:
    """Write the source of every page, and the notebooks' pictures; all sources.

    drawn: the HTML of the notebooks' sliders and players, by their names.
    """
    written: set[Path] = set()
    met: set[str] = set()

    def put(path: str, content: bytes) -> None:
        # What is the same stays as it is, so that Sphinx reads only what changed.
        to = SOURCE / path
        if not to.is_file() or to.read_bytes() != content:
            files.write(to, content)
        written.add(to)

    names = [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb")) if path.stem not in NOT_PAGES]
    for name in _progress("notebooks")(names, len(names)):
        made = notebook.page(name, drawn)
        put(f"notebooks/{name}.ipynb", json.dumps(made.notebook, ensure_ascii=False).encode())
        for path, content in made.files.items():
            files.write(UNFINISHED / path, content)
        met |= made.met
    documents = [*sorted(DOCS.glob("*.md")), *sorted((ROOT / "ptxsim" / "docs").glob("*.md"))]
    for path in [*links.PAGES, *(page.relative_to(ROOT).as_posix() for page in documents)]:
        text, linked = prose.page(path)
        put(links.source(path), text.encode())
        met |= linked
    met |= {path.relative_to(ROOT).as_posix() for path in kernel_files()}
    for path in _progress("code")(sorted(met), len(met)):
        _put_linked(path, put)
    for picture in sorted((ROOT / "results" / "pictures").rglob("*.png")):
        put(picture.relative_to(ROOT).as_posix(), picture.read_bytes())
    return written


def _put_linked(path: str, put: Put) -> None:
    """The page of what is linked to, or its copy. What has its page already gets none."""
    to = links.source(path)
    if to == f"{path}/index.md":
        put(to, (ORPHAN + code.folder(path)).encode())
    elif Path(path).suffix in links.CODE:
        head = LISTED if path.startswith("kernels/") else ORPHAN
        put(to, (head + code.page(path)).encode())
    elif to == path and not path.endswith(".ipynb"):
        put(to, (ROOT / path).read_bytes())


def _run_sphinx() -> None:
    """Raises BuildFailed where it warns: a link or a mark that leads nowhere is a mistake."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-c", DOCS, "-d", DOCTREES]
    command += ["-j", "auto", "-W", "--keep-going", SOURCE, UNFINISHED]
    print("Sphinx makes the pages: about a minute.", file=sys.stderr, flush=True)
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
    )  # fmt: skip
    if done.returncode:
        raise BuildFailed(f"Sphinx made no site:\n{done.stderr.strip() or done.stdout.strip()}")


def _progress(what: str) -> Callable[[Iterable, int], Iterable]:
    return lambda items, total: tqdm(items, desc=what, total=total, leave=False)


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


def main() -> int:
    start = time.monotonic()
    try:
        first = build()
    except (
        BadRecord, BuildFailed, NoRecord, StaleRecord, OSError, links.DeadLink,
        hosted.BadRepository, notebook.UnfitNotebook, prose.UnknownMark,
    ) as error:  # fmt: skip
        print(f"gemmlab: {error}", file=sys.stderr)
        return 1
    print(f"Made in {time.monotonic() - start:.0f} s: open {first.relative_to(ROOT)}")
    return 0
