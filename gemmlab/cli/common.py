"""Code that commands share: exit codes, lines on standard error, types of arguments."""

import argparse
import sys
from collections.abc import Callable

from tqdm.auto import tqdm

OK, FAILED, USAGE, UNAVAILABLE = 0, 1, 2, 3
STOPPED = 130  # as a shell says of a command that Ctrl-C ended
AUTO = "auto"  # instead of a rung: what gl.choose takes


def say(line: str) -> None:
    """A line on standard error that leaves a progress bar whole."""
    tqdm.write(line, file=sys.stderr)


def size(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)


def setting(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value.lstrip("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as BLOCK_X=16")
    return name, int(value)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """--set NAME=VALUE, as often as one likes."""
    parser.add_argument(
        "--set", action="append", default=[], type=setting, metavar="NAME=VALUE",
        help="set a parameter of the kernel, such as BLOCK_X=16; may be repeated",
    )  # fmt: skip


def add_arch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--arch", help="such as sm_86 (default: the GPU's, else sm_90a)")


class Commands:
    """Where a module adds its commands: one of gemmlab.cli, or `command` of a lesson, which takes
    `say` from here."""

    say = staticmethod(say)

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parsers = parser.add_subparsers(metavar="command")

    def add(
        self, name: str, run: Callable[[argparse.Namespace], int], help: str, more: str = ""
    ) -> argparse.ArgumentParser:
        """The parser of a command; `run` does its work and returns the exit code."""
        description = f"{help[0].upper()}{help[1:]}. {more}"
        parser = self._parsers.add_parser(name, help=help, description=description)
        parser.set_defaults(run=run)
        return parser
