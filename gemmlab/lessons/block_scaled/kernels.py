"""Kernel of 27, block scales in tensor memory."""

from gemmlab.ladder.launch import PRODUCT, Launch, MapOf, Target
from gemmlab.ladder.precision import FLOAT16
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings
from gemmlab.ladder.shapes import ceil_div, fits, tile_reuse
from gemmlab.lessons.blackwell.kernels import (
    ADDRESS_BYTES,
    ARCH,
    EPILOGUE_WARPS,
    HALVES,
    STORE_ROWS,
    THREADS,
)
from gemmlab.lessons.block_scaled.formats import FORMATS, HALF_ATOM, PRECISIONS, ROWS
from gemmlab.lessons.tma_wgmma.rung import (
    BARRIER_BYTES,
    MAP_ALIGNMENT,
    ROW_BYTES,
    SQUARE,
    clusters_for,
    require_maps,
)

TILE = ROWS, ROWS  # rows and columns of C that a block computes
ATOM_BYTES, ATOM_COLUMNS = 512, 4  # of tensor memory
SUMS_COLUMNS, COLUMNS = HALVES * ROWS, 512  # of sums, and of all tensor memory
MULTIPLES = MAP_ALIGNMENT // FLOAT16.bytes, MAP_ALIGNMENT


def _scale_columns(s: Settings) -> int:
    """Of tensor memory, for the scales of A and B in all stages."""
    return 2 * s["STAGES"] * FORMATS[s["FORMAT"]].atoms * ATOM_COLUMNS


def shared_bytes(s: Settings) -> int:
    """Stages with their scales, buffers for C, two mbarriers for each stage and each half."""
    stage = 2 * (ROWS * ROW_BYTES + FORMATS[s["FORMAT"]].atoms * ATOM_BYTES)
    stores = EPILOGUE_WARPS * 2 * STORE_ROWS * ROW_BYTES
    barriers = 2 * BARRIER_BYTES * (s["STAGES"] + HALVES)
    return s["STAGES"] * stage + stores + barriers + ADDRESS_BYTES


def _plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    require_maps("27_block_scaled", problem, *MULTIPLES)
    tiles = ceil_div(problem.m, ROWS) * ceil_div(problem.n, ROWS)
    of_scales = (2 * FORMATS[s["FORMAT"]].atoms, HALF_ATOM)
    return [Launch(
        "block_scaled", (clusters_for(tiles, target.sm_count, 1), 1, 1), (THREADS, 1, 1),
        shared_bytes(s), (1, 1, 1),
        (MapOf("A", (ROWS, ROW_BYTES), "128B"), MapOf("B", (ROWS, ROW_BYTES), "128B"),
         MapOf("scale_a", of_scales), MapOf("scale_b", of_scales),
         MapOf("C", (STORE_ROWS, SQUARE), "128B"), *PRODUCT[2:]),
        early=True,
    )]  # fmt: skip


def _scales_fit(s: Settings) -> str | None:
    if (columns := SUMS_COLUMNS + _scale_columns(s)) > COLUMNS:
        return f"needs {columns} columns of tensor memory, which has {COLUMNS}"
    return None


BLOCK_SCALED = Rung(
    name="27_block_scaled",
    title="Block scales in tensor memory",
    idea="the tensor cores multiply by the scales of blocks, which lie beside the sums",
    inner_loop=(
        ("for (int atom = 0; atom < ATOMS; ++atom) {", "}"),
        ("for (int step = 0; step < STEPS; ++step) {", "}"),
    ),
    inner_loop_in="scaled_stage.cuh",
    parameters=(
        Parameter("STAGES", 5, (2, 3, 4, 5), "pairs of tiles in shared memory"),
        Parameter("GROUP", 16, (1, 4, 16), "rows of tiles that are computed together"),
        Parameter("FORMAT", 0, (0, 1), "A and B: 0 MXFP8, 1 NVFP4", tuned=False),
    ),
    tile=lambda s: TILE,
    depth=lambda s: ROW_BYTES,
    plan=_plan,
    constraints=(fits(shared_bytes, ARCH), Constraint("columns", _scales_fit)),
    model_bytes=lambda problem, s: tile_reuse(
        problem, dict(zip(("BM", "BN"), TILE, strict=True)), PRECISIONS[s["FORMAT"]]
    ),
    needs_arch=lambda s: ARCH,
    precision=PRECISIONS[0],
    by_type=lambda s: PRECISIONS[s["FORMAT"]],
    ops=lambda s: "NT",
    multiples=lambda s: MULTIPLES,
    by_tcgen05=True,
)
KERNELS = (BLOCK_SCALED,)
