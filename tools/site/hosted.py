"""Links that open a notebook on Colab or Binder.

The address of the repository is not known here: the environment variable GEMMLAB_SITE_REPOSITORY
names it, such as https://github.com/OWNER/NAME. Without it there are no links, and pages say how to
run a notebook on one's own machine.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from urllib.parse import quote

from gemmlab.folders import ROOT

VARIABLE = "GEMMLAB_SITE_REPOSITORY"
_ADDRESS = re.compile(r"https://github\.com/([A-Za-z0-9-]+)/([A-Za-z0-9._-]+?)(?:\.git)?/?")
_BUTTON = "{.sd-btn .sd-btn-outline-primary .sd-px-3 .sd-py-1}"


class BadRepository(ValueError):
    """The address of the repository is none that links can be made of. The message says why."""


@dataclass(frozen=True)
class Repository:
    """Where the project is published, and the commit that the site is made from."""

    name: str  # "OWNER/NAME"
    commit: str

    def on_colab(self, notebook: str) -> str:
        where = f"{self.name}/blob/{self.commit}/notebooks/{notebook}.ipynb"
        return f"https://colab.research.google.com/github/{where}"

    def on_binder(self, notebook: str) -> str:
        """In JupyterLab, on a machine that Binder makes from .binder/."""
        where = quote(f"lab/tree/notebooks/{notebook}.ipynb", safe="")
        return f"https://mybinder.org/v2/gh/{self.name}/{self.commit}?urlpath={where}"


def repository() -> Repository | None:
    """The one that the environment names, at the commit of the checkout; None if it names none.

    Raises BadRepository.
    """
    address = os.environ.get(VARIABLE, "")
    if not address:
        return None
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise BadRepository(
            f"{VARIABLE} is {address!r}; it must be the address of a repository on GitHub, such as "
            "https://github.com/OWNER/NAME, for Colab and Binder open those by it."
        )
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BadRepository(
            f"{VARIABLE} is set, and git does not tell the commit of {ROOT} ({error}): build the "
            "site in a clone, or without the variable."
        ) from None
    return Repository(f"{match[1]}/{match[2]}", done.stdout.strip())


def links(notebook: str, where: Repository | None) -> str:
    """How to run a notebook, in Markdown for its page."""
    if where is None:
        return (
            "To run and change this notebook, with a GPU or without: `make lab` in a clone of the "
            "repository. [How](../running.md)"
        )
    return (
        f"[Run it on Binder]({where.on_binder(notebook)}){_BUTTON}\n"
        f"[Run it on Colab]({where.on_colab(notebook)}){_BUTTON}\n"
        "[How](../running.md){.sd-px-3}"
    )


def first_cell() -> str:
    """What a notebook on Colab begins with, in Markdown. Raises BadRepository."""
    where = repository()
    source = f"git+https://github.com/{where.name}@{where.commit}" if where else "git+ADDRESS"
    return f'    %pip install "gemmlab[cuda12,fast] @ {source}"'
