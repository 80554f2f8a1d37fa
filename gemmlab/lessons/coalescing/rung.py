"""Rung 02: its entry on the ladder."""

from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.naive.rung import CONSTRAINTS, block, block_xy, no_reuse

RUNG = Rung(
    name="02_coalescing",
    title="Coalescing",
    idea="the same, with the warp along a row",
    inner_loop=(("const int row", "if (row"), ("float sum", "* B")),
    parameters=block_xy("along the columns of C", "down the rows of C"),
    tile=lambda s: (s["BLOCK_Y"], s["BLOCK_X"]),
    plan=single(
        "coalescing",
        lambda m, n, s: (ceil_div(n, s["BLOCK_X"]), ceil_div(m, s["BLOCK_Y"]), 1),
        block,
    ),
    constraints=CONSTRAINTS,
    model_bytes=no_reuse,
    planted=Planted.beside(__file__),
)
