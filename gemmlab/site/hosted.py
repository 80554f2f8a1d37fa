"""Notebooks to run on another's machine: copies for Colab, and links to them and to Binder.

The address of the repository is not known here: the environment variable GEMMLAB_SITE_REPOSITORY
names it, such as https://github.com/OWNER/NAME. Without it there are no copies and no links, and
pages say how to run a notebook on one's own machine.

A copy is the notebook without its outputs, with one cell before all others: it fetches the project
as it was when the site was built and calls requirements/hosted.py, which installs what the locks
pin. The workflow that publishes the site puts the copies on a branch of their own, since Colab
opens notebooks of a repository.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gemmlab import files
from gemmlab.folders import NOTEBOOKS, ROOT

VARIABLE = "GEMMLAB_SITE_REPOSITORY"
ALSO = {"gemmlab.search": "kernel-tuner"}  # what a notebook imports -> what it needs besides
FOLDER = "colab"  # of the site, and the branch of the repository that has the same
_ADDRESS = re.compile(r"https://github\.com/([A-Za-z0-9-]+)/([A-Za-z0-9._-]+?)(?:\.git)?/?")
_MARKDOWN = re.compile(r"(\]\()([^()\s]+)(\))")
_BUTTON = "{.sd-btn .sd-btn-outline-primary .sd-px-3 .sd-py-1}"

SETUP = """\
# Run this cell first. It installs the pinned versions, and says what it found.
import pathlib
import runpy
import shutil
import tempfile
import urllib.request

ARCHIVE = "{archive}"
ROOT = pathlib.Path.home() / "{folder}"
if not ROOT.is_dir():
    try:
        with tempfile.TemporaryDirectory(dir=ROOT.parent) as folder:
            packed, _ = urllib.request.urlretrieve(ARCHIVE, f"{{folder}}/project.zip")
            shutil.unpack_archive(packed, f"{{folder}}/unpacked")
            (unpacked,) = pathlib.Path(folder, "unpacked").iterdir()
            unpacked.rename(ROOT)
    except OSError as error:
        raise RuntimeError(
            f"{{ARCHIVE}} cannot be fetched ({{error}}): check that this machine reaches the "
            "network and has room on its disk, then run this cell again. If the address is gone, "
            "open the notebook anew from the site."
        ) from None
runpy.run_path(str(ROOT / "requirements" / "hosted.py"))["set_up"](ROOT{also})
"""
WORDS = (
    "*A copy to run on Colab. Run the first cell, and wait for its last line. Where Colab had "
    "loaded a package before in another version, it asks for a restart of the session: restart, "
    "and run it again. With a GPU (Runtime, Change runtime type) kernels run on it; without one "
    "they run in the simulator, and times are replayed.*"
)


class BadRepository(ValueError):
    """The address of the repository is none that links can be made of. The message says why."""


@dataclass(frozen=True)
class Repository:
    """Where the project is published, and the commit that the site is made from."""

    owner: str
    name: str
    commit: str

    @property
    def address(self) -> str:
        return f"https://github.com/{self.owner}/{self.name}"

    @property
    def archive(self) -> str:
        """The project as a zip file, with one folder in it."""
        return f"{self.address}/archive/{self.commit}.zip"

    def file(self, path: str) -> str:
        """A file or folder at this commit."""
        return f"{self.address}/blob/{self.commit}/{quote(path)}"

    def on_colab(self, name: str) -> str:
        """The copy of a notebook, opened by Colab."""
        inside = f"{self.owner}/{self.name}/blob/{FOLDER}/{name}.ipynb"
        return f"https://colab.research.google.com/github/{inside}"

    def on_binder(self, name: str) -> str:
        """A notebook in JupyterLab, on a machine that Binder makes from .binder/."""
        where = quote(f"lab/tree/notebooks/{name}.ipynb", safe="")
        return f"https://mybinder.org/v2/gh/{self.owner}/{self.name}/{self.commit}?urlpath={where}"


def repository() -> Repository | None:
    """The one that the environment names, at the commit of the checkout; None if it names none.

    Raises BadRepository.
    """
    address = os.environ.get(VARIABLE, "")
    if not address:
        return None
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise BadRepository(
            f"{VARIABLE} is {address!r}; it must be the address of a repository on GitHub, such as "
            "https://github.com/OWNER/NAME, for Colab and Binder open those by it."
        )
    return Repository(found[1], found[2], _commit())


def _commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BadRepository(
            f"{VARIABLE} is set, and git does not tell the commit of {ROOT} ({error}): build the "
            "site in a clone, or without the variable."
        ) from None
    return done.stdout.strip()


# ---- copies --------------------------------------------------------------------------------------


def write(folder: Path, where: Repository) -> None:
    """Write the copy of every notebook below `folder`/colab. Raises NotWritten."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        text = json.dumps(for_colab(path.stem, where), ensure_ascii=False, indent=1) + "\n"
        files.write(folder / FOLDER / path.name, text.encode())


