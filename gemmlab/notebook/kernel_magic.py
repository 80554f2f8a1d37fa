"""`%%kernel 03_shared_memory TILE=16 --name mine`: a cell of CUDA C++ that is judged as it runs."""

import keyword
import re
import shlex
from typing import Any

from gemmlab.analysis.judgement import Judgement, judge
from gemmlab.kernel.kernel import Kernel

USAGE = "write %%kernel, a rung, its settings and perhaps a name: %%kernel 03_shared_memory TILE=16"
WHOLE = re.compile(r"[+-]?\d+")


class BadLine(ValueError):
    """The line after %%kernel cannot be read. The message says what to write."""


def parse(line: str) -> tuple[str, dict[str, int], str | None]:
    """The rung, the settings and the name of the variable, or None. Raises BadLine."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise BadLine(f"{line!r} cannot be read ({error}): {USAGE}.") from None
    rungs, settings, name = [], {}, None
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option == "--name":
            name = value if equals else next(rest, "")
            if not name.isidentifier() or keyword.iskeyword(name):
                raise BadLine(f"{name!r} is no name of a variable: write --name mine.")
        elif word.startswith("-"):
            raise BadLine(f"there is no option {option}; the only one is --name.")
        elif equals:
            if not WHOLE.fullmatch(value):
                raise BadLine(f"{word} is no whole number: write {option}=16.")
            settings[option] = int(value)
        else:
            rungs.append(word)
    if len(rungs) != 1:
        reason = f"there are several: {', '.join(rungs)}" if rungs else "no rung is named"
        raise BadLine(f"{reason}; {USAGE}.")
    return rungs[0], settings, name


def _require_free(name: str | None, variables: dict) -> None:
    """Raises BadLine for a variable that holds something other than a kernel."""
    if name in variables and not isinstance(variables[name], Kernel):
        raise BadLine(
            f"{name} holds something else, of type {type(variables[name]).__name__}, which would "
            "be lost: choose another name, such as --name mine."
        )


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
            _require_free(name, ipython.user_ns)
        except BadLine as error:
            return Judgement("", stopped=f"%%kernel: {error}")
        judgement = judge(cell, rung, **settings)
        if name and judgement.kernel is not None:
            ipython.user_ns[name] = judgement.kernel
        elif name and isinstance(ipython.user_ns.get(name), Kernel):
            del ipython.user_ns[name]  # it would be the kernel of an earlier run
        return judgement

    ipython.register_magic_function(kernel, magic_kind="cell", magic_name="kernel")
