"""compile: all rungs with the settings that ship, and their listings."""

from __future__ import annotations

import argparse

from gemmlab import files
from gemmlab.cli.common import FAILED, OK, Commands
from gemmlab.folders import require_checkout
from gemmlab.kernel import prebuilt
from gemmlab.ladder import RUNGS
from gemmlab.sass import listings


def add(commands: Commands) -> None:
    parser = commands.add(
        "compile", run, "compile all rungs with all settings, into kernels/compiled",
        "Writes kernels/compiled/: every rung with each of the settings that it ships.",
    )  # fmt: skip
    parser.add_argument(
        "--check", action="store_true", help="compare with what is there, and write nothing"
    )
    parser.add_argument(
        "--listings", action="store_true", help="only the SASS of the default settings"
    )


def run(options: argparse.Namespace) -> int:
    if not options.check:
        require_checkout("Compiling for the sliders")
        files.require_writable(prebuilt.FOLDER)
    stale = _listings(options.check)
    for name in () if options.listings else prebuilt.NAMES:
        compiled = prebuilt.build(name, prebuilt.all_settings(name))
        if not options.check:
            prebuilt.write(compiled, prebuilt.path_of(name))
            print(f"{prebuilt.path_of(name).name}: {len(compiled)} compiled kernels")
        elif not prebuilt.alike(compiled, prebuilt.stored(name)):
            stale += 1
            print(f"{prebuilt.path_of(name).name}: stale, run `make compiled`")
        else:
            print(f"{prebuilt.path_of(name).name}: {len(compiled)} kernels, up to date")
    return FAILED if stale else OK


def _listings(check: bool) -> int:
    """Make or check the listings of all rungs, and return how many are stale."""
    stale = 0
    for rung in RUNGS:
        name = listings.path_of(rung.name).name
        if not check:
            prebuilt.write(listings.make(rung), listings.path_of(rung.name))
            print(f"{name}: the SASS of the default settings")
        elif not listings.is_current(rung):
            stale += 1
            print(f"{name}: stale, run `python -m gemmlab compile --listings`")
        else:
            print(f"{name}: up to date")
    return stale
