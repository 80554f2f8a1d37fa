"""Rung 15: tensor cores through mma.sync, of elements from 8 to 32 bits."""

from gemmlab.ladder import precision as precisions
from gemmlab.ladder import shapes
from gemmlab.ladder.launch import PRODUCT, single
from gemmlab.ladder.precision import HALF, Precision
from gemmlab.ladder.probes import MMA_ROW_BYTES, MMA_SHAPE
from gemmlab.ladder.probes import MMA_TYPES as TYPES
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings, enough_registers
from gemmlab.lessons.fused_epilogue.rung import activation
from ptxsim.architectures import WARP

TYPE_NAMES = ", ".join(f"{value}: {precision.name}" for value, precision in enumerate(TYPES))
FP8 = (precisions.FP8_E4M3, precisions.FP8_E5M2)
# With OUT32.
INTO_SINGLE = {HALF: precisions.HALF_TO_SINGLE, precisions.BRAIN: precisions.BRAIN_TO_SINGLE}
CHUNK_BYTES, BANK_BYTES = 16, 128
WARPS = (4, 8)
DEFAULT_BK, DEFAULT_STAGES = 64, 4
LARGE_C, LARGE_TILE = 2048 * 2048, 128 * 128  # elements


def _precision(s: Settings) -> Precision:
    of_type = TYPES[s["DTYPE"]]
    return INTO_SINGLE.get(of_type, of_type) if s["OUT32"] else of_type


def _element_bytes(s: Settings) -> int:
    return TYPES[s["DTYPE"]].a.bytes


def _shared_bytes(s: Settings) -> int:
    """The stages. Steps on the way to 15 have PADDING chunks at the end of a tile's row."""
    padding = s.get("PADDING", 0) * CHUNK_BYTES * (s["BM"] + s["BK"])
    return s["STAGES"] * (s["BK"] * (s["BM"] + s["BN"]) * _element_bytes(s) + padding)


