"""The ladder: every rung with its file, its parameters, its launch shape and its limits.

This is the one list. Notebooks, tests, sweeps and records read it. A new rung is one entry here,
one `.cu` file, one notebook and one recording.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import log2
from pathlib import Path

from .activations import ACTIVATIONS
from .simulator.architectures import LIMITS, base

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "kernels"
NOTEBOOKS = ROOT / "notebooks"
RESULTS = ROOT / "results"

ELEMENT_BYTES = {"float32": 4, "float16": 2}
WARP = 32
MAX_THREADS = 1024  # per block, on every architecture
MAX_GRID = (2**31 - 1, 65535, 65535)  # blocks along x, y and z
STATIC_SHARED_BYTES = 49152  # per block, on every architecture, without asking for more
REGISTERS = 65536  # of 32 bits; per SM and at most per block, on every architecture
MAX_REGISTERS = 255  # per thread
ADDRESSES = 20  # registers that a thread needs for indices and pointers, a low estimate

Settings = dict[str, int]


class LadderError(Exception):
    """There is no such rung. The message names those there are."""


class IllegalSetting(Exception):
    """A parameter value or a launch that a rung cannot have. The message says what is legal."""


@dataclass(frozen=True)
class Parameter:
    """A macro of the kernel file that the reader may set.

    A sweep tries its values, unless it is not `tuned`: then it says what is computed, not how.
    """

    name: str
    default: int
    legal: tuple[int, ...]
    meaning: str
    tuned: bool = True


@dataclass(frozen=True)
class Launch:
    """The shape of a launch: blocks, threads per block, bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0


@dataclass(frozen=True)
class Rung:
    """One kernel of the ladder: C = alpha * A @ B + beta * C, or more where it has an epilogue.

    All from the shape (m, n, k) and the settings: `tile` is the rows and columns of C that one
    block computes, `grid` and `block` are the launch shape, `limit` says why settings do not go
    together, `model_bytes` is what the rung's idea asks of global memory, `oldest_arch` is the
    oldest architecture that the settings run on, 80 for sm_80, 0 for any, `shared_bytes` is the
    dynamic shared memory of a block. `dtype` is that of A, B and C; alpha and beta are float32.
    `tuned_shapes` are the (m, n, k) at which a sweep measures its settings besides those of all.
    `bias`: it also takes a bias for each column, and has a parameter ACTIVATION, see `activations`.
    """

    name: str
    title: str
    idea: str
    entry: str
    parameters: tuple[Parameter, ...]
    tile: Callable[[Settings], tuple[int, int]]
    grid: Callable[[int, int, int, Settings], tuple[int, int, int]]
    block: Callable[[Settings], tuple[int, int, int]]
    limit: Callable[[Settings], str | None]
    model_bytes: Callable[[int, int, int, Settings], int]
    oldest_arch: Callable[[Settings], int] = lambda settings: 0
    shared_bytes: Callable[[Settings], int] = lambda settings: 0
    dtype: str = "float32"
    tuned_shapes: tuple[tuple[int, int, int], ...] = ()
    bias: bool = False

    @property
    def path(self) -> Path:
        return KERNELS / f"{self.name}.cu"

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.dtype]

    @property
    def notebook(self) -> Path:
        return NOTEBOOKS / f"{self.name}.ipynb"

    def launch(self, m: int, n: int, k: int, settings: Settings) -> Launch:
        """The launch for C of m rows and n columns; raises IllegalSetting if no grid covers it."""
        grid = self.grid(m, n, k, settings)
        for blocks, limit, axis in zip(grid, MAX_GRID, "xyz", strict=True):
            if blocks > limit:
                raise IllegalSetting(
                    f"{self.name} at {m}×{n}×{k} needs {blocks} blocks along {axis}, "
                    f"a grid has at most {limit}: choose larger blocks"
                )
        return Launch(grid, self.block(settings), self.shared_bytes(settings))


@dataclass(frozen=True)
class Ceilings:
    """The two probes of 00_ceilings: a copy and a chain of fused multiply-adds."""

    name: str = "00_ceilings"
    copy_entry: str = "copy"
    fma_entry: str = "fma_chain"
    macros: Settings = field(default_factory=lambda: {"CHAINS": 16, "UNROLL": 32})

    @property
    def path(self) -> Path:
        return KERNELS / f"{self.name}.cu"

    def copy_launch(self, sm_count: int) -> Launch:
        return Launch((sm_count * 64, 1, 1), (1024, 1, 1))

    def fma_launch(self, sm_count: int) -> Launch:
        return Launch((sm_count * 2, 1, 1), (1024, 1, 1))


