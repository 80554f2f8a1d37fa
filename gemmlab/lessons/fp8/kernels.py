"""A kernel of gl.matmul besides the rungs: FP8 with scales of blocks, faster than 19."""

from dataclasses import replace

from gemmlab.ladder.launch import SIMULATED, Launch, MapOf, Target
from gemmlab.ladder.precision import OF_BLOCKS, OF_BLOCKS_BY_COLUMNS, PROMOTED, SCALES, Precision
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Parameter, Settings
from gemmlab.ladder.shapes import ceil_div, fits, tile, tile_reuse
from gemmlab.lessons.fp8 import rung as fp8
from gemmlab.lessons.tma_wgmma.rung import (
    ARCH,
    BARRIER_BYTES,
    GROUP_ROWS,
    GROUP_THREADS,
    MAP_ALIGNMENT,
    ROW_BYTES,
    SQUARE_BYTES,
    clusters_for,
    require_maps,
    stages_bytes,
)

SHARED_A, SHARED_B, SPLIT_K = range(3)  # what a cluster shares, by the value of SHARE
WARP_ROWS = 16  # of C that a warp stores
FLOAT_BYTES = 4

# Of all that were timed on an NVIDIA H200, those that were the fastest somewhere, or near it.
FAMILIES = tuple(
    dict(zip(("BM", "BN", "STAGES", "CLUSTER", "SHARE"), values, strict=True))
    for values in (
        (192, 128, 4, 2, 0), (128, 128, 6, 2, 0), (128, 128, 6, 1, 0), (64, 128, 8, 2, 1),
        (128, 64, 8, 1, 0), (64, 128, 8, 1, 0), (64, 64, 8, 2, 2), (64, 64, 12, 1, 0),
    )
)  # fmt: skip
TALL, SQUARE, _, FLAT, _, ONE_ROW, SPLIT, _ = FAMILIES
# Of the cycles that SQUARE needs for as many rows of tiles: 0.95 at 4096³ and 0.96 at 8192³, on
# an NVIDIA H200.
TIME_OF_TALL = 0.95


def precision(s: Settings) -> Precision:
    by_blocks = {"SCALES": SCALES.index(OF_BLOCKS), "PROMOTE": PROMOTED}
    return replace(fp8.precision(s | by_blocks), scales=OF_BLOCKS_BY_COLUMNS)


def _shares(s: Settings, what: int) -> int:
    """Blocks that share it."""
    return s["CLUSTER"] if s["SHARE"] == what else 1


def consumers(s: Settings) -> int:
    """Warpgroups that multiply."""
    return s["BM"] // GROUP_ROWS


def shared_bytes(s: Settings) -> int:
    """Stages, scales of their rows, two mbarriers a stage; rows of C on their way out, or the sums
    that the other blocks of a cluster have."""
    beside = s["STAGES"] * ((s["BM"] + 2) * FLOAT_BYTES + 2 * BARRIER_BYTES)  # 2: B's, and a gap
    if (together := _shares(s, SPLIT_K)) > 1:
        sums = (together - 1) * s["BN"] // 2 // together * FLOAT_BYTES  # of a thread
        return stages_bytes(s) + beside + consumers(s) * GROUP_THREADS * sums
    buffers = 2 if s["BM"] > 128 else 1
    return stages_bytes(s) + beside + consumers(s) * buffers * SQUARE_BYTES


def cluster_tiles(s: Settings) -> tuple[int, int]:
    """Down and across."""
    return _shares(s, SHARED_B), _shares(s, SHARED_A)


def multiples(s: Settings) -> tuple[int, int]:
    return MAP_ALIGNMENT // precision(s).c.bytes, MAP_ALIGNMENT


def _plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    require_maps("19_blocks", problem, *multiples(s))
    together, (down, across) = s["CLUSTER"], cluster_tiles(s)
    tiles = ceil_div(problem.m, s["BM"] * down) * ceil_div(problem.n, s["BN"] * across)
    split = _shares(s, SPLIT_K) > 1  # then a cluster computes a single tile
    clusters = tiles if split else clusters_for(tiles, target.sm_count, together)
    maps = (
        MapOf("A", (s["BM"] // across, ROW_BYTES), "128B"),
        MapOf("B", (s["BN"] // down, ROW_BYTES), "128B"),
        MapOf("C", (WARP_ROWS, ROW_BYTES // precision(s).c.bytes), "128B"),
    )
    return [
        Launch(
            "fp8_blocks", (clusters * together, 1, 1), (GROUP_THREADS * (consumers(s) + 1), 1, 1),
            shared_bytes(s), (together, 1, 1),
            (*maps, "C", "scale_a", "scale_b", "M", "N", "K", "alpha", "beta"), early=True,
        )
    ]  # fmt: skip


def _suited(problem: Problem, s: Settings) -> Settings:
    """By the number of squares of 64×64 in C: what was the fastest at shapes with about as many.
    Where there are many, what needs the least time for whole rounds of tiles."""
    squares = ceil_div(problem.m, GROUP_ROWS) * ceil_div(problem.n, GROUP_ROWS)
    if squares <= 66:
        return SPLIT
    if problem.m <= GROUP_ROWS:
        return ONE_ROW
    if squares <= 264:
        return FLAT
    tall = TIME_OF_TALL * _rounds(problem, TALL) * TALL["BM"]
    return TALL if tall < _rounds(problem, SQUARE) * SQUARE["BM"] else SQUARE


def _rounds(problem: Problem, s: Settings) -> int:
    """Of tiles, one for each SM of an H200, in clusters of two that have the same rows."""
    tiles = ceil_div(problem.m, s["BM"]) * ceil_div(problem.n, 2 * s["BN"])
    return ceil_div(2 * tiles, SIMULATED.sm_count)


KERNELS = (
    Rung(
        name="19_blocks",
        title="FP8 with scales of blocks",
        idea="three warpgroups take turns: while one promotes its sums, the others multiply",
        parameters=(
            Parameter("BM", 128, (64, 128, 192), "rows of C that a block computes"),
            Parameter("BN", 128, (64, 128), "columns of C that a block computes"),
            Parameter("STAGES", 6, (4, 6, 8, 12), "pairs of tiles in shared memory"),
            Parameter("GROUP", 8, (8, 16), "rows of tiles that are computed together"),
            Parameter("CLUSTER", 2, (1, 2), "blocks of a cluster"),
            Parameter("SHARE", 0, (0, 1, 2), "what they share: 0 A, 1 B, 2 the tile of C, along K"),
            Parameter("DTYPE", 0, (0, 1, 2), "0 E4M3, 1 A in E5M2, 2 B in E5M2", tuned=False),
            Parameter("OUT32", 0, (0, 1), "0: C is bfloat16, 1: float32", tuned=False),
        ),
        families=FAMILIES,
        tile=tile,
        depth=lambda s: PROMOTED,
        cluster_tiles=cluster_tiles,
        plan=_plan,
        multiples=multiples,
        constraints=(fits(shared_bytes, ARCH),),
        model_bytes=lambda problem, s: tile_reuse(problem, s, precision(s)),
        needs_arch=lambda s: ARCH,
        by_type=precision,
        ops=lambda s: "NT",
        by_wgmma=True,
        suited=_suited,
    ),
)  # fmt: skip
