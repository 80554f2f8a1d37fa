"""Rung 07: its entry on the ladder."""

from gemmlab.ladder import shapes
from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings, fits


def _threads_07(s: Settings) -> int:
    return (s["BM"] // 8) * (s["BN"] // 8)


def _cured_twice(s: Settings) -> str | None:
    if s["PAD"] and s["SWIZZLE"]:
        return "cures the same conflict twice: set PAD or SWIZZLE to 0"
    return None


RUNG = Rung(
    name="07_bank_conflicts",
    title="Bank conflicts, three cures",
    idea="padding, a swizzle and split columns against conflicts, counted",
    inner_loop=(
        ("#define SWIZZLED(k, row) ((row) ^", "#define SWIZZLED(k, row) ((row) ^"),
        ("#define THREAD_N(slot, q) ((slot) * 4", "#define THREAD_N(slot, q) ((slot) * 4"),
        ("const float4 values", "a[k + 3]"),
        ("float fragment_a", "*(float4*)&fragment_b"),
    ),
    parameters=(
        *shapes.block_tile((64, 128), (64, 128), (8, 16), (128, 128, 16)),
        Parameter("PAD", 0, (0, 4), "unused floats at the end of a row of A's tile"),
        Parameter("SWIZZLE", 1, (0, 1), "1: exchange columns of A's tile by an XOR"),
        Parameter("SPLIT", 1, (0, 1), "1: a thread's columns in two sets of four"),
    ),
    tile=shapes.tile,
    plan=single("bank_conflicts", shapes.tiles_of_c, shapes.in_a_line(_threads_07)),
    constraints=(
        Constraint("one cure for A", _cured_twice),
        *fits(_threads_07, lambda s: (8, 8), lambda s: s["BK"] * (s["BM"] + s["PAD"] + s["BN"])),
    ),
    model_bytes=shapes.tile_reuse,
)
