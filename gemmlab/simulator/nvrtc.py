"""CUDA C++ to PTX and cubin with NVRTC, which needs no GPU.

The binding is CuPy's (`cupy.cuda.nvrtc`), loaded on first use: importing CuPy takes time, and
works without a driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

# What CuPy adds to every RawModule: float32 subnormals count as zero. Compiling the same way is
# what makes a simulated result equal to the GPU's, bit for bit.
COMMON_OPTIONS = ("-ftz=true", "-lineinfo", "-std=c++17")

CONTEXT_LINES = 2

# A function of (source, filename, arch, options) that gives a Program which NVRTC made before, or
# raises NoCompiler. Whoever has such programs puts it here.
stock = None

# Since this version NVRTC keeps results on disk where there is a driver, and one that comes from
# there comes without the report of ptxas.
CACHES_SINCE = (12, 9)


MISSING = (
    "NVRTC, the compiler of CUDA C++, cannot be loaded: install cupy-cuda13x with "
    "nvidia-cuda-nvrtc, or run `make lab`"
)


class CompileError(Exception):
    """The source does not compile. The message shows the lines around each error."""


class NoCompiler(Exception):
    """NVRTC cannot be loaded here. The message says what to install."""


@dataclass(frozen=True)
class Program:
    """What NVRTC made of one source."""

    ptx: str
    cubin: bytes
    log: str


@lru_cache(maxsize=256)
def compile_source(
    source: str, filename: str, *, arch: str = "sm_90a", options: tuple[str, ...] = ()
) -> Program:
    """As `compile_anew`, but what is in stock is not compiled again, and the same call is free.

    Where NVRTC is missing, a Program in stock will do that has only the log.
    """
    there, nothing = None, None
    try:
        there = stock(source, filename, arch, options) if stock else None
    except NoCompiler as error:
        nothing = error
    if there is None or not there.ptx:
        try:
            return compile_anew(source, filename, arch=arch, options=options)
        except NoCompiler as error:
            if there is None:
                raise (nothing or error) from None
    return there


def compile_anew(
    source: str, filename: str, *, arch: str = "sm_90a", options: tuple[str, ...] = ()
) -> Program:
    """Compile CUDA C++ `source` for `arch` ("sm_80", "sm_90a", …).

    `filename` is the name that errors and line tables carry. `options` go to NVRTC as they are,
    after `COMMON_OPTIONS`. The log holds what ptxas says of registers and spills.

    Raises CompileError with the lines around each error, NoCompiler where NVRTC is missing.
    """
    nvrtc = _binding()
    program = nvrtc.createProgram(source, filename, (), ())
    try:
        flags = (f"-arch={arch}", *COMMON_OPTIONS, "--ptxas-options=-v", *options)
        if nvrtc.getVersion() >= CACHES_SINCE:
            flags += ("--no-cache",)
        if "#include" in source:
            flags += _header_options()
        try:
            nvrtc.compileProgram(program, flags)
        except nvrtc.NVRTCError as error:
            log = nvrtc.getProgramLog(program)
            if not log.strip():
                raise CompileError(
                    f"{filename}: NVRTC refused {' '.join(flags)}: {error}"
                ) from None
            raise CompileError(_readable(log, source, filename, arch)) from None
        return Program(
            ptx=_text(nvrtc.getPTX(program)),
            cubin=bytes(nvrtc.getCUBIN(program)),
            log=nvrtc.getProgramLog(program),
        )
    finally:
        nvrtc.destroyProgram(program)


@lru_cache
def _header_options() -> tuple[str, ...]:
    """Where CUDA's own headers are, such as cuda_fp16.h and mma.h; CuPy adds the same on a GPU."""
    from cuda.pathfinder import find_nvidia_header_directory

    found = find_nvidia_header_directory("cudart")
    return (f"-I{found}",) if found else ()


def version() -> str:
    """NVRTC's version, such as "13.0". Raises NoCompiler where NVRTC is missing."""
    return ".".join(str(part) for part in _binding().getVersion())


def _binding():
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception as error:  # CuPy reports a missing library in several ways
        raise NoCompiler(f"{MISSING} ({error})") from None
    return nvrtc


def _text(ptx: bytes | str) -> str:
    return (ptx.decode() if isinstance(ptx, bytes) else ptx).rstrip("\0")


def _readable(log: str, source: str, filename: str, arch: str) -> str:
    """NVRTC's log with the lines around each error in the reader's file."""
    lines = source.splitlines()
    parts = [f"{filename} does not compile for {arch}."]
    for where, number, message in re.findall(r"^(.*?)\((\d+)\): error:? *(.*)$", log, re.M):
        parts.append(f"\n{where}, line {number}: {message}")
        if not where.endswith(filename):
            continue
        middle = int(number)
        first = max(1, middle - CONTEXT_LINES)
        for shown in range(first, min(len(lines), middle + CONTEXT_LINES) + 1):
            mark = ">" if shown == middle else " "
            parts.append(f"  {mark} {shown:4d} | {lines[shown - 1]}")
    if len(parts) == 1:  # ptxas, which has no lines; what it says of success holds a time as well
        said = (line.strip("\0 ") for line in log.splitlines())
        parts += [line for line in said if line and not re.match(r"ptxas *(info|\.) ", line)]
    return "\n".join(parts)
