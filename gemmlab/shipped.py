"""Compiled kernels that come with the project, for machines without NVRTC, such as a Mac.

`kernels/compiled.json.gz` holds, for every rung with each of its legal settings, the PTX for the
simulator's architecture, and what ptxas says of registers and shared memory for all architectures.
`python -m gemmlab compile` makes it, with `--check` it compiles everything and compares.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from functools import lru_cache
from pathlib import Path

from tqdm.auto import tqdm

from .fingerprint import code_hash
from .ladder import CEILINGS, KERNELS, RUNGS, legal_settings, settings_for
from .simulator import nvrtc
from .simulator.architectures import LIMITS
from .simulator.nvrtc import NoCompiler, Program

ARCHIVE = KERNELS / "compiled.json.gz"
PTX_ARCH = "sm_90a"
OWN_FILE = '"the kernel file"'  # stands in the PTX for the name that the caller gives
# NVRTC 13 compiles for no older architecture.
ARCHS = (PTX_ARCH, *(arch for arch in LIMITS if int(arch.removeprefix("sm_")) >= 75))


def find(source: str, filename: str, arch: str, options: tuple[str, ...]) -> Program:
    """What NVRTC would make of these; without PTX for other architectures than PTX_ARCH.

    Raises NoCompiler, saying what is there and what to install.
    """
    compiled = _stored().get(_key(source, _macros(options)), {})
    if arch not in compiled:
        there = (
            f" for {arch}; it is there for {', '.join(a for a in ARCHS if a in compiled)}"
            if compiled
            else ""
        )
        raise NoCompiler(
            f"NVRTC, the compiler of CUDA C++, is not here, and {filename} as it stands is not "
            f"among the compiled kernels that come with GEMM Lab{there}. Those are the rungs, "
            "unchanged, with the settings of the sliders. For anything else use Linux or Windows, "
            "where `make lab` installs NVRTC; no GPU is needed."
        )
    text = compiled[arch].get("ptx", "").replace(OWN_FILE, f'"{filename}"')
    return Program(ptx=text, cubin=b"", log=compiled[arch]["log"])


def build(only_default: bool = False) -> dict[str, dict]:
    """Compile everything that the archive is to hold: {kernel's key: {arch: {"log", "ptx"}}}.

    `only_default`: of each rung only its default settings.
    """
    wanted = [(CEILINGS.path, CEILINGS.macros)]
    for rung in RUNGS:
        every = [settings_for(rung, {})] if only_default else legal_settings(rung)
        wanted += [(rung.path, settings) for settings in every]
    compiled = {}
    for path, settings in tqdm(wanted, desc="compiling", disable=None):
        source = path.read_text(encoding="utf-8")
        options = (*(f"-D{name}={value}" for name, value in settings.items()), f"-I{KERNELS}")
        for_archs = compiled.setdefault(_key(source, settings), {})
        for arch in ARCHS:
            program = nvrtc.compile_source(source, path.name, arch=arch, options=options)
            for_archs[arch] = {"log": re.sub(r".*Compile time.*\n", "", program.log)}
            if arch == PTX_ARCH:
                for_archs[arch]["ptx"] = _portable(program.ptx, path.name)
    return compiled


def write(compiled: dict[str, dict], path: Path = ARCHIVE) -> None:
    """Write the archive, to a temporary name first; the same content gives the same file."""
    text = json.dumps(compiled, sort_keys=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        temporary.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def stale(compiled: dict[str, dict]) -> list[str]:
    """The keys of what `build` gave that the archive lacks or has otherwise."""
    return [key for key, archs in compiled.items() if _stored().get(key) != archs]


@lru_cache(maxsize=1)
def _stored() -> dict[str, dict]:
    return json.loads(gzip.decompress(ARCHIVE.read_bytes())) if ARCHIVE.is_file() else {}


def _key(source: str, macros: dict[str, int]) -> str:
    """Of the whole text, for the PTX names its lines, and of headers and settings."""
    content = source + code_hash(source, macros)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _macros(options: tuple[str, ...]) -> dict[str, int]:
    found = (re.fullmatch(r"-D(\w+)=(-?\d+)", option) for option in options)
    return {match[1]: int(match[2]) for match in found if match}


def _portable(ptx: str, filename: str) -> str:
    """The PTX without folders of this machine in its table of files."""
    short = re.sub(r'(\.file\s+\d+ )"[^"]*?([^"/\\]+)"', r'\1"\2"', ptx)
    return short.replace(f'"{filename}"', OWN_FILE)
