"""Kernel 24, grouped products: no step of the ladder, for it needs a B for each product."""

import numpy as np

from gemmlab.ladder.launch import Launch, MapOf, Target
from gemmlab.ladder.precision import BRAIN, HALF
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Constraint, IllegalSetting, Parameter, Settings
from gemmlab.ladder.shapes import fits, ops, tile, tile_reuse
from gemmlab.lessons.tma_wgmma.rung import (
    ARCH,
    BARRIER_BYTES,
    GROUP_ROWS,
    GROUP_THREADS,
    MAP_ALIGNMENT,
    SQUARE,
    SQUARE_BYTES,
    WHAT,
    parameters,
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
    return (LIMITS[base(ARCH)].dynamic_shared_bytes - _shared_bytes(s)) // INDEX_BYTES


def blocks(s: Settings, sm_count: int) -> int:
    """As many as run at a time: nobody knows beforehand how many tiles there are."""
    return s["MIN_BLOCKS"] * sm_count


def _grouped(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    if not problem.k or problem.n % WHOLE or problem.k % WHOLE:
        raise IllegalSetting(
            f"24_grouped takes an N and a K that are multiples of {WHOLE} and not 0, not "
            f"N={problem.n} and K={problem.k}"
        )
    if problem.batch > (most := most_products(s)):
        raise IllegalSetting(
            f"24_grouped with STAGES={s['STAGES']} has room for {most} products in shared memory, "
            f"not {problem.batch}: choose fewer STAGES"
        )
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


GROUPED = Rung(
    name="24_grouped",
    title="Grouped products",
    idea="each block numbers the tiles of all products, whose heights the device alone knows",
    inner_loop=(
        ("// By a warp: how many tiles", "if (lane == 31)"),
        ("// The tile of this number", "rows_of_product - at.row * BM};"),
    ),
    inner_loop_in="products.cuh",
    parameters=(
        *parameters((2, 3, 4, 5, 6, 8)),
        Parameter("MIN_BLOCKS", 1, (1, 2), "blocks that fit on an SM"),
        Parameter(
            "SEND_LATER", 1, (0, 1), "1: C is stored while the next tile is multiplied", tuned=False
        ),
        Parameter(
            "MASKED", 0, (0, 1), "1: each product has room for M rows, and uses some", tuned=False
        ),
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
KERNELS = (GROUPED,)
