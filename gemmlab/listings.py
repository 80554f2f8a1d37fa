"""The SASS of the rungs, kept with the project: NVRTC may order the same instructions otherwise.

`kernels/compiled/` holds a listing for every rung with its default settings, as nvdisasm prints it.
`python -m gemmlab compile --listings` makes them. Each belongs to the code it was made of.
"""

from __future__ import annotations

import json
import lzma
from functools import lru_cache
from pathlib import Path

from . import shipped
from .compiler import code_hash, options_for
from .disassembly import disassemble, section
from .ladder import RUNGS, Rung, Settings, settings_for
from .simulator import nvrtc

ARCH = shipped.PTX_ARCH
NAMES = tuple(rung.name for rung in RUNGS)


def of(rung: Rung, source: str, settings: Settings, arch: str) -> str:
    """The listing of one kernel: the kept one if there is one of this very code, else a new one.

    Raises CompileError, NoCompiler, NoDisassembler.
    """
    if arch == ARCH:
        kept = stored(rung.name)
        if kept.get("code") == code_hash(source, settings):
            return kept["listing"]
    return _new(rung, source, tuple(settings.items()), arch)


def make(rung: Rung) -> dict[str, str]:
    """What is stored of a rung: a new listing, and the fingerprint of the code."""
    source, settings = rung.path.read_text(encoding="utf-8"), settings_for(rung, {})
    listing = _new(rung, source, tuple(settings.items()), ARCH)
    return {"code": code_hash(source, settings), "listing": listing}


@lru_cache
def _new(rung: Rung, source: str, settings: tuple, arch: str) -> str:
    options = options_for(dict(settings))
    program = nvrtc.compile_anew(source, rung.path.name, arch=arch, options=options)
    return section(disassemble(program.cubin), rung.entry)


def is_current(rung: Rung) -> bool:
    """Whether the kept listing is of the code and the default settings as they are now."""
    return stored(rung.name).get("code") == code_hash(rung.path, settings_for(rung, {}))


def path_of(name: str) -> Path:
    return shipped.FOLDER / f"{name}.sass.xz"


def write(made: dict[str, str], path: Path) -> None:
    """Write one rung's file; the same content gives the same file."""
    shipped.write(made, path)
    stored.cache_clear()


@lru_cache
def stored(name: str) -> dict[str, str]:
    """What is stored of one rung; nothing where there is no file."""
    path = path_of(name)
    return json.loads(lzma.decompress(path.read_bytes())) if path.is_file() else {}
