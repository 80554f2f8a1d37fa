"""Rungs 03 to 07: tiles in shared memory, and more and more sums in a thread's registers."""

from __future__ import annotations

from gemmlab.ladder.constraints import Constraint, fits
from gemmlab.ladder.launch import single
from gemmlab.ladder.planted import Planted
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.rungs.shapes import (
    block_tile,
    ceil_div,
    in_a_line,
    thread_tile,
    threads_of_tiles,
    tile,
    tile_reuse,
    tiles_of_c,
)
from gemmlab.ladder.settings import Parameter, Settings


def _threads_04(s: Settings) -> int:
    return s["BM"] * s["BN"] // s["TM"]


def _threads_07(s: Settings) -> int:
    return (s["BM"] // 8) * (s["BN"] // 8)


def _both_tiles(s: Settings) -> int:
    """Floats of a tile of A and one of B."""
    return s["BK"] * (s["BM"] + s["BN"])


def _threads_without_work(s: Settings) -> str | None:
    if s["BK"] < s["TILE"]:
        return (
            f"leaves threads without work: TILE={s['TILE']} brings {s['TILE']} elements along K "
            "at least"
        )
    return None


def _cured_twice(s: Settings) -> str | None:
    if s["PAD"] and s["SWIZZLE"]:
        return "cures the same conflict twice: set PAD or SWIZZLE to 0"
    return None


FITS_05 = fits(threads_of_tiles, lambda s: (s["TM"], s["TN"]), _both_tiles)

SHARED_MEMORY = Rung(
    name="03_shared_memory",
    title="Shared-memory tiling",
    idea="a block loads a tile once, and all its threads reuse it",
    inner_loop=(
        ("for (int tile_k", "}"),
        ("__syncthreads", "__syncthreads();                         // nobody"),
    ),
    parameters=(
        Parameter("TILE", 32, (8, 16, 32), "rows and columns of the tiles of A, B and C"),
        Parameter("BK", 64, (8, 16, 32, 64), "how far along K one step goes"),
        Parameter("PAD", 0, (0, 1), "floats left free at the end of a tile's row"),
    ),
    tile=lambda s: (s["TILE"], s["TILE"]),
    plan=single(
        "shared_memory",
        lambda m, n, s: (ceil_div(n, s["TILE"]), ceil_div(m, s["TILE"]), 1),
        lambda s: (s["TILE"], s["TILE"], 1),
    ),
    constraints=(
        Constraint("work for all threads", _threads_without_work),
        *fits(
            lambda s: s["TILE"] ** 2,
            lambda s: (1, 1),
            lambda s: s["TILE"] * (s["BK"] + s["PAD"]) + s["BK"] * (s["TILE"] + s["PAD"]),
        ),
    ),
    model_bytes=lambda problem, s: tile_reuse(problem, {"BM": s["TILE"], "BN": s["TILE"]}),
    planted=Planted(
        old="__syncthreads();                         // nobody reads them any more",
        new="__syncwarp();                            // nobody reads them any more",
        what="__syncwarp() holds back the threads of one warp only, so a warp that is ahead "
        "overwrites tiles that others still read",
        kind="write-after-read race",
        seen="only kernel.check() sees the write-after-read race, every result is right",
        hint="kernel.check() names a line that writes and one that reads. What should stand "
        "between the read and the next step's write?",
        settings={"TILE": 16, "BK": 16},
    ),
)

THREAD_TILE_1D = Rung(
    name="04_thread_tile_1d",
    title="A column of outputs per thread",
    idea="a thread computes a column of outputs",
    inner_loop=(
        ("const int x = thread", "const int y = thread"),
        ("float sums[TM]", "for (int tile_k"),
        ("__syncthreads", "__syncthreads("),
    ),
    parameters=(
        *block_tile((32, 64, 128), (32, 64, 128), (8, 16, 32), (32, 64, 16)),
        Parameter("TM", 16, (4, 8, 16), "rows of C that a thread computes"),
    ),
    tile=tile,
    plan=single("thread_tile_1d", tiles_of_c, in_a_line(_threads_04)),
    constraints=fits(_threads_04, lambda s: (s["TM"], 1), _both_tiles),
    model_bytes=tile_reuse,
)

THREAD_TILE_2D = Rung(
    name="05_thread_tile_2d",
    title="A rectangle of outputs per thread",
    idea="a thread computes a rectangle, as outer products in registers",
    inner_loop=(
        ("const int x = thread", "const int y = thread"),
        ("for (int k = 0", "sums[i][j]"),
    ),
    parameters=(
        *block_tile((32, 64, 128), (32, 64, 128), (8, 16), (128, 64, 16)),
        *thread_tile(8, 4),
    ),
    tile=tile,
    plan=single("thread_tile_2d", tiles_of_c, in_a_line(threads_of_tiles)),
    constraints=FITS_05,
    model_bytes=tile_reuse,
    planted=Planted(
        old="        } else {\n            load_tile<false",
        new="        } else if (!whole) {\n            load_tile<false",
        what="a block inside of C brings nothing in the last step where K is no multiple of BK, "
        "and multiplies the tiles of the step before once more",
        kind=None,
        seen="kernel.verify() fails where a block is whole and K is no multiple of BK; "
        "kernel.check() finds nothing, for every element that is read was written once",
        hint="compare the shapes that kernel.verify() passes with those that fail: which blocks "
        "are wrong, and what is special about K?",
        settings={"BM": 32, "BN": 32, "BK": 8, "TM": 4, "TN": 4},
    ),
)

VECTORIZED_LOADS = Rung(
    name="06_vectorized_loads",
    title="Vectorized loads",
    idea="16 bytes with every load; A staged transposed",
    inner_loop=(("const float4 four", "a[k + 3]"), ("float a_column", "*(float4*)&b_row")),
    parameters=(
        *block_tile((64, 128), (64, 128), (8, 16), (128, 128, 16)),
        *thread_tile(8, 8),
    ),
    tile=tile,
    plan=single("vectorized_loads", tiles_of_c, in_a_line(threads_of_tiles)),
    constraints=FITS_05,
    model_bytes=tile_reuse,
)

BANK_CONFLICTS = Rung(
    name="07_bank_conflicts",
    title="Bank conflicts, three cures",
    idea="padding, a swizzle and split columns against conflicts, counted",
    inner_loop=(
        ("#define PLACE(k, row) ((row) ^", "#define PLACE(k, row) ((row) ^"),
        (
            "#define MY_COLUMNS(slot, group) ((slot) * 4",
            "#define MY_COLUMNS(slot, group) ((slot) * 4",
        ),
        ("const float4 four", "a[k + 3]"),
        ("float a_column", "*(float4*)&b_row"),
    ),
    parameters=(
        *block_tile((64, 128), (64, 128), (8, 16), (128, 128, 16)),
        Parameter("PAD", 0, (0, 4), "floats left free at the end of a row of A's tile"),
        Parameter("SWIZZLE", 1, (0, 1), "1: exchange columns of A's tile by an XOR"),
        Parameter("SPLIT", 1, (0, 1), "1: a thread's columns in two groups of four"),
    ),
    tile=tile,
    plan=single("bank_conflicts", tiles_of_c, in_a_line(_threads_07)),
    constraints=(
        Constraint("one cure for A", _cured_twice),
        *fits(
            _threads_07,
            lambda s: (8, 8),
            lambda s: s["BK"] * (s["BM"] + s["PAD"] + s["BN"]),
        ),
    ),
    model_bytes=tile_reuse,
)

RUNGS = (SHARED_MEMORY, THREAD_TILE_1D, THREAD_TILE_2D, VECTORIZED_LOADS, BANK_CONFLICTS)
