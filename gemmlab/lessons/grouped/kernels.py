"""Kernels of 24, grouped products: no steps of the ladder, for each product has a B of its own."""

import numpy as np

from gemmlab.ladder.launch import LD_SCALE_A, Launch, MapOf, Target
from gemmlab.ladder.precision import BRAIN, HALF
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Constraint, IllegalSetting, Parameter, Settings
from gemmlab.ladder.shapes import fits, ops, tile, tile_reuse
from gemmlab.lessons.fp8 import kernels as fp8
from gemmlab.lessons.tma_wgmma.rung import (
    ARCH,
    BARRIER_BYTES,
    GROUP_ROWS,
    GROUP_THREADS,
    MAP_ALIGNMENT,
    ROW_BYTES,
    SQUARE,
    SQUARE_BYTES,
    WHAT,
    parameters,
    require_maps,
    stages_bytes,
)
from ptxsim.architectures import LIMITS, base

TYPES = HALF, BRAIN
INDEX_BYTES = 4  # where the tiles of a product begin
WHOLE = MAP_ALIGNMENT // HALF.a.bytes  # elements: rows of A, B and C begin at whole 16 bytes


def _shared_bytes(s: Settings, products: int = 0) -> int:
    """Stages with two mbarriers each, buffers for C, and where the tiles of each product begin."""
    buffers = 2 if s["BN"] // SQUARE % 2 == 0 and s["BM"] <= 2 * GROUP_ROWS else 1
    stores = s["BM"] // GROUP_ROWS * buffers * SQUARE_BYTES
    return stages_bytes(s) + stores + 2 * BARRIER_BYTES * s["STAGES"] + INDEX_BYTES * (products + 1)


def most_products(s: Settings) -> int:
    """For which shared memory has room."""
    bytes_without = (_shared_bytes if "OP_B" in s else _shared_bytes_of_fp8)(s)
    return (LIMITS[base(ARCH)].dynamic_shared_bytes - bytes_without) // INDEX_BYTES


def _require_room(name: str, problem: Problem, s: Settings) -> None:
    """Raises IllegalSetting for more products than shared memory has room for."""
    if problem.batch > (most := most_products(s)):
        raise IllegalSetting(
            f"{name} with STAGES={s['STAGES']} has room for {most} products in shared memory, "
            f"not {problem.batch}: choose fewer STAGES"
        )


def blocks(s: Settings, sm_count: int) -> int:
    """As many as run at a time: nobody knows beforehand how many tiles there are."""
    return s["MIN_BLOCKS"] * sm_count


