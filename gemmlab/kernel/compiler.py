"""One `.cu` file and its settings to a compiled kernel: PTX, cubin, registers, spills.

NVRTC does the work (see ptxsim.compile), with or without a GPU. Where there is no NVRTC, what
prebuilt.py holds takes its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmlab.cuda.options import options_for
from gemmlab.kernel import prebuilt
from gemmlab.kernel.fingerprint import code_hash
from ptxsim.compile import nvrtc, use_store
from ptxsim.compile.nvrtc import CompileError, NoCompiler

__all__ = [
    "CompileError",
    "Compiled",
    "NoCompiler",
    "Resources",
    "code_hash",
    "compile_kernel",
    "compiled_resources",
    "require_compiles",
    "resources",
    "stocked_resources",
]


use_store(prebuilt.find)


@dataclass(frozen=True)
class Resources:
    """What one kernel takes of a multiprocessor, per thread and per block, as ptxas says it."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class Compiled:
    """`entries`: the resources of each kernel in the file."""

    arch: str
    ptx: str
    cubin: bytes
    entries: dict[str, Resources]


def compile_kernel(
    source: str, filename: str, *, arch: str = "sm_90a", macros: dict[str, int] | None = None
) -> Compiled:
    """Compile CUDA C++ text for `arch`, with `macros` defined. Kept, so a second call is free.

    Raises CompileError, showing the lines around the error, and NoCompiler.
    """
    program = nvrtc.compile_source(source, filename, arch=arch, options=options_for(macros or {}))
    return Compiled(arch, program.ptx, program.cubin, resources(program.log))


def require_compiles(
    source: str, filename: str, *, arch: str = "sm_90a", macros: dict[str, int] | None = None
) -> None:
    """Raise what `compile_kernel` raises, and assemble only where that could raise something."""
    nvrtc.translate_source(source, filename, arch=arch, options=options_for(macros or {}))


def compiled_resources(
    source: str, filename: str, arch: str, macros: dict[str, int]
) -> dict[str, Resources]:
    """What each kernel of the text takes: {entry: Resources}. Raises as `compile_kernel`."""
    return compile_kernel(source, filename, arch=arch, macros=macros).entries


def stocked_resources(
    source: str, filename: str, arch: str, macros: dict[str, int]
) -> dict[str, Resources]:
    """As `compiled_resources`, but nothing is compiled for what comes with the project."""
    try:
        return resources(prebuilt.find(source, filename, arch, options_for(macros)).log)
    except NoCompiler:
        return compiled_resources(source, filename, arch, macros)


def resources(log: str) -> dict[str, Resources]:
    """What ptxas's report, a paragraph for each kernel, says of each: {entry: Resources}."""
    entries = {}
    for part in re.split(r"Compiling entry function ", log)[1:]:
        name = re.match(r"'(\w+)'", part)[1]

        def number(pattern: str, text: str = part) -> int:
            found = re.search(pattern, text)
            return int(found[1]) if found else 0

        entries[name] = Resources(
            registers=number(r"Used (\d+) registers"),
            spill_store_bytes=number(r"(\d+) bytes spill stores"),
            spill_load_bytes=number(r"(\d+) bytes spill loads"),
            stack_bytes=number(r"(\d+) bytes stack frame"),
            shared_bytes=number(r"(\d+) bytes smem"),
        )
    return entries