@dataclass(frozen=True)
class TensorCeiling:
    """The probe of 00_tensor_ceiling: a chain of mma.sync of FP16 with FP32 sums."""

    name: str = "00_tensor_ceiling"
    entry: str = "mma_chain"
    macros: Settings = field(default_factory=lambda: {"CHAINS": 8, "UNROLL": 16})
    oldest_arch: int = 80

    @property
    def path(self) -> Path:
        return KERNELS / f"{self.name}.cu"

    def launch(self, sm_count: int) -> Launch:
        return Launch((sm_count * 4, 1, 1), (256, 1, 1))


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


# --- the rungs --------------------------------------------------------------------------------

POWERS = tuple(2**i for i in range(11))


def _block_xy(meaning_x: str, meaning_y: str) -> tuple[Parameter, ...]:
    return (
        Parameter("BLOCK_X", 64, POWERS, f"threads of a block along x, {meaning_x}"),
        Parameter("BLOCK_Y", 8, POWERS, f"threads of a block along y, {meaning_y}"),
    )


def _whole_warps(settings: Settings) -> str | None:
    return _no_block(settings["BLOCK_X"] * settings["BLOCK_Y"])


def _no_block(threads: int) -> str | None:
    """Why there is no block of so many threads, if so."""
    if threads > MAX_THREADS:
        return f"makes {threads} threads per block, at most {MAX_THREADS} fit"
    if threads < WARP:
        return f"makes {threads} threads per block, less than one warp of {WARP}"
    return None


def _block_of(settings: Settings) -> tuple[int, int, int]:
    return settings["BLOCK_X"], settings["BLOCK_Y"], 1


def _no_reuse(m: int, n: int, k: int, settings: Settings) -> int:
    """Every thread reads a row of A and a column of B, and writes one element."""
    return ELEMENT_BYTES["float32"] * (2 * m * n * k + m * n)


# A block of these rungs computes BM×BN elements of C and goes along K in steps of BK.


def _block_tile(rows: tuple, columns: tuple, steps: tuple, default: tuple) -> tuple[Parameter, ...]:
    return (
        Parameter("BM", default[0], rows, "rows of C that a block computes"),
        Parameter("BN", default[1], columns, "columns of C that a block computes"),
        Parameter("BK", default[2], steps, "how far along K one step goes"),
    )


def _thread_tile(default_rows: int, default_columns: int) -> tuple[Parameter, ...]:
    return (
        Parameter("TM", default_rows, (4, 8), "rows of C that a thread computes"),
        Parameter("TN", default_columns, (4, 8), "columns of C that a thread computes"),
    )


def _warp_tile(default_rows: int, default_columns: int) -> tuple[Parameter, ...]:
    return (
        Parameter("WM", default_rows, (32, 64), "rows of C that a warp computes"),
        Parameter("WN", default_columns, (32, 64), "columns of C that a warp computes"),
    )


def _tile(settings: Settings) -> tuple[int, int]:
    return settings["BM"], settings["BN"]


def _tiles_of_c(m: int, n: int, k: int, settings: Settings) -> tuple[int, int, int]:
    return ceil_div(n, settings["BN"]), ceil_div(m, settings["BM"]), 1


def _tile_reuse(m: int, n: int, k: int, settings: Settings, dtype: str = "float32") -> int:
    """A is read once for each column of blocks, B for each row of them, and C is written."""
    columns, rows, _ = _tiles_of_c(m, n, k, settings)
    return ELEMENT_BYTES[dtype] * (columns * m * k + rows * k * n + m * n)


def _line(threads: Callable[[Settings], int]) -> Callable[[Settings], tuple[int, int, int]]:
    """The launch shape of blocks that count their threads along x alone."""
    return lambda settings: (threads(settings), 1, 1)


def _threads_1d(s: Settings) -> int:
    return s["BM"] * s["BN"] // s["TM"]