def _grouped(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    if not problem.k or problem.n % WHOLE or problem.k % WHOLE:
        raise IllegalSetting(
            f"24_grouped takes an N and a K that are multiples of {WHOLE} and not 0, not "
            f"N={problem.n} and K={problem.k}"
        )
    _require_room("24_grouped", problem, s)
    box_of_b = (1, s["BN"] if s["OP_B"] else SQUARE, SQUARE)
    return [Launch(
        "grouped", (blocks(s, target.sm_count), 1, 1),
        (GROUP_THREADS * (s["BM"] // GROUP_ROWS + 1), 1, 1), _shared_bytes(s, problem.batch),
        args=(MapOf("A", (s["BM"], SQUARE), "128B"), MapOf("B", box_of_b, "128B"),
              MapOf("C", (GROUP_ROWS, SQUARE), "128B"), "C", "rows", "batch", "M", "N", "K"),
        early=True,
    )]  # fmt: skip


def _rows(problem: Problem, s: Settings) -> np.ndarray:
    if s["MASKED"]:
        return np.full(problem.batch, problem.m, np.int32)
    return np.arange(problem.batch + 1, dtype=np.int32) * np.int32(problem.m)


def _alone(s: Settings) -> str | None:
    """Two blocks have half of an SM's registers each, and half of its shared memory."""
    if s["MIN_BLOCKS"] == 1:
        return None
    if s["BM"] != 64 or s["BN"] > 128:
        return "has a tile with which one block fills an SM's registers: BM is 64 at most, BN 128"
    limits = LIMITS[base(ARCH)]
    if 2 * (_shared_bytes(s) + limits.reserved_bytes) > limits.shared_bytes:
        return f"has {s['STAGES']} stages, with which no second block fits on an SM"
    return None


MASKED = Parameter(
    "MASKED", 0, (0, 1), "1: each product has room for M rows, and uses some", tuned=False
)
GROUPED = Rung(
    name="24_grouped",
    title="Grouped products",
    idea="each block numbers the tiles of all products, whose heights the device alone knows",
    inner_loop=(("// The tile of this number", "rows_of_product - at.row * BM};"),),
    inner_loop_in="products.cuh",
    parameters=(
        *parameters((2, 3, 4, 5, 6, 8)),
        Parameter("MIN_BLOCKS", 1, (1, 2), "blocks that fit on an SM"),
        Parameter(
            "SEND_LATER", 1, (0, 1), "1: C is stored while the next tile is multiplied", tuned=False
        ),
        MASKED,
        *WHAT[:2],
    ),
    tile=tile,
    depth=lambda s: SQUARE,
    plan=_grouped,
    constraints=(fits(_shared_bytes, ARCH), Constraint("two blocks", _alone)),
    model_bytes=lambda problem, s: problem.batch * tile_reuse(problem, s, TYPES[s["DTYPE"]]),
    needs_arch=lambda s: ARCH,
    precision=HALF,
    by_type=lambda s: TYPES[s["DTYPE"]],
    ops=lambda s: ops({"OP_A": 0, **s}),
    multiples=lambda s: (WHOLE, WHOLE),
    rows=_rows,
    batch=2,
    by_wgmma=True,
    planted=Planted.beside(__file__),
)


# ---- in FP8, with scales of blocks ---------------------------------------------------------------

# Of those of 19_blocks.cu, the ones whose blocks share rows of one product, or none; and others for
# products of few rows.
FAMILIES = tuple(
    dict(zip(("BM", "BN", "STAGES", "CLUSTER"), values, strict=True))
    for values in (
        (128, 128, 6, 2), (128, 128, 6, 1), (192, 128, 4, 2), (64, 128, 8, 2),
        (64, 128, 8, 1), (64, 64, 12, 1),
    )
)  # fmt: skip
TILE_BYTES = 16  # where a tile is


def _as_blocks(s: Settings) -> Settings:
    """As 19_blocks would be compiled."""
    return {"SHARE": fp8.SHARED_A, "DTYPE": 0, "OUT32": 0} | s


def _shared_bytes_of_fp8(s: Settings, products: int = 0) -> int:
    """What 19_blocks has, where a tile more than stages is, and where those of products begin."""
    places = TILE_BYTES * (s["STAGES"] + 1)
    return fp8.shared_bytes(_as_blocks(s)) + places + INDEX_BYTES * (products + 1)


def _grouped_fp8(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    require_maps("24_fp8", problem, *fp8.multiples(_as_blocks(s)))
    _require_room("24_fp8", problem, s)
    together = s["CLUSTER"]
    return [Launch(
        "grouped_fp8", (max(1, target.sm_count // together) * together, 1, 1),
        (GROUP_THREADS * (fp8.consumers(s) + 1), 1, 1), _shared_bytes_of_fp8(s, problem.batch),
        (together, 1, 1),
        (MapOf("A", (s["BM"] // together, ROW_BYTES), "128B"),
         MapOf("B", (s["BN"], ROW_BYTES), "128B"),
         MapOf("C", (fp8.WARP_ROWS, SQUARE), "128B"), "C", "scale_a", "scale_b",
         "rows", "batch", "M", "N", "K", LD_SCALE_A),
        early=True,
    )]  # fmt: skip


GROUPED_FP8 = Rung(
    name="24_fp8",
    title="Grouped products in FP8, with scales of blocks",
    idea="a warp that copies scales looks tiles up, and tells the consumers where they are",
    parameters=(
        Parameter("BM", 128, (64, 128, 192), "rows of C that a block computes"),
        Parameter("BN", 128, (64, 128), "columns of C that a block computes"),
        Parameter("STAGES", 6, (4, 6, 8, 12), "pairs of tiles in shared memory"),
        Parameter("GROUP", 8, (8, 16, 32), "rows of tiles that are computed together"),
        Parameter("CLUSTER", 2, (1, 2), "blocks that share A"),
        MASKED,
    ),
    families=FAMILIES,
    tile=tile,
    depth=lambda s: ROW_BYTES,
    cluster_tiles=lambda s: (1, s["CLUSTER"]),
    plan=_grouped_fp8,
    constraints=(fits(_shared_bytes_of_fp8, ARCH),),
    model_bytes=lambda problem, s: problem.batch * tile_reuse(problem, s, fp8.precision(s)),
    needs_arch=lambda s: ARCH,
    by_type=lambda s: fp8.precision(_as_blocks(s)),
    ops=lambda s: "NT",
    multiples=lambda s: fp8.multiples(_as_blocks(s)),
    rows=_rows,
    batch=2,
    by_wgmma=True,
)
KERNELS = (GROUPED, GROUPED_FP8)
