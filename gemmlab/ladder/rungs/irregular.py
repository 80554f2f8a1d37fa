"""Rungs 12 and 13, verified and not yet on the ladder: they have no notebook and no records.

12: products with fewer tiles than the GPU has SMs; 13: many small products in one launch. The
kernels of 12 for few rows and few columns (thin.cuh) are launched by tests alone.
"""

from __future__ import annotations

from gemmlab.ladder.constraints import Constraint, whole_block
from gemmlab.ladder.launch import (
    LEADING,
    MATRICES,
    POINTERS,
    STRIDES,
    Launch,
    Target,
    Workspace,
)
from gemmlab.ladder.planted import Planted
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.rungs.shapes import (
    block_tile,
    ceil_div,
    operations,
    ops,
    thread_tile,
    threads_of_tiles,
    tile,
    tile_reuse,
    tiles_of_c,
)
from gemmlab.ladder.settings import Parameter, Settings

JOINS = (
    "alone", "a second kernel", "atomics", "the last arriver", "every part", "a cluster",
    "stream-K",
)  # fmt: skip
ALONE, SECOND_KERNEL, ATOMICS, LAST_ARRIVER, EVERY_PART, CLUSTER, STREAM_K = range(len(JOINS))
PADDING = 4  # floats, of a row of what is transposed on its way into shared memory
MOST_ROWS_OF_BLOCKS = 65535


def _ring_bytes(s: Settings) -> int:
    """The stages: tiles of floats, whose rows are longer where elements come transposed."""
    a_row = s["BM"] + (0 if s["OP_A"] else PADDING)
    b_row = s["BN"] + (PADDING if s["OP_B"] else 0)
    return 4 * s["STAGES"] * s["BK"] * (a_row + b_row)


TILES = (
    *block_tile((32, 64, 128), (32, 64, 128), (16, 32), (64, 64, 16)),
    *thread_tile(8, 8),
    Parameter("STAGES", 3, (2, 3, 4), "places of the ring of tiles"),
)


def _whole_warps(s: Settings) -> str | None:
    if s["BM"] % (4 * s["TM"]) or s["BN"] % (8 * s["TN"]):
        return f"leaves no whole warps: one computes {4 * s['TM']}×{8 * s['TN']}"
    return None


# ---- 12 ------------------------------------------------------------------------------------------