def _unlike_shapes(s: Settings) -> str | None:
    if s["WM"] < s["WN"]:
        return "has a warp's part wider than high: WM from WN on"
    wanted = WARPS[-1:] if s["BM"] * s["BN"] > LARGE_TILE else WARPS
    if (warps := shapes.threads_of_warps(s) // WARP) not in wanted:
        has = " or ".join(map(str, wanted))
        return f"makes {warps} warps; a block of {s['BM']}×{s['BN']} has {has}"
    return None


def _rows(s: Settings) -> str | None:
    size = _element_bytes(s)
    least = 2 * MMA_ROW_BYTES
    if s["BK"] * size < least:
        return (
            f"makes {s['BK'] * size} bytes of a row of A's tile; two mma.sync take turns, which "
            f"are {least} bytes: BK from {least // size} on"
        )
    if s["BN"] * size < BANK_BYTES:
        return (
            f"makes {s['BN'] * size} bytes of a row of B's tile, and the swizzle is made for "
            f"{BANK_BYTES}: BN from {BANK_BYTES // size} on"
        )
    if s["BK"] * size > BANK_BYTES:
        return f"makes {s['BK'] * size} bytes of a row of A's tile: BK up to {BANK_BYTES // size}"
    return None


def _chunks(s: Settings, side: int) -> int:
    return side * s["BK"] * _element_bytes(s) // CHUNK_BYTES


def _not_of_this_type(s: Settings) -> str | None:
    of_type = TYPES[s["DTYPE"]]
    if s["OUT32"] and of_type not in INTO_SINGLE:
        return f"is {of_type.name}, whose C is {of_type.c.name} already: OUT32 is for 16 bits"
    if s["BIAS"] and (of_type not in INTO_SINGLE or s["OUT32"]):
        return "has a bias, which is for C of 16 bits"
    if s["ACTIVATION"] and not s["BIAS"]:
        return "has an activation without a bias: BIAS is 1"
    if not s["SWIZZLE"] and (of_type is not HALF or s["OUT32"] or s["BIAS"]):
        return "has no swizzle, which is to be looked at in FP16"
    if s["STAGES"] != DEFAULT_STAGES and (of_type is not HALF or _other(s)):
        return f"is tried with FP16 alone: STAGES is {DEFAULT_STAGES}"
    warps = shapes.threads_of_warps(s) // WARP
    if warps < WARPS[-1] and s["BM"] != s["BN"] and (of_type is not HALF or _other(s)):
        return f"makes {warps} warps of an oblong block, which is tried with FP16 alone"
    if s["BK"] != DEFAULT_BK and (s["OUT32"] or s["BIAS"]):
        return f"is tried with C as A alone: BK is {DEFAULT_BK}"
    return None


def _other(s: Settings) -> bool:
    """Whether something but the tiles differs from the default."""
    return bool(s["OUT32"] or s["BIAS"] or not s["SWIZZLE"])


def _swept(problem: Problem, s: Settings) -> bool:
    """Small tiles where they make enough blocks, large ones where there are enough of them.

    Fewer of other types than of FP16. Where rows are no multiples of 16 bytes, no more stages than
    are needed without asynchronous copies, and nothing of 8 bits, which cuBLASLt does not take.
    """
    large, size = problem.m * problem.n >= LARGE_C, _element_bytes(s)
    if (s["BM"] * s["BN"] >= LARGE_TILE) != large or s["BM"] > problem.m:
        return False
    aligned = problem.k * size % CHUNK_BYTES == problem.n * size % CHUNK_BYTES == 0
    if not aligned and (s["STAGES"] > DEFAULT_STAGES or size == 1):
        return False
    if s["DTYPE"] == 0:
        return True
    if large:
        return s["BM"] > 64
    return s["BK"] * size == BANK_BYTES and s["WM"] == s["WN"] and s["BM"] < problem.m


def _pieces(s: Settings) -> tuple[int, int]:
    return s["WM"] // MMA_SHAPE[0], s["WN"] // MMA_SHAPE[1]


def _registers(s: Settings) -> int:
    down, across = _pieces(s)
    return 4 * down * across + 2 * (4 * down + 2 * across)  # what is multiplied, what comes next


def _what_they_hold(s: Settings) -> str:
    down, across = _pieces(s)
    return f"{down}×{across} pieces of C, fragments of two steps"


RUNG = Rung(
    name="15_mma_sync",
    title="Tensor cores through mma.sync",
    idea="ldmatrix from swizzled tiles, operands a step ahead, C from registers",
    inner_loop=(("for (int k_left", "write_stage = write_stage =="), ("}", "}")),
    parameters=(
        *shapes.block_tile((64, 128), (64, 128, 256), (16, 32, 64, 128), (128, 256, DEFAULT_BK)),
        Parameter("WM", 64, (32, 64), "rows of C that a warp computes"),
        Parameter("WN", 64, (32, 64), "columns of C that a warp computes"),
        Parameter("STAGES", DEFAULT_STAGES, (3, 4, 6), "pairs of tiles in shared memory"),
        Parameter("DTYPE", 0, tuple(range(len(TYPES))), TYPE_NAMES, tuned=False),
        Parameter("OUT32", 0, (0, 1), "1: C is float32 where A and B are of 16 bits", tuned=False),
        Parameter("BIAS", 0, (0, 1), "1: with a bias for each column", tuned=False),
        activation(0),
        Parameter("SWIZZLE", 1, (0, 1), "0: rows of tiles lie as they are", tuned=False),
    ),
    tile=shapes.tile,
    plan=single(
        "mma_product",
        shapes.tiles_of_c,
        shapes.in_a_line(shapes.threads_of_warps),
        _shared_bytes,
        (*PRODUCT, "bias"),
    ),
    constraints=(
        Constraint("shapes", _unlike_shapes),
        Constraint("types", _not_of_this_type),
        Constraint("rows of tiles", _rows),
        shapes.even_shares(_chunks, f"{CHUNK_BYTES} bytes"),
        shapes.fits(_shared_bytes, "sm_90"),  # which has the most
        enough_registers(_registers, _what_they_hold, shapes.threads_of_warps),
    ),
    model_bytes=lambda problem, s: shapes.tile_reuse(problem, s, _precision(s)),
    needs_arch=lambda s: "sm_89" if TYPES[s["DTYPE"]] in FP8 else "sm_80",
    precision=HALF,
    by_type=_precision,
    tuned_shapes=((1024, 1024, 512), (64, 4096, 4096)),
    swept=_swept,
    computed=tuple({"DTYPE": number} for number in range(len(TYPES))),
    takes_bias=lambda s: s["BIAS"] == 1,
    planted=Planted.beside(__file__),
)
