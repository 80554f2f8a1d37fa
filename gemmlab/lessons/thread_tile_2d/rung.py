"""Rung 05: its entry on the ladder."""

from gemmlab.ladder import shapes
from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import fits
from gemmlab.lessons.thread_tile_1d.rung import both_tiles

FITS_05 = fits(shapes.threads_of_tiles, lambda s: (s["TM"], s["TN"]), both_tiles)

RUNG = Rung(
    name="05_thread_tile_2d",
    title="A rectangle of outputs per thread",
    idea="a thread computes a rectangle, as outer products in registers",
    inner_loop=(
        ("const int thread_n = thread", "const int thread_m = thread"),
        ("for (int k = 0", "accumulators[i][j]"),
    ),
    parameters=(
        *shapes.block_tile((32, 64, 128), (32, 64, 128), (8, 16), (128, 64, 16)),
        *shapes.thread_tile(8, 4),
    ),
    tile=shapes.tile,
    plan=single("thread_tile_2d", shapes.tiles_of_c, shapes.in_a_line(shapes.threads_of_tiles)),
    constraints=FITS_05,
    model_bytes=shapes.tile_reuse,
    planted=Planted.beside(__file__),
)
