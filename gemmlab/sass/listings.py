"""The SASS of the rungs, kept with the project: NVRTC may order the same instructions otherwise.

`kernels/compiled/` holds a listing for every rung with its default settings, as nvdisasm prints it.
`python -m gemmlab compile --listings` makes them. Each belongs to the code it was made of.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from gemmlab.cuda.disassembler import NoDisassembler, disassemble, section
from gemmlab.kernel import prebuilt
from gemmlab.kernel.compiler import code_hash, options_for
from gemmlab.ladder import RUNGS, Rung, Settings, settings_for
from ptxsim.architectures import SIMULATED_ARCH
from ptxsim.compile import nvrtc
from ptxsim.compile.nvrtc import NoCompiler

NAMES = tuple(rung.name for rung in RUNGS)


def of(rung: Rung, source: str, settings: Settings, arch: str) -> str:
    """The listing of one kernel: the kept one if there is one of this very code, else a new one.

    Raises CompileError, and NoCompiler or NoDisassembler, which add if the kept one is damaged.
    """
    kept, damage = prebuilt.read(path_of(rung.name)) if arch == SIMULATED_ARCH else ({}, "")
    if kept.get("code") == code_hash(source, settings):
        return kept["listing"]
    try:
        return _new(rung, source, tuple(settings.items()), arch)
    except (NoCompiler, NoDisassembler) as error:
        raise type(error)(f"{error} {damage}".rstrip()) from None


def make(rung: Rung) -> dict[str, str]:
    """What is stored of a rung: a new listing, and the fingerprint of the code."""
    source, settings = rung.path.read_text(encoding="utf-8"), settings_for(rung, {})
    listing = _new(rung, source, tuple(settings.items()), SIMULATED_ARCH)
    return {"code": code_hash(source, settings), "listing": listing}


@lru_cache
def _new(rung: Rung, source: str, settings: tuple, arch: str) -> str:
    options = options_for(dict(settings))
    program = nvrtc.compile_anew(source, rung.path.name, arch=arch, options=options)
    return section(disassemble(program.cubin), rung.entry(dict(settings)))


def is_current(rung: Rung) -> bool:
    """Whether the kept listing is of the code and the default settings as they are now.

    One without control bits, as they were made once, is not.
    """
    kept = stored(rung.name)
    code = code_hash(rung.path, settings_for(rung, {}))
    return kept.get("code") == code and "/* control " in kept["listing"]


def path_of(name: str) -> Path:
    return prebuilt.FOLDER / f"{name}.sass.xz"


def stored(name: str) -> dict[str, str]:
    """What is stored of one rung; nothing where there is no file, or a damaged one."""
    return prebuilt.read(path_of(name))[0]