def _workers(s: Settings, target: Target) -> int:
    """Blocks of stream-K, all of them resident: as the header's MIN_BLOCKS has them."""
    sums = s["TM"] * s["TN"]
    resident = 256 if sums > 64 else 384 if sums > 32 else 768
    return target.sm_count * max(1, resident // threads_of_tiles(s))


def _shares(s: Settings) -> int:
    """Blocks of the second kernel for each tile, as the header's SHARES has them."""
    lanes = 1 << (min(s["SPLIT"], 8).bit_length() - 1)
    return ceil_div(s["BM"] * s["BN"] // 4 * lanes, threads_of_tiles(s))


def _split_plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    across, down, _ = tiles_of_c(problem.m, problem.n, s)
    tiles, join, threads = across * down, s["JOIN"], (threads_of_tiles(s), 1, 1)
    blocks = _workers(s, target) if join == STREAM_K else tiles * s["SPLIT"]
    tile_bytes = 4 * s["BM"] * s["BN"]
    parts = Workspace("parts", tile_bytes * blocks)
    arrived = Workspace("arrived", 4 * max(blocks, 8 * tiles), zeroed=True)
    shared = max(_ring_bytes(s), tile_bytes if join == CLUSTER else 0)
    product = Launch(
        "stream_k" if join == STREAM_K else "split_k",
        (blocks, 1, 1), threads, shared,
        (s["SPLIT"], 1, 1) if join == CLUSTER else (1, 1, 1),
        (*MATRICES, "M", "N", "K", *LEADING, "alpha", "beta", parts, arrived),
    )  # fmt: skip
    if join == SECOND_KERNEL:
        args = ("C", "M", "N", "ldc", "alpha", "beta", parts)
        return [product, Launch("add_parts", (tiles * _shares(s), 1, 1), threads, args=args)]
    if join == ATOMICS:
        grid = (ceil_div(problem.n, 256), min(problem.m, MOST_ROWS_OF_BLOCKS), 1)
        args = ("C", "M", "N", "ldc", "beta")
        return [Launch("scale_c", grid, (256, 1, 1), args=args), product]
    return [product]


def _one_way(s: Settings) -> str | None:
    if s["JOIN"] in (ALONE, STREAM_K) and s["SPLIT"] != 1:
        return f"joins by {JOINS[s['JOIN']]}, with SPLIT=1"
    if s["JOIN"] == CLUSTER and s["SPLIT"] > 8:
        return "asks for a cluster of more than 8 blocks"
    return None


SPLIT_K = Rung(
    name="12_split_k",
    title="Split-K",
    idea="fewer tiles than SMs: several blocks share a tile, each with a part of K",
    parameters=(
        *TILES,
        Parameter("SPLIT", 4, (1, 2, 3, 4, 8, 16), "parts of K"),
        Parameter(
            "JOIN", LAST_ARRIVER, tuple(range(len(JOINS))),
            "how parts are added: " + ", ".join(f"{at}: {one}" for at, one in enumerate(JOINS)),
        ),
        *operations(),
    ),
    tile=tile,
    plan=_split_plan,
    constraints=(
        Constraint("one way", _one_way),
        Constraint("whole warps", _whole_warps),
        whole_block(threads_of_tiles),
    ),
    model_bytes=tile_reuse,
    needs_arch=lambda s: "sm_90a" if s["JOIN"] == CLUSTER else "sm_80",
    ops=ops,
)  # fmt: skip


# ---- 13 ------------------------------------------------------------------------------------------


def _batched_plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    across, down, _ = tiles_of_c(problem.m, problem.n, s)
    blocks = min(problem.batch * across * down, s["RESIDENT"] * target.sm_count)
    args = (
        *(POINTERS if s["POINTERS"] else MATRICES), "M", "N", "K", *LEADING, *STRIDES, "batch",
        "alpha", "beta",
    )  # fmt: skip
    threads = threads_of_tiles(s)
    return [Launch("batched", (blocks, 1, 1), (threads, 1, 1), _ring_bytes(s), args=args)]


BATCHED = Rung(
    name="13_batched",
    title="Batched products",
    idea="one stream of stages through all products of a batch: copies of the next one meanwhile",
    parameters=(
        *TILES,
        Parameter("RESIDENT", 2, (1, 2, 3, 4, 6, 8), "blocks that shall run on an SM at a time"),
        Parameter("POINTERS", 0, (0, 1), "1: arrays of addresses", tuned=False),
        *operations(),
    ),
    tile=tile,
    plan=_batched_plan,
    constraints=(Constraint("whole warps", _whole_warps), whole_block(threads_of_tiles)),
    model_bytes=lambda problem, s: problem.batch * tile_reuse(problem, s),
    needs_arch=lambda s: "sm_80",
    ops=ops,
    batch=3,
    inner_loop=(
        ("const auto fill = [&](int place)", "};"),
        ("for (; tile.product < batch", "});"),
    ),
    planted=Planted(
        old="if (THREADS > 32) wait_for",
        new="if (THREADS > 64) wait_for",
        what="a block of two warps does not wait until both have read a place before it is filled "
        "anew; only a block of one warp need not wait",
        kind="write-after-read race",
        seen="kernel.check() sees the race; results are right in the simulator, where both warps "
        "happen to be in time",
        hint="kernel.check() names the line that reads and the one that writes. What has to lie "
        "between them, and who has to wait for whom?",
        settings={"BM": 64, "BN": 64, "TM": 8, "TN": 8, "STAGES": 2},
    ),
)
