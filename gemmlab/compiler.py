"""One `.cu` file and its settings to a compiled kernel: PTX, cubin, registers, spills.

NVRTC does the work (see simulator/nvrtc.py), with or without a GPU.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from .ladder import KERNELS
from .simulator import nvrtc
from .simulator.nvrtc import CompileError, NoCompiler

__all__ = ["CompileError", "Compiled", "NoCompiler", "Resources", "code_hash", "compile_kernel"]


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


def options_for(macros: dict[str, int]) -> tuple[str, ...]:
    """NVRTC's options for the tile parameters and the folder of the shared headers."""
    defined = (f"-D{name}={value}" for name, value in macros.items())
    return (*defined, f"-I{KERNELS}")


def compile_kernel(
    source: str, filename: str, *, arch: str = "sm_90a", macros: dict[str, int] | None = None
) -> Compiled:
    """Compile CUDA C++ text for `arch`, with `macros` defined. Kept, so a second call is free.

    Raises CompileError, showing the lines around the error, and NoCompiler.
    """
    program = nvrtc.compile_source(source, filename, arch=arch, options=options_for(macros or {}))
    return Compiled(arch, program.ptx, program.cubin, _resources(program.log))


def _resources(log: str) -> dict[str, Resources]:
    """Read ptxas's report, one paragraph for each kernel."""
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


def code_hash(source: str | Path, macros: dict[str, int]) -> str:
    """A fingerprint of what is compiled: code, headers from `kernels/`, and settings.

    Comments and white space do not count, nor does the compiler's version.
    """
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    code = [_stripped(text)]
    for name in _headers(text, set()):
        code.append(_stripped((KERNELS / name).read_text(encoding="utf-8")))
    content = json.dumps([code, sorted(macros.items())])
    return "sha256:" + hashlib.sha256(content.encode()).hexdigest()


def _headers(text: str, seen: set[str]) -> list[str]:
    """Names of own headers, directly or indirectly included, in the order of their mention."""
    found = []
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
        if name not in seen and (KERNELS / name).is_file():
            seen.add(name)
            found += [name, *_headers((KERNELS / name).read_text(encoding="utf-8"), seen)]
    return found


def _stripped(text: str) -> str:
    """The code's tokens: no comments, one space between tokens, a line each for directives."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)