def _threads_2d(s: Settings) -> int:
    return (s["BM"] // s["TM"]) * (s["BN"] // s["TN"])


def _threads_8x8(s: Settings) -> int:
    return (s["BM"] // 8) * (s["BN"] // 8)


def _threads_of_warps(s: Settings) -> int:
    return WARP * (s["BM"] // s["WM"]) * (s["BN"] // s["WN"])


def _does_not_fit(
    threads: int, rows: int, columns: int, shared_floats: int, blocks: int = 1
) -> str | None:
    """Why so many threads, each with rows × columns of C, do not go into one block, if so."""
    if reason := _no_block(threads):
        return reason
    if (shared := ELEMENT_BYTES["float32"] * shared_floats) > STATIC_SHARED_BYTES:
        return f"needs {shared} bytes of shared memory, a block has {STATIC_SHARED_BYTES}"
    needed = rows * columns + rows + columns + ADDRESSES
    return _too_few_registers(needed, f"{rows}×{columns} sums, a column, a row", threads, blocks)


def _too_few_registers(needed: int, what: str, threads: int, blocks: int = 1) -> str | None:
    """Why threads that need so many registers do not go into so many blocks of an SM, if so."""
    there = min(MAX_REGISTERS, REGISTERS // (threads * blocks))
    if needed <= there:
        return None
    at_a_time = f", {blocks} of them at a time" if blocks > 1 else ""
    return (
        f"needs about {needed} registers per thread: {what} and addresses; "
        f"blocks of {threads} threads{at_a_time} leave {there}"
    )


def _limit_3(s: Settings) -> str | None:
    tile, step, pad = s["TILE"], s["BK"], s["PAD"]
    if step < tile:
        return f"leaves threads without work: TILE={tile} brings {tile} elements along K at least"
    return _does_not_fit(tile * tile, 1, 1, tile * (step + pad) + step * (tile + pad))


def _limit_4(s: Settings) -> str | None:
    return _does_not_fit(_threads_1d(s), s["TM"], 1, s["BK"] * (s["BM"] + s["BN"]))


def _limit_5(s: Settings) -> str | None:
    return _does_not_fit(_threads_2d(s), s["TM"], s["TN"], s["BK"] * (s["BM"] + s["BN"]))


def _limit_7(s: Settings) -> str | None:
    if s["PAD"] and s["SWIZZLE"]:
        return "cures the same conflict twice: set PAD or SWIZZLE to 0"
    return _does_not_fit(_threads_8x8(s), 8, 8, s["BK"] * (s["BM"] + s["PAD"] + s["BN"]))


def _uneven_fours(s: Settings, threads: int) -> str | None:
    """Why the threads do not each bring as many groups of four floats of a tile, if so."""
    for name, rows in (("A", "BM"), ("B", "BN")):
        fours = s[rows] * s["BK"] // 4
        if fours % threads:
            return (
                f"makes {threads} threads per block, but a tile of {name} has {fours} groups of "
                "four floats: no multiple of that"
            )
    return None


def _warps_do_not_fit(s: Settings, buffers: int, blocks: int) -> str | None:
    threads = _threads_of_warps(s)
    if reason := _uneven_fours(s, threads):
        return reason
    shared_floats = buffers * s["BK"] * (s["BM"] + 4 + s["BN"])  # rows of A's tile are padded
    return _does_not_fit(threads, s["WM"] // 4, s["WN"] // 8, shared_floats, blocks)


def _limit_8(s: Settings) -> str | None:
    return _warps_do_not_fit(s, 1, s["MIN_BLOCKS"])


def _limit_9(s: Settings) -> str | None:
    return _warps_do_not_fit(s, max(2, s["STAGES"]), 1)


# Rung 14 goes by pieces of 16×16 elements, of which a lane holds eight.
PIECE = 16
HALVES_PADDING = FLOATS_PADDING = 8


def _shared_14(s: Settings) -> int:
    """The stages, or the strips through which C leaves, whichever are larger."""
    a, b = s["BM"] * (s["BK"] + HALVES_PADDING), s["BK"] * (s["BN"] + HALVES_PADDING)
    strips = (_threads_of_warps(s) // WARP) * PIECE * (s["WN"] + FLOATS_PADDING)
    return max(s["STAGES"] * (a + b) * ELEMENT_BYTES["float16"], strips * ELEMENT_BYTES["float32"])


def _limit_14(s: Settings) -> str | None:
    threads, down, across = _threads_of_warps(s), s["WM"] // PIECE, s["WN"] // PIECE
    if s["STAGES"] == 0:
        if (s["BM"], s["BN"], s["BK"]) != (s["WM"], s["WN"], PIECE):
            return f"is one warp that shares nothing: BM = WM, BN = WN and BK = {PIECE}"
        return None
    if s["BM"] % s["WM"] or s["BN"] % s["WN"] or min(s["WM"], s["WN"]) < 32 or s["BK"] < 32:
        return "is too small to stage: BM and BN from 64, BK, WM and WN from 32 on"
    if reason := _no_block(threads):
        return reason
    for name, elements in (("A", s["BM"] * s["BK"]), ("B", s["BK"] * s["BN"])):
        if elements // 8 % threads:
            return (
                f"makes {threads} threads per block, but a tile of {name} has {elements // 8} "
                "groups of eight elements: no multiple of that"
            )
    needed = 8 * down * across + 4 * (down + across) + ADDRESSES
    return _too_few_registers(needed, f"{down}×{across} pieces of C, a column, a row", threads)


TILE_10 = {"BM": 128, "BN": 256, "BK": 32, "TM": 8, "TN": 16, "STAGES": 3}  # for large products


def _tile_10() -> tuple[Parameter, ...]:
    return (
        *_block_tile(
            (64, 128), (64, 128, 256), (8, 16, 32), tuple(TILE_10[n] for n in ("BM", "BN", "BK"))
        ),
        Parameter("TM", TILE_10["TM"], (4, 8), "rows of C that a thread computes"),
        Parameter("TN", TILE_10["TN"], (8, 16), "columns of C that a thread computes"),
        Parameter(
            "STAGES",
            TILE_10["STAGES"],
            (1, 3),
            "1: through registers; 3: a ring of tiles for cp.async",
        ),
    )


def _shared_10(s: Settings) -> int:
    """Bytes of a ring of tiles of floats; A's have four more in a row, against bank conflicts."""
    return max(2, s["STAGES"]) * 4 * s["BK"] * (s["BM"] + 4 + s["BN"])


def _limit_10(s: Settings) -> str | None:
    threads = _threads_2d(s)
    if (s["STAGES"] == 1) != (s["BK"] == 8):
        return "does not go together: BK=8 goes through registers, with STAGES=1, and only that"
    if s["BM"] % (4 * s["TM"]) or s["BN"] % (8 * s["TN"]):
        return f"leaves no whole warps: one computes {4 * s['TM']}×{8 * s['TN']}"
    if threads < s["BN"]:
        return f"makes {threads} threads per block, too few to bring a row of {s['BN']} of B"
    slower = {name: value for name, value in (("ORDER", 0), ("PTXAS", 3)) if s.get(name) == value}
    if slower and any(s[n] != v for n, v in TILE_10.items()):
        return f"is there to compare: {listed(slower)} only with {listed(TILE_10)}"
    if s["STAGES"] == 1 and (reason := _uneven_fours(s, threads)):
        return reason
    needed = s["TM"] * s["TN"] + 2 * (s["TM"] + s["TN"]) + ADDRESSES
    return _no_block(threads) or _too_few_registers(
        needed, f"{s['TM']}×{s['TN']} sums, two columns, two rows", threads
    )


# What rungs 10 and 11 share besides the tile: 11 is 10 with another end.
PTXAS_10 = Parameter("PTXAS", 1, (1, 3), "the assembler's optimization; 1 keeps the order")
_KIND_10: dict[str, Callable] = {
    "tile": _tile,
    "grid": _tiles_of_c,
    "block": _line(_threads_2d),
    "limit": _limit_10,
    "model_bytes": _tile_reuse,
    "oldest_arch": lambda s: 80 if s["STAGES"] > 1 else 0,
    "shared_bytes": _shared_10,
}

RUNGS: tuple[Rung, ...] = (
    Rung(
        name="01_naive",
        title="Naive",
        idea="one thread, one element; a warp walks down a column",
        entry="naive",
        parameters=_block_xy("down the rows of C", "along the columns of C"),
        tile=lambda s: (s["BLOCK_X"], s["BLOCK_Y"]),
        grid=lambda m, n, k, s: (ceil_div(m, s["BLOCK_X"]), ceil_div(n, s["BLOCK_Y"]), 1),
        block=_block_of,
        limit=_whole_warps,
        model_bytes=_no_reuse,
    ),
    Rung(
        name="02_coalescing",
        title="Coalescing",
        idea="the same, with the warp along a row",
        entry="coalescing",
        parameters=_block_xy("along the columns of C", "down the rows of C"),
        tile=lambda s: (s["BLOCK_Y"], s["BLOCK_X"]),
        grid=lambda m, n, k, s: (ceil_div(n, s["BLOCK_X"]), ceil_div(m, s["BLOCK_Y"]), 1),
        block=_block_of,
        limit=_whole_warps,
        model_bytes=_no_reuse,
    ),
    Rung(
        name="03_shared_memory",
        title="Shared-memory tiling",
        idea="a block loads a tile once, and all its threads reuse it",
        entry="shared_memory",
        parameters=(
            Parameter("TILE", 32, (8, 16, 32), "rows and columns of the tiles of A, B and C"),
            Parameter("BK", 64, (8, 16, 32, 64), "how far along K one step goes"),
            Parameter("PAD", 0, (0, 1), "floats left free at the end of a tile's row"),
        ),
        tile=lambda s: (s["TILE"], s["TILE"]),
        grid=lambda m, n, k, s: (ceil_div(n, s["TILE"]), ceil_div(m, s["TILE"]), 1),
        block=lambda s: (s["TILE"], s["TILE"], 1),
        limit=_limit_3,
        model_bytes=lambda m, n, k, s: _tile_reuse(m, n, k, {"BM": s["TILE"], "BN": s["TILE"]}),
    ),
    Rung(
        name="04_thread_tile_1d",
        title="A column of outputs per thread",
        idea="a thread computes a column of outputs",
        entry="thread_tile_1d",
        parameters=(
            *_block_tile((32, 64, 128), (32, 64, 128), (8, 16, 32), (32, 64, 16)),
            Parameter("TM", 16, (4, 8, 16), "rows of C that a thread computes"),
        ),
        tile=_tile,
        grid=_tiles_of_c,
        block=_line(_threads_1d),
        limit=_limit_4,
        model_bytes=_tile_reuse,
    ),
    Rung(
        name="05_thread_tile_2d",
        title="A rectangle of outputs per thread",
        idea="a thread computes a rectangle, as outer products in registers",
        entry="thread_tile_2d",
        parameters=(
            *_block_tile((32, 64, 128), (32, 64, 128), (8, 16), (128, 64, 16)),
            *_thread_tile(8, 4),
        ),
        tile=_tile,
        grid=_tiles_of_c,
        block=_line(_threads_2d),
        limit=_limit_5,
        model_bytes=_tile_reuse,
    ),
    Rung(
        name="06_vectorized_loads",
        title="Vectorized loads",
        idea="16 bytes with every load; A staged transposed",
        entry="vectorized_loads",
        parameters=(
            *_block_tile((64, 128), (64, 128), (8, 16), (128, 128, 16)),
            *_thread_tile(8, 8),
        ),
        tile=_tile,
        grid=_tiles_of_c,
        block=_line(_threads_2d),
        limit=_limit_5,
        model_bytes=_tile_reuse,
    ),
    Rung(
        name="07_bank_conflicts",
        title="Bank conflicts, three cures",
        idea="padding, a swizzle and split columns against conflicts, counted",
        entry="bank_conflicts",
        parameters=(
            *_block_tile((64, 128), (64, 128), (8, 16), (128, 128, 16)),
            Parameter("PAD", 0, (0, 4), "floats left free at the end of a row of A's tile"),
            Parameter("SWIZZLE", 1, (0, 1), "1: exchange columns of A's tile by an XOR"),
            Parameter("SPLIT", 1, (0, 1), "1: a thread's columns in two groups of four"),
        ),
        tile=_tile,
        grid=_tiles_of_c,
        block=_line(_threads_8x8),
        limit=_limit_7,
        model_bytes=_tile_reuse,
    ),
    Rung(
        name="08_warp_tiling",
        title="Warp tiling",
        idea="block, warp, thread: a level between, and lanes that read the same",
        entry="warp_tiling",
        parameters=(
            *_block_tile((64, 128), (64, 128, 256), (8, 16), (128, 128, 8)),
            *_warp_tile(64, 64),
            Parameter("MIN_BLOCKS", 1, (1, 2, 3), "blocks that shall fit on one SM"),
        ),
        tile=_tile,
        grid=_tiles_of_c,
        block=_line(_threads_of_warps),
        limit=_limit_8,
        model_bytes=_tile_reuse,
    ),
    Rung(
        name="09_double_buffering",
        title="Double buffering",
        idea="the next tiles on their way while these are multiplied",
        entry="double_buffering",
        parameters=(
            *_block_tile((64, 128), (64, 128, 256), (8, 16), (128, 128, 8)),
            *_warp_tile(32, 64),
            Parameter("STAGES", 1, (1, 2, 3, 4), "1: through registers; else buffers for cp.async"),
        ),
        tile=_tile,
        grid=_tiles_of_c,
        block=_line(_threads_of_warps),
        limit=_limit_9,
        model_bytes=_tile_reuse,
        oldest_arch=lambda s: 80 if s["STAGES"] > 1 else 0,
    ),
    Rung(
        name="10_register_banks",
        title="Register banks",
        idea="nearly every issue slot an FMA, none of them waiting for its operands",
        entry="register_banks",
        parameters=(
            *_tile_10(),
            Parameter("ORDER", 1, (0, 1), "of the FMAs; 0: row by row, 1: snaking columns"),
            PTXAS_10,
        ),
        **_KIND_10,
        tuned_shapes=(
            *((size,) * 3 for size in (512, 1024, 2048)),
            (1024, 1024, 512),
            (128, 4096, 4096),
        ),
    ),
    Rung(
        name="11_fused_epilogue",
        title="Fused epilogue",
        idea="bias and activation while C is in registers: no pass over C for them",
        entry="fused_epilogue",
        parameters=(
            *_tile_10(),
            PTXAS_10,
            Parameter(
                "ACTIVATION",
                1,
                tuple(range(len(ACTIVATIONS))),
                ", ".join(f"{value}: {name}" for value, name in enumerate(ACTIVATIONS)),
                tuned=False,
            ),
        ),
        **_KIND_10,
        tuned_shapes=(
            (1024, 1024, 64),
            (1024, 1024, 1024),
            (8192, 8192, 64),
            (8192, 8192, 256),
            (8192, 8192, 1024),
        ),
        bias=True,
    ),
    Rung(
        name="14_wmma",
        title="Tensor cores through WMMA",
        idea="a warp multiplies pieces of 16×16 with one instruction; FP16 in, FP32 sums",
        entry="wmma_product",
        parameters=(
            *_block_tile((16, 64, 128), (16, 64, 128, 256), (16, 32, 64), (128, 256, 64)),
            Parameter("WM", 64, (16, 32, 64), "rows of C that a warp computes"),
            Parameter("WN", 64, (16, 32, 64), "columns of C that a warp computes"),
            Parameter(
                "STAGES", 2, (0, 1, 2, 3, 4), "0: no shared tiles; 1: one pair; else for cp.async"
            ),
        ),
        tile=_tile,
        grid=_tiles_of_c,
        block=_line(_threads_of_warps),
        limit=_limit_14,
        model_bytes=partial(_tile_reuse, dtype="float16"),
        oldest_arch=lambda s: 80 if s["STAGES"] > 1 else 70,
        shared_bytes=_shared_14,
        dtype="float16",
    ),
)

CEILINGS = Ceilings()
CEILINGS_NAME = CEILINGS.name
TENSOR_CEILING = TensorCeiling()
PIECES_PROBE = "14_fragments"  # tells which lane holds what


# --- looking up -------------------------------------------------------------------------------


def find(name: str) -> Rung:
    """The rung called `name`. Raises LadderError, naming the nearest and all others."""
    for rung in RUNGS:
        if rung.name == name:
            return rung
    names = [rung.name for rung in RUNGS]
    if name in (CEILINGS.name, TENSOR_CEILING.name):
        raise LadderError(
            f"{name} is no matrix product: use gl.ceilings(); products: {', '.join(names)}"
        )
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}? " if near else ""
    raise LadderError(f"there is no rung {name!r}: {hint}The ladder has {', '.join(names)}")


def settings_for(rung: Rung, given: Settings) -> Settings:
    """The rung's parameters with defaults filled in.

    Raises IllegalSetting, with the reason and the nearest legal choice, for a parameter that the
    rung does not have, a value that it cannot take, and values that do not go together.
    """
    known = {parameter.name: parameter for parameter in rung.parameters}
    for name in given:
        if name not in known:
            raise IllegalSetting(f"{rung.name} has no parameter {name}; it has {', '.join(known)}")
    settings = {name: given.get(name, parameter.default) for name, parameter in known.items()}
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int) or value not in known[name].legal:
            legal = ", ".join(str(v) for v in known[name].legal)
            raise IllegalSetting(
                f"{rung.name}: {name}={value!r} is not legal, the values are {legal}"
                + (f"; {_offer(rung, settings)}" if isinstance(value, int) and value > 0 else "")
            )
    if reason := rung.limit(settings):
        raise IllegalSetting(f"{rung.name}: {listed(settings)} {reason}; {_offer(rung, settings)}")
    return settings


def require_arch(rung: Rung, settings: Settings, arch: str) -> None:
    """Raise IllegalSetting where the settings need a newer architecture than `arch`, as "sm_75"."""
    if runs_on(rung, settings, arch):
        return
    other = nearest_on(rung, settings, arch)
    needs = f"sm_{rung.oldest_arch(settings)} or newer"
    if (shared := rung.shared_bytes(settings)) > _dynamic_shared_bytes(arch):
        needs = f"{shared} bytes of shared memory per block"
    raise IllegalSetting(
        f"{rung.name}: {listed(settings)} needs {needs}, this is {arch}; "
        f"the nearest choice for it is {listed(other)}"
    )


def nearest_on(rung: Rung, wanted: Settings, arch: str) -> Settings:
    """The settings closest to these that run on `arch`. Raises IllegalSetting if there are none."""
    others = [other for other in legal_settings(rung) if runs_on(rung, other, arch)]
    if not others:
        oldest = min(map(rung.oldest_arch, legal_settings(rung)))
        raise IllegalSetting(f"{rung.name} needs sm_{oldest} or newer, this is {arch}")
    return _nearest_of(others, wanted)


def runs_on(rung: Rung, settings: Settings, arch: str) -> bool:
    """Whether the settings run on an architecture such as "sm_75"."""
    digits = re.sub(r"\D", "", arch)
    return not digits or (
        int(digits) >= rung.oldest_arch(settings)
        and rung.shared_bytes(settings) <= _dynamic_shared_bytes(arch)
    )


def _dynamic_shared_bytes(arch: str) -> int:
    """What a block may ask for at launch, with 1 KiB left for what it declares."""
    limits = LIMITS.get(base(arch))
    return limits.shared_bytes_per_block - 1024 if limits else STATIC_SHARED_BYTES


def legal_settings(rung: Rung) -> list[Settings]:
    """Every combination of parameter values that the rung takes."""
    names = [parameter.name for parameter in rung.parameters]
    every = product(*(parameter.legal for parameter in rung.parameters))
    combinations = [dict(zip(names, values, strict=True)) for values in every]
    return [settings for settings in combinations if rung.limit(settings) is None]


def tuned_settings(rung: Rung) -> list[Settings]:
    """The legal settings among which a sweep looks for the fastest: the default of all else."""
    fixed = {
        parameter.name: parameter.default for parameter in rung.parameters if not parameter.tuned
    }
    return [settings for settings in legal_settings(rung) if fixed.items() <= settings.items()]


def nearest(rung: Rung, wanted: Settings) -> Settings:
    """The legal combination that changes the fewest parameters, and those the least."""
    return _nearest_of(legal_settings(rung), wanted)


def _nearest_of(choices: list[Settings], wanted: Settings) -> Settings:
    def distance(settings: Settings):
        steps = [abs(log2((settings[name] + 1) / (wanted[name] + 1))) for name in wanted]
        return sum(step > 0 for step in steps), sum(steps)

    return min(choices, key=distance)


def _offer(rung: Rung, wanted: Settings) -> str:
    return f"the nearest legal choice is {listed(nearest(rung, wanted))}"


def written(settings: Settings) -> str:
    """Settings for a line or a column of a table: "TILE=32 BK=64"."""
    return " ".join(f"{name}={value}" for name, value in settings.items())


def read_settings(text: str) -> Settings:
    """Settings that `written` wrote."""
    return {name: int(value) for name, value in (one.split("=") for one in text.split())}


def listed(settings: Settings) -> str:
    """Settings in words: "TILE=32, BK=64"."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())
