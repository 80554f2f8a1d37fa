"""One `.cu` file and its settings to a compiled kernel: PTX, cubin, registers, spills.

NVRTC does the work (see ptxsim.compile), with or without a GPU; without NVRTC, prebuilt.py has it.
"""

import re
from dataclasses import dataclass

from gemmlab.cuda.options import options_for
from gemmlab.kernel import prebuilt
from ptxsim import NoCompiler
from ptxsim.compile import nvrtc, use_store

use_store(prebuilt.find)


@dataclass(frozen=True)
class Resources:
    """What one kernel takes of a multiprocessor, per thread and per block, as ptxas says it."""

    registers: int
    spilled_bytes: int  # stored and loaded
    shared_bytes: int


@dataclass(frozen=True)
class Compiled:
    """`entries`: the resources of each kernel in the file."""

    ptx: str
    cubin: bytes
    entries: dict[str, Resources]


def compile_kernel(
    source: str, filename: str, *, arch: str = "sm_90a", macros: dict[str, int] | None = None
) -> Compiled:
    """Compile CUDA C++ text for `arch`, with `macros` defined. Kept, so a second call is free.
    Raises CompileError, showing the lines around the error, and NoCompiler."""
    program = nvrtc.compile_source(source, filename, arch=arch, options=options_for(macros or {}))
    return Compiled(program.ptx, program.cubin, resources(program.log))


def require_compiles(
    source: str, filename: str, *, arch: str = "sm_90a", macros: dict[str, int] | None = None
) -> None:
    """Raise what `compile_kernel` raises, and assemble only where that could raise something."""
    nvrtc.translate_source(source, filename, arch=arch, options=options_for(macros or {}))


def resources_of(
    source: str, filename: str, arch: str, macros: dict[str, int], *, anew: bool = True
) -> dict[str, Resources]:
    """What each kernel of the text takes: {entry: Resources}. Raises as `compile_kernel`. Unless
    `anew`, nothing is compiled for what comes with the project."""
    if not anew:
        try:
            return resources(prebuilt.find(source, filename, arch, options_for(macros)).log)
        except NoCompiler:
            pass  # it is not there
    return compile_kernel(source, filename, arch=arch, macros=macros).entries


def resources(log: str) -> dict[str, Resources]:
    """What ptxas's report, a paragraph for each kernel, says of each: {entry: Resources}."""

    def total(pattern: str, paragraph: str) -> int:
        return sum(map(int, re.findall(pattern, paragraph)))

    return {
        paragraph.split("'")[1]: Resources(
            registers=total(r"Used (\d+) registers", paragraph),
            spilled_bytes=total(r"(\d+) bytes spill", paragraph),
            shared_bytes=total(r"(\d+) bytes smem", paragraph),
        )
        for paragraph in log.split("Compiling entry function ")[1:]
    }
