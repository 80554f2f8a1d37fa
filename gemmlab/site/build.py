"""`make site`: the sources of all pages into build/site-source, and Sphinx's into build/site."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tqdm import tqdm

from gemmlab import files
from gemmlab.folders import KERNELS, NOTEBOOKS, ROOT, NoCheckout, require_checkout
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from gemmlab.site import code_pages, links, pages, prose, speeds

BUILD = ROOT / "build"
SITE, SOURCE, DOCTREES = BUILD / "site", BUILD / "site-source", BUILD / "site-doctrees"
DOCS = ROOT / "docs"
NOT_PAGES = {"index"}  # notebooks that the landing page stands for


class BuildFailed(Exception):
    """Sphinx did not make the site; the message has what it said."""


def build() -> Path:
    """Make the whole site, and return the path of its first page.

    Raises BuildFailed, what pages.page raises, NoRecord, StaleRecord, BadRecord, NotWritten.
    """
    require_checkout("the site")
    files.require_writable(BUILD)
    shutil.rmtree(SITE, ignore_errors=True)
    written = prepare()
    speeds.write(SITE / "_static")
    for stale in sorted(set(SOURCE.rglob("*")) - written, reverse=True):
        stale.unlink() if stale.is_file() else _remove_empty(stale)
    _run_sphinx(len([path for path in written if path.suffix in (".md", ".ipynb")]))
    return SITE / "index.html"


def prepare() -> set[Path]:
    """Write the source of every page, and what pages show into the site; what was written."""
    written: set[Path] = set()
    met: set[str] = set()

    def put(path: str, content: bytes) -> None:
        """Leave what is the same as it is, so that Sphinx reads only what changed."""
        to = SOURCE / path
        if not to.is_file() or to.read_bytes() != content:
            files.write(to, content)
        written.add(to)

    names = [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb")) if path.stem not in NOT_PAGES]
    for name in tqdm(names, desc="notebooks", leave=False):
        made = pages.page(name)
        put(f"notebooks/{name}.ipynb", json.dumps(made.notebook, ensure_ascii=False).encode())
        for path, content in made.files.items():
            files.write(SITE / path, content)
        met |= made.met
    for path in ["README.md", *(f"docs/{one.name}" for one in sorted(DOCS.glob("*.md")))]:
        text, linked = prose.page(path)
        put(links.source(path), text.encode())
        met |= linked
    met |= {f"kernels/{path.name}" for path in KERNELS.glob("*.cu*")}
    for path in tqdm(_with_children(met), desc="code", leave=False):
        _put_linked(path, put)
    for picture in sorted((ROOT / "results" / "pictures").rglob("*.png")):
        put(picture.relative_to(ROOT).as_posix(), picture.read_bytes())
    return written


def _with_children(met: set[str]) -> list[str]:
    """What is linked to, and what the pages of folders among it link to, in turn."""
    found, left = set(), sorted(met)
    while left:
        path = left.pop()
        if path in found:
            continue
        found.add(path)
        if (ROOT / path).is_dir() and links.source(path) == f"{path}/index.md":
            left += code_pages.children(path)
    return sorted(found)


def _put_linked(path: str, put) -> None:
    """The page of what is linked to, or its copy. What has its page already gets none."""
    to = links.source(path)
    if (ROOT / path).is_dir():
        if to == f"{path}/index.md":
            put(to, b"---\norphan: true\n---\n" + code_pages.folder(path).encode())
    elif Path(path).suffix in links.CODE:
        orphan = "" if path.startswith("kernels/") else "---\norphan: true\n---\n"
        put(to, (orphan + code_pages.page(path)).encode())
    elif to == path and not path.endswith(".ipynb"):
        put(to, (ROOT / path).read_bytes())


def _run_sphinx(number_of_pages: int) -> None:
    """Raises BuildFailed where it warns: a link or a mark that leads nowhere is a mistake."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-c", DOCS, "-d", DOCTREES]
    command += ["-j", "auto", "--keep-going", "-W", SOURCE, SITE]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
    )  # fmt: skip
    out, err = started.communicate()
    if started.returncode:
        raise BuildFailed(f"Sphinx made no site:\n{err.strip() or out.strip()}")


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


def main() -> int:
    start = time.monotonic()
    try:
        first = build()
    except (
        BadRecord, BuildFailed, NoCheckout, NoRecord, StaleRecord, files.NotWritten, links.DeadLink,
        pages.UnfitNotebook,
    ) as error:  # fmt: skip
        print(f"gemmlab: {error}", file=sys.stderr)
        return 1
    print(f"Made in {time.monotonic() - start:.0f} s: open {first.relative_to(ROOT)}")
    return 0
