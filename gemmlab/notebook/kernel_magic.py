"""`%%kernel 03_shared_memory TILE=16 --name mine`: a cell of CUDA C++ that is judged as it runs."""

import argparse
import keyword
import shlex
from typing import Any, NoReturn

from gemmlab.analysis.judgement import Judgement, judge
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Settings, read_settings

USAGE = "write %%kernel, a rung, its settings and perhaps a name: %%kernel 03_shared_memory TILE=16"


class BadLine(ValueError):
    """The line after %%kernel cannot be read. The message says what to write."""


class _Line(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadLine(message)


LINE = _Line(prog="%%kernel", add_help=False, allow_abbrev=False)
LINE.add_argument("words", nargs="*")
LINE.add_argument("--name")


def parse(line: str) -> tuple[str, Settings, str | None]:
    """The rung, the settings and the name of the variable, or None. Raises BadLine."""
    try:
        options = LINE.parse_intermixed_args(shlex.split(line))
        name, rungs = options.name, [word for word in options.words if "=" not in word]
        settings = read_settings(" ".join(word for word in options.words if "=" in word))
        if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
            raise BadLine(f"{name!r} is no name of a variable")
        if len(rungs) != 1:
            raise BadLine(f"{len(rungs)} rungs are named, not one")
    except ValueError as error:
        raise BadLine(f"{line!r} cannot be read ({error}): {USAGE}.") from None
    return rungs[0], settings, name


def register(ipython: Any) -> None:
    """Give a shell of IPython the cell magic %%kernel."""

    def kernel(line: str, cell: str) -> Judgement:
        """Compile, verify, check and count the CUDA C++ in this cell, beside a rung.

        %%kernel RUNG [PARAMETER=VALUE ...] [--name VARIABLE]

        RUNG: the one that it started from and is launched as, such as 03_shared_memory.
        VARIABLE: gets the kernel, as gl.from_source(...) gives it. It must be new, or a kernel.
        """
        try:
            rung, settings, name = parse(line)
            if not isinstance(held := ipython.user_ns.get(name), Kernel | None):
                raise BadLine(
                    f"{name} holds something else, of type {type(held).__name__}, which would be "
                    "lost: choose another name, such as --name mine."
                )
        except BadLine as error:
            return Judgement("", stopped=f"%%kernel: {error}")
        judgement = judge(cell, rung, **settings)
        if name and judgement.kernel is not None:
            ipython.user_ns[name] = judgement.kernel
        elif held is not None:
            del ipython.user_ns[name]  # it would be the kernel of an earlier run
        return judgement

    ipython.register_magic_function(kernel, magic_kind="cell", magic_name="kernel")
