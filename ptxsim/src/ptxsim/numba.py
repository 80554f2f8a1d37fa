"""Kernels of Numba-CUDA, run by the simulator: no GPU and no driver.

    >>> from ptxsim.numba import launch
    >>> run = launch(kernel, (4, 4), (16, 16), A, B, C, check=True)

Numba compiles its own kernel to PTX; findings, counters and lines are those of the Python source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxsim.launcher import Run, launch_ptx
from ptxsim.limits import LaunchError
from ptxsim.machine import Check


def launch(
    kernel: Any, grid: int | Sequence[int], block: int | Sequence[int], *args: Any,
    arch: str = "sm_90", shared_bytes: int = 0, count: bool = False, check: Check = False,
    blocks: list[tuple[int, int, int]] | None = None, limit_s: float | None = 120.0,
) -> Run:  # fmt: skip
    """As `kernel[grid, block](*args)`, with NumPy arrays, which are changed in place.

    `kernel`: a Python function, or one of cuda.jit. `shared_bytes`: dynamic shared memory. The
    others, the result and what is raised are those of ptxsim.launch_ptx; what Numba raises where
    the kernel does not compile.
    """
    from numba import cuda, typeof, types

    function = getattr(kernel, "py_func", kernel)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    if len(args) != len(names):
        raise LaunchError(
            f"kernel '{function.__name__}' takes {len(names)} arguments, not {len(args)}: "
            f"{', '.join(names)}"
        )
    number = int("".join(filter(str.isdigit, arch)))
    text, _ = cuda.compile_ptx(
        function, types.void(*map(typeof, args)), cc=divmod(number, 10), lineinfo=True
    )
    (mangled,) = re.findall(r"\.entry\s+(\w+)", text)
    text = re.sub(rf"\b{mangled}\b", function.__name__, text)
    passed: list[Any] = []
    called: list[str] = []
    for name, arg in zip(names, args, strict=True):
        values, parts = _passed(arg)
        passed += values
        called += [f"{name}{part}" for part in parts]
    return launch_ptx(
        text, function.__name__, grid, block, passed, shared_bytes=shared_bytes, count=count,
        check=check, blocks=blocks, limit_s=limit_s, names=tuple(called),
    )  # fmt: skip


def _passed(arg: Any) -> tuple[list[Any], list[str]]:
    """What a kernel of Numba takes for an argument, and what each is called."""
    if not isinstance(arg, np.ndarray):
        return [arg], [""]
    extents = [f"{what}[{axis}]" for what in (".shape", ".strides") for axis in range(arg.ndim)]
    # Its owner and its parent, which are nothing on a GPU; how many elements, and their bytes.
    values = [None, None, arg.size, arg.itemsize, arg, *arg.shape, *arg.strides]
    return values, [".meminfo", ".parent", ".size", ".itemsize", "", *extents]
