"""A kernel of gl.matmul besides the rungs: INT8 and TF32, in the way of 18."""

from gemmlab.ladder.launch import Launch, MapOf, Target
from gemmlab.ladder.precision import INTEGER, TF32, Precision
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings
from gemmlab.ladder.shapes import ceil_div, fits, ops, tile, tile_reuse
from gemmlab.lessons.tma_wgmma.rung import (
    ARCH,
    BARRIER_BYTES,
    GROUP_ROWS,
    GROUP_THREADS,
    MAP_ALIGNMENT,
    ROW_BYTES,
    clusters_for,
    require_maps,
    stages_bytes,
)

TYPES = {2: TF32, 3: INTEGER}  # by the value of DTYPE
BOX = 32  # rows and columns of a box of C, and of B stored K×N

# Of all that were timed on an NVIDIA H200, those that were the fastest somewhere, or near it.
FAMILIES = tuple(
    dict(zip(("BM", "BN", "STAGES", "CLUSTER"), values, strict=True))
    for values in (
        (128, 256, 4, 2), (128, 256, 4, 1), (128, 192, 4, 2), (256, 128, 4, 1), (256, 128, 4, 2),
        (128, 128, 6, 1), (64, 128, 8, 2), (128, 64, 8, 1), (64, 64, 8, 1),
    )
)  # fmt: skip
WIDE, _, NARROWER, TALL, _, MIDDLE, FLAT, UPRIGHT, SMALL = FAMILIES


def _precision(s: Settings) -> Precision:
    return TYPES[s["DTYPE"]]


def _consumers(s: Settings) -> int:
    """Warpgroups that multiply: 64 rows of C each, or where B is stored K×N, 64 columns."""
    return (s["BM"] if s["OP_B"] else s["BN"]) // GROUP_ROWS


def _shared_bytes(s: Settings) -> int:
    """Stages, pieces of C of each warpgroup on their way out, two mbarriers a stage."""
    pieces = (s["BN"] if s["OP_B"] else s["BM"]) // BOX
    buffers = 2 if pieces % 2 == 0 and _consumers(s) <= 2 else 1
    barriers = 2 * BARRIER_BYTES * s["STAGES"]
    return stages_bytes(s) + _consumers(s) * buffers * 2 * BOX * ROW_BYTES + barriers


def _plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    require_maps("18_int8_tf32", problem, *_multiples(s))
    together, integers = s["CLUSTER"], _precision(s) is INTEGER
    wide, element = ROW_BYTES // _precision(s).a.bytes, "" if integers else "tf32"
    tiles = ceil_div(problem.m, s["BM"] * together) * ceil_div(problem.n, s["BN"])
    clusters = clusters_for(tiles, target.sm_count, together)
    box_of_b = (s["BN"] // together, wide) if s["OP_B"] else (BOX, BOX)
    return [
        Launch(
            "int8_tf32", (clusters * together, 1, 1), (GROUP_THREADS * (_consumers(s) + 1), 1, 1),
            _shared_bytes(s), (together, 1, 1), (
                MapOf("A", (s["BM"], wide), "128B", element), MapOf("B", box_of_b, "128B", element),
                MapOf("C", (BOX, BOX), "128B"), "C", "M", "N", "K",
                *(() if integers else ("alpha", "beta")),
            ), early=True,
        )
    ]  # fmt: skip


def _multiples(s: Settings) -> tuple[int, int]:
    """Rows of A, of B and of C are whole 16 bytes."""
    return MAP_ALIGNMENT // _precision(s).c.bytes, MAP_ALIGNMENT // _precision(s).a.bytes


def _suited(problem: Problem, s: Settings) -> Settings:
    """By the number of squares of 64×64 in C: what was the fastest at shapes with about as many."""
    squares = ceil_div(problem.m, GROUP_ROWS) * ceil_div(problem.n, GROUP_ROWS)
    if problem.m <= GROUP_ROWS:
        return SMALL
    if squares <= 264:
        return FLAT if s["OP_B"] else UPRIGHT
    if squares <= (2048 if _precision(s) is INTEGER else 528):
        return MIDDLE
    return WIDE if s["OP_B"] else TALL


def _stored_along_k(s: Settings) -> str | None:
    if not s["OP_B"] and _precision(s) is INTEGER:
        return "takes B stored along K, N×K: OP_B is 1"
    return None


def _columns_of_consumers(s: Settings) -> str | None:
    if not s["OP_B"] and s["BN"] > 128:
        return f"has two warpgroups for 128 columns of a B stored K×N, not {s['BN']}: BN up to 128"
    return None


KERNELS = (
    Rung(
        name="18_int8_tf32",
        title="INT8 and TF32 by wgmma",
        idea="18 for types that wgmma reads along K alone; B stored otherwise comes in registers",
        parameters=(
            Parameter("BM", 128, (64, 128, 256), "rows of C that a block computes"),
            Parameter("BN", 256, (64, 128, 192, 256), "columns of C that a block computes"),
            Parameter("STAGES", 4, (4, 6, 8), "pairs of tiles in shared memory"),
            Parameter("GROUP", 16, (8, 16), "rows of tiles that are computed together"),
            Parameter("CLUSTER", 2, (1, 2), "blocks that share B"),
            Parameter("OP_B", 1, (0, 1), "B: 0 as it is, 1 stored transposed", tuned=False),
            Parameter("DTYPE", 3, tuple(TYPES), "A and B: 2 TF32, 3 INT8", tuned=False),
        ),
        families=FAMILIES,
        tile=tile,
        depth=lambda s: ROW_BYTES // _precision(s).a.bytes,
        cluster_tiles=lambda s: (s["CLUSTER"], 1),
        plan=_plan,
        multiples=_multiples,
        constraints=(
            fits(_shared_bytes, ARCH),
            Constraint("B along K", _stored_along_k),
            Constraint("columns of warpgroups", _columns_of_consumers),
        ),
        model_bytes=lambda problem, s: tile_reuse(problem, s, _precision(s)),
        needs_arch=lambda s: ARCH,
        precision=INTEGER,
        by_type=_precision,
        ops=lambda s: ops({"OP_A": 0, **s}),
        by_wgmma=True,
        suited=_suited,
    ),
)
