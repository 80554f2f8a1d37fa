"""compile: all rungs with the settings that ship, and their listings."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmlab import files
from gemmlab.cli.common import FAILED, OK, Commands
from gemmlab.folders import require_checkout
from gemmlab.kernel import prebuilt
from gemmlab.ladder import RUNGS
from gemmlab.sass import loops


def add(commands: Commands) -> None:
    parser = commands.add(
        "compile", run, "compile all rungs with all settings, into kernels/compiled",
        "Writes kernels/compiled/: every rung with each of the settings that it ships.",
    )  # fmt: skip
    parser.add_argument(
        "--check", action="store_true", help="say what is not of the code as it is; write nothing"
    )
    parser.add_argument(
        "--listings", action="store_true", help="only the SASS of the default settings"
    )


def run(options: argparse.Namespace) -> int:
    if not options.check:
        require_checkout("Compiling for the sliders")
        files.require_writable(prebuilt.FOLDER)
    pieces: list[tuple[Path, Callable[[Any], bool], Callable[[Any], Any], Any]] = [
        (loops.path_of(rung.name), loops.is_current, loops.make_listing, rung) for rung in RUNGS
    ]
    if not options.listings:
        pieces += [
            (prebuilt.path_of(name), prebuilt.is_current, prebuilt.build, name)
            for name in prebuilt.NAMES
        ]
    code = OK
    for path, is_current, make, of in pieces:
        if not options.check:
            prebuilt.write(make(of), path)
            print(f"{path.name}: written")
        elif is_current(of):
            print(f"{path.name}: up to date")
        else:
            code = FAILED
            print(f"{path.name}: stale, run `make compiled`")
    return code
