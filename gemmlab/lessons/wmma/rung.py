"""Rung 14: tensor cores through WMMA, on pieces of 16×16 elements, of which a lane holds eight."""

from functools import partial

from gemmlab.ladder import shapes
from gemmlab.ladder.launch import single
from gemmlab.ladder.precision import HALF
from gemmlab.ladder.probes import PIECE
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings, enough_registers, whole_block
from ptxsim.architectures import WARP

HALVES_PADDING = FLOATS_PADDING = 8  # of a row; a step beside 14 has another, ROW_PAD


def _shared_bytes(s: Settings) -> int:
    """The stages, or the strips through which C leaves, whichever are larger."""
    padding = s.get("ROW_PAD", HALVES_PADDING)
    a, b = s["BM"] * (s["BK"] + padding), s["BK"] * (s["BN"] + padding)
    strips = (shapes.threads_of_warps(s) // WARP) * PIECE * (s["WN"] + FLOATS_PADDING)
    return max(s["STAGES"] * (a + b) * HALF.a.bytes, strips * HALF.accumulate.bytes)


def _is_staged(s: Settings) -> bool:
    return s["STAGES"] > 0


def _one_warp(s: Settings) -> str | None:
    if not _is_staged(s) and (s["BM"], s["BN"], s["BK"]) != (s["WM"], s["WN"], PIECE):
        return f"is one warp that shares nothing: BM = WM, BN = WN and BK = {PIECE}"
    return None


def _too_small(s: Settings) -> str | None:
    if s["BM"] % s["WM"] or s["BN"] % s["WN"] or s["BK"] < 32 or s["WM"] < 32 or s["WN"] < 64:
        return "is too small to stage: BM, BN and WN from 64, BK and WM from 32 on"
    if (s["BM"], s["BN"]) == (s["WM"], s["WN"]):
        return "is one warp to a block, which has nobody to share tiles with"
    return None


def _pieces(s: Settings) -> tuple[int, int]:
    return s["WM"] // PIECE, s["WN"] // PIECE


def _registers(s: Settings) -> int:
    down, across = _pieces(s)
    sets = 2 if _is_staged(s) else 1  # what is multiplied, and what comes next
    return 8 * down * across + 4 * (down + across) * sets


def _what_they_hold(s: Settings) -> str:
    down, across = _pieces(s)
    return f"{down}×{across} pieces of C, two columns, two rows"


RUNG = Rung(
    name="14_wmma",
    title="Tensor cores through WMMA",
    idea="a warp multiplies pieces of 16×16 with one instruction; FP16 in, FP32 sums",
    inner_loop=(("int read_stage = 0", "read_stage = next_stage"), ("}", "}")),
    parameters=(
        *shapes.block_tile((16, 64, 128), (16, 64, 128, 256), (16, 32, 64), (128, 256, 64)),
        Parameter("WM", 64, (16, 32, 64), "rows of C that a warp computes"),
        Parameter("WN", 64, (16, 64), "columns of C that a warp computes"),
        Parameter("STAGES", 3, (0, 3, 4), "pairs of tiles in shared memory; 0: none"),
    ),
    tile=shapes.tile,
    plan=single(
        "wmma_product", shapes.tiles_of_c, shapes.in_a_line(shapes.threads_of_warps), _shared_bytes
    ),
    constraints=(
        Constraint("one warp", _one_warp),
        *(
            constraint.where(_is_staged)
            for constraint in (
                Constraint("large enough to stage", _too_small),
                whole_block(shapes.threads_of_warps),
                # A tile is brought in parts, one with each PIECE of its depth.
                shapes.even_shares(
                    lambda s, side: side * PIECE // 8, "eight elements", "a part of a tile"
                ),
                enough_registers(_registers, _what_they_hold, shapes.threads_of_warps),
            )
        ),
    ),
    model_bytes=partial(shapes.tile_reuse, precision=HALF),
    needs_arch=lambda s: "sm_80" if _is_staged(s) else "sm_70",
    precision=HALF,
    planted=Planted.beside(__file__),
)