def for_colab(name: str, where: Repository) -> dict:
    """The notebook notebooks/<name>.ipynb for Colab."""
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    code = "\n".join("".join(one["source"]) for one in notebook["cells"])
    needs = [one for module, one in ALSO.items() if f"from {module}" in code]
    setup = SETUP.format(
        archive=where.archive, folder=f"gemmlab-{where.commit[:12]}",
        also=f", also={needs}" if needs else "",
    )  # fmt: skip
    cells = [
        {"cell_type": "markdown", "id": "hosted-words", "metadata": {}, "source": WORDS},
        _code("hosted-setup", setup),
        *(_as_copied(cell, where) for cell in notebook["cells"]),
    ]
    return {**notebook, "cells": cells}


def _as_copied(cell: dict, where: Repository) -> dict:
    text = "".join(cell["source"])
    if cell["cell_type"] == "code":
        return _code(cell["id"], text)
    return {**cell, "source": _MARKDOWN.sub(lambda m: m[1] + _target(m[2], where) + m[3], text)}


def _code(name: str, text: str) -> dict:
    return {
        "cell_type": "code", "id": name, "metadata": {}, "source": text, "outputs": [],
        "execution_count": None,
    }  # fmt: skip


def _target(target: str, where: Repository) -> str:
    """A link of a notebook, as it leads from its copy: to the other copies, and to the repository's
    files as they are."""
    if re.match(r"[a-z]+:|#|//", target):
        return target
    path, mark, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join("notebooks", path))
    if posixpath.dirname(path) == "notebooks" and path.endswith(".ipynb"):
        return where.on_colab(posixpath.basename(path).removesuffix(".ipynb")) + mark + anchor
    return where.file(path) + mark + anchor


# ---- what pages say ------------------------------------------------------------------------------


def words(name: str, where: Repository | None) -> str:
    """How to run a notebook, in Markdown for its page: links, or the way on one's own machine."""
    if where is None:
        return (
            "To run and change this notebook, with a GPU or without: `make lab` in a clone of the "
            "repository. [How](../running.md)"
        )
    return (
        f"[Run it on Colab]({where.on_colab(name)}){_BUTTON}\n"
        f"[Run it on Binder]({where.on_binder(name)}){_BUTTON}\n"
        "[On your machine](../running.md){.sd-px-3}"
    )


def every_link(where: Repository | None) -> str:
    """Links for all notebooks, in Markdown for the page about running them."""
    if where is None:
        return (
            "This site was made without the address of a repository, so it has no links to Colab "
            "and Binder, which open notebooks from there. Whoever publishes it names one: "
            f"`{VARIABLE}=https://github.com/OWNER/NAME make site`."
        )
    rows = [
        f"| [{name}](../notebooks/{name}.ipynb) | [Colab]({where.on_colab(name)}) "
        f"| [Binder]({where.on_binder(name)}) "
        f'| <a href="{FOLDER}/{name}.ipynb" download>copy for Colab</a> |'
        for name in sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
        if name != "index"
    ]
    return "\n".join(
        ["| notebook | on Colab | on Binder | to upload |", "|---|---|---|---|", *rows]
    )
