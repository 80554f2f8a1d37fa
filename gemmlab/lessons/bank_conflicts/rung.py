"""Rung 07: its entry on the ladder."""

from __future__ import annotations

from gemmlab.ladder import shapes
from gemmlab.ladder.constraints import Constraint, fits
from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Parameter, Settings


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
        ("#define PLACE(k, row) ((row) ^", "#define PLACE(k, row) ((row) ^"),
        (
            "#define MY_COLUMNS(slot, group) ((slot) * 4",
            "#define MY_COLUMNS(slot, group) ((slot) * 4",
        ),
        ("const float4 four", "a[k + 3]"),
        ("float a_column", "*(float4*)&b_row"),
    ),
    parameters=(
        *shapes.block_tile((64, 128), (64, 128), (8, 16), (128, 128, 16)),
        Parameter("PAD", 0, (0, 4), "floats left free at the end of a row of A's tile"),
        Parameter("SWIZZLE", 1, (0, 1), "1: exchange columns of A's tile by an XOR"),
        Parameter("SPLIT", 1, (0, 1), "1: a thread's columns in two groups of four"),
    ),
    tile=shapes.tile,
    plan=single("bank_conflicts", shapes.tiles_of_c, shapes.in_a_line(_threads_07)),
    constraints=(
        Constraint("one cure for A", _cured_twice),
        *fits(_threads_07, lambda s: (8, 8), lambda s: s["BK"] * (s["BM"] + s["PAD"] + s["BN"])),
    ),
    model_bytes=shapes.tile_reuse,
)
