"""Rung 05: its entry on the ladder."""

from __future__ import annotations

from gemmlab.ladder.constraints import fits
from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.shapes import (
    block_tile,
    in_a_line,
    thread_tile,
    threads_of_tiles,
    tile,
    tile_reuse,
    tiles_of_c,
)
from gemmlab.lessons.thread_tile_1d.rung import both_tiles

FITS_05 = fits(threads_of_tiles, lambda s: (s["TM"], s["TN"]), both_tiles)

RUNG = Rung(
    name="05_thread_tile_2d",
    title="A rectangle of outputs per thread",
    idea="a thread computes a rectangle, as outer products in registers",
    inner_loop=(
        ("const int x = thread", "const int y = thread"),
        ("for (int k = 0", "sums[i][j]"),
    ),
    parameters=(
        *block_tile((32, 64, 128), (32, 64, 128), (8, 16), (128, 64, 16)),
        *thread_tile(8, 4),
    ),
    tile=tile,
    plan=single("thread_tile_2d", tiles_of_c, in_a_line(threads_of_tiles)),
    constraints=FITS_05,
    model_bytes=tile_reuse,
    planted=Planted(
        old="        } else {\n            load_tile<false",
        new="        } else if (!whole) {\n            load_tile<false",
        what="a block inside of C brings nothing in the last step where K is no multiple of BK, "
        "and multiplies the tiles of the step before once more",
        kind=None,
        seen="kernel.verify() fails where a block is whole and K is no multiple of BK; "
        "kernel.check() finds nothing, for every element that is read was written once",
        hint="compare the shapes that kernel.verify() passes with those that fail: which blocks "
        "are wrong, and what is special about K?",
        settings={"BM": 32, "BN": 32, "BK": 8, "TM": 4, "TN": 4},
    ),
)
