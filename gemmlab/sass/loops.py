"""What the GPU's own instructions say of a kernel: its inner loop, slot by slot, without a GPU.

SASS is what the GPU executes; ptxas, the second half of the compiler, makes it of PTX.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

from gemmlab.cuda.disassembler import (
    Instruction,
    NoDisassembler,
    NoListing,
    disassemble,
    parse,
    section,
)
from gemmlab.kernel import prebuilt
from gemmlab.kernel.compiler import options_for
from gemmlab.kernel.fingerprint import code_hash
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import SINGLE, Rung, Settings, require_arch, settings_for
from gemmlab.ladder.probes import mma_shape
from gemmlab.sass.inner_loop import COPY, Loop, inner_loop, runs_of
from gemmlab.sass.view import LoopView
from ptxsim.architectures import SIMULATED_ARCH, WARP
from ptxsim.compile import nvrtc
from ptxsim.compile.nvrtc import NoCompiler


def analyse(cubin: bytes, entry: str | None = None, adds_per_tile: int | None = None) -> Loop:
    """The inner loop of kernel `entry` in a cubin, of the only kernel if None.

    For adds_per_tile see inner_loop.inner_loop. Raises NoDisassembler, and NoListing where there
    is no such kernel or no such loop.
    """
    return _loop(section(disassemble(cubin), entry), adds_per_tile)


def loop(kernel: Kernel, arch: str | None = None) -> Loop:
    """The inner loop of a kernel, as compiled for `arch`; if None, for its own.

    For sm_90a and a rung as it is, with its default settings, the SASS comes with the project, and
    neither compiler nor disassembler is needed. Raises CompileError, NoCompiler, NoDisassembler,
    NoListing, IllegalSetting.
    """
    arch = arch or kernel.arch
    require_arch(kernel.rung, kernel.settings, arch)
    lines = listing_of(kernel.rung, kernel.text, kernel.settings, arch)
    return _loop(lines, adds_per_tile(kernel))


def change_of_stage(kernel: Kernel) -> tuple[Instruction, ...]:
    """What a warp executes between two stages whose tiles other warps bring, for sm_90a.

    It stands between the two parts of a trip, which jumps over it while a stage lasts; where the
    next one is there already, all of it is executed once. Raises NoListing for a loop that loads
    its tiles itself or is all in one part, and what loop() raises.
    """
    code = parse(listing_of(kernel.rung, kernel.text, kernel.settings, SIMULATED_ARCH))
    trip = loop(kernel, SIMULATED_ARCH)
    runs = runs_of(trip.instructions)
    if trip.mix[COPY] or len(runs) != 2:
        raise NoListing(f"{kernel.name} has no change of stage apart from its loop")
    (_, end), (start, _) = runs
    return tuple(code[end:start])


def adds_per_tile(kernel: Kernel) -> int | None:
    """Multiply-add instructions of a warp for one pair of tiles; None where these have no depth BK.

    An FFMA is one multiply-add of each lane, and a tensor core's instruction a whole mma_shape. Of
    a warpgroup's instruction, each of its warps issues one for the whole width of the tile.
    """
    depth = kernel.rung.depth(kernel.settings)
    if kernel.rung.by_wgmma:
        return depth // mma_shape(kernel.precision)[-1]
    if "TN" in kernel.settings:  # a thread's sums, where some of the threads may have none
        return kernel.settings["TM"] * kernel.settings["TN"] * depth
    rows, columns = kernel.rung.tile(kernel.settings)
    warps = math.prod(kernel.rung.block(kernel.settings)) // WARP
    each = WARP if kernel.precision is SINGLE else math.prod(mma_shape(kernel.precision))
    return rows * columns * depth // (warps * each) if depth else None


@lru_cache(maxsize=64)
def _loop(lines: str, adds: int | None) -> Loop:
    return inner_loop(parse(lines), adds)


def listing(
    kernel: Kernel, lines: int = 24, start: int | None = None, arch: str | None = None,
    control: bool = False,
) -> LoopView:  # fmt: skip
    """Some instructions of the inner loop, as text and as HTML, with the banks that they read.

    start: the issue slot of the trip to begin with, from 0 on; the first multiply-add if None.
    control: what the assembler tells the scheduler with each, too, see cuda.disassembler. Raises
    ValueError for slots that there are not, and what loop() raises.
    """
    return LoopView(loop(kernel, arch), lines, start, control)


# ---- kept listings -------------------------------------------------------------------------------
# NVRTC may order the same instructions otherwise. So kernels/compiled/ holds a listing for every
# rung with its default settings, as nvdisasm prints it; `python -m gemmlab compile` makes them.


def listing_of(rung: Rung, source: str, settings: Settings, arch: str) -> str:
    """The listing of one kernel: the kept one if there is one of this very code, else a new one.
    Raises CompileError, and NoCompiler or NoDisassembler, which add if the kept one is damaged."""
    kept, damage = prebuilt.read(path_of(rung.name)) if arch == SIMULATED_ARCH else ({}, "")
    if kept.get("code") == code_hash(source, settings):
        return kept["listing"]
    try:
        return _new(rung, source, tuple(settings.items()), arch)
    except (NoCompiler, NoDisassembler) as error:
        raise type(error)(f"{error} {damage}".rstrip()) from None


def make_listing(rung: Rung) -> dict[str, str]:
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
    """Whether the kept listing is of the code and the default settings as they are now. One without
    control bits, as they were made once, is not."""
    kept = stored(rung.name)
    code = code_hash(rung.path, settings_for(rung, {}))
    return kept.get("code") == code and "/* control " in kept["listing"]


def path_of(name: str) -> Path:
    return prebuilt.FOLDER / f"{name}.sass.xz"


def stored(name: str) -> dict[str, str]:
    """What is stored of one rung; nothing where there is no file, or a damaged one."""
    return prebuilt.read(path_of(name))[0]
