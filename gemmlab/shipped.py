"""What NVRTC made of the rungs, kept with the project: nobody has to wait for it, or to have it.

`kernels/compiled/` holds a file for every rung: for each of its legal settings the PTX for the
simulator's architecture, and what ptxas says of registers and shared memory; for the default
setting the latter for all architectures. `python -m gemmlab compile` makes them, with `--check` it
compiles everything and compares.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path

from tqdm.auto import tqdm

from .fingerprint import code_hash
from .ladder import (
    CEILINGS,
    KERNELS,
    PIECES_PROBE,
    RUNGS,
    TENSOR_CEILING,
    Settings,
    legal_settings,
    runs_on,
    settings_for,
)  # fmt: skip
from .options import options_for
from .simulator import nvrtc
from .simulator.architectures import LIMITS
from .simulator.nvrtc import NoCompiler, Program

FOLDER = KERNELS / "compiled"
PTX_ARCH = "sm_90a"
MACRO = re.compile(r"-D(\w+)=(-?\d+)")
LEVEL = re.compile(r"--ptxas-options=-O\d")  # goes with a macro, see options.py
OWN_FILE = '"the kernel file"'  # stands in the PTX for the name that the caller gives
# NVRTC 13 compiles for no older architecture.
ARCHS = (PTX_ARCH, *(arch for arch in LIMITS if int(arch.removeprefix("sm_")) >= 75))
PROBES = {CEILINGS.name: CEILINGS.macros, TENSOR_CEILING.name: TENSOR_CEILING.macros,
          PIECES_PROBE: {}}  # fmt: skip
NAMES = (*PROBES, *(rung.name for rung in RUNGS))

Compiled = dict[str, dict[str, dict[str, str]]]
"""{kernel's key: {arch: {"log": …, "ptx": …}}}, the PTX for PTX_ARCH alone."""


def find(source: str, filename: str, arch: str, options: tuple[str, ...]) -> Program:
    """What NVRTC would make of these; without PTX for other architectures than PTX_ARCH.

    Raises NoCompiler, saying what is there and what to install.
    """
    name = _names().get(source)
    macros = _macros(options)
    compiled = {} if name is None or macros is None else stored(name).get(_key(source, macros), {})
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


def build(
    name: str, settings: Iterable[Settings], archs: tuple[str, ...] | None = None
) -> Compiled:
    """Compile one rung or probe with each of these settings, on all cores.

    The first settings are compiled for all of `archs` (those of archs_of if None), the others for
    PTX_ARCH.
    """
    source = (KERNELS / f"{name}.cu").read_text(encoding="utf-8")
    wanted = [
        (source, name, chosen, arch)
        for at, chosen in enumerate(settings)
        for arch in ((archs or archs_of(name)) if at == 0 else (PTX_ARCH,))
    ]
    compiled: Compiled = {}
    with ProcessPoolExecutor() as pool:
        results = pool.map(_compile, *zip(*wanted, strict=True), chunksize=4)
        bar = tqdm(results, desc=name, total=len(wanted), disable=None)
        for (_, _, chosen, arch), result in zip(wanted, bar, strict=True):
            compiled.setdefault(_key(source, chosen), {})[arch] = result
    return compiled


def all_settings(name: str) -> list[Settings]:
    """What is compiled of a rung or probe: its default settings, then all the other legal ones."""
    if name in PROBES:
        return [PROBES[name]]
    (rung,) = (rung for rung in RUNGS if rung.name == name)
    default = settings_for(rung, {})
    return [default, *(settings for settings in legal_settings(rung) if settings != default)]


def archs_of(name: str) -> tuple[str, ...]:
    """What the default settings of a rung are compiled for: all that they run on."""
    if name == TENSOR_CEILING.name:
        return (PTX_ARCH,)
    rungs = [rung for rung in RUNGS if rung.name == name]
    return tuple(a for a in ARCHS if all(runs_on(r, settings_for(r, {}), a) for r in rungs))


def write(compiled: Compiled, path: Path) -> None:
    """Write one rung's file, to a temporary name first; the same content gives the same file."""
    text = json.dumps(compiled, sort_keys=True)
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        temporary.write_bytes(lzma.compress(text.encode(), preset=6))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def alike(one: Compiled, other: Compiled) -> bool:
    """Whether both hold the same kernels, compiled to the same instructions.

    From run to run NVRTC differs in the numbers of registers, the order of independent
    instructions, and the line of an instruction made of two, so none of this counts.
    """
    return _comparable(one) == _comparable(other)


def _comparable(compiled: Compiled) -> dict:
    def lines(text: str) -> list[str]:
        kept = (line for line in text.splitlines() if not line.lstrip().startswith(".loc"))
        return sorted(re.sub(r"%\w+", "%", line).strip() for line in kept)

    return {
        key: {
            arch: {kind: lines(text) for kind, text in found.items()}
            for arch, found in archs.items()
        }
        for key, archs in compiled.items()
    }


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json.xz"


@lru_cache
def stored(name: str) -> Compiled:
    """What is stored of one rung; nothing where there is no file."""
    path = path_of(name)
    return json.loads(lzma.decompress(path.read_bytes())) if path.is_file() else {}


def _compile(source: str, name: str, settings: Settings, arch: str) -> dict[str, str]:
    program = nvrtc.compile_anew(source, f"{name}.cu", arch=arch, options=options_for(settings))
    said = [line for line in program.log.splitlines() if line.startswith("ptxas")]
    result = {"log": "\n".join(line for line in said if "Compile time" not in line) + "\n"}
    if arch == PTX_ARCH:
        result["ptx"] = _portable(program.ptx, f"{name}.cu")
    return result


def _key(source: str, macros: dict[str, int]) -> str:
    """Of the whole text, for the PTX names its lines, and of headers and settings."""
    content = source + code_hash(source, macros)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


@lru_cache
def _names() -> dict[str, str]:
    """The whole text of each file in kernels/ that is compiled -> its name."""
    return {(KERNELS / f"{name}.cu").read_text(encoding="utf-8"): name for name in NAMES}


def _macros(options: tuple[str, ...]) -> Settings | None:
    """The settings among NVRTC's options; None where there are other options than a rung has."""
    others = {o for o in options if not MACRO.fullmatch(o) and not LEVEL.fullmatch(o)}
    if others - {f"-I{KERNELS}"}:
        return None
    found = (MACRO.fullmatch(option) for option in options)
    return {match[1]: int(match[2]) for match in found if match}


def _portable(ptx: str, filename: str) -> str:
    """The PTX without folders of this machine in its table of files."""
    short = re.sub(r'(\.file\s+\d+ )"[^"]*?([^"/\\]+)"', r'\1"\2"', ptx)
    return short.replace(f'"{filename}"', OWN_FILE)
