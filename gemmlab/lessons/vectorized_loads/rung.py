"""Rung 06: its entry on the ladder."""

from gemmlab.ladder import shapes
from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Rung
from gemmlab.lessons.thread_tile_2d.rung import FITS_05

RUNG = Rung(
    name="06_vectorized_loads",
    title="Vectorized loads",
    idea="16 bytes with every load; A staged transposed",
    inner_loop=(("const float4 values", "a[k + 3]"), ("float fragment_a", "*(float4*)&fragment_b")),
    parameters=(
        *shapes.block_tile((64, 128), (64, 128), (8, 16), (128, 128, 16)),
        *shapes.thread_tile(8, 8),
    ),
    tile=shapes.tile,
    plan=single("vectorized_loads", shapes.tiles_of_c, shapes.in_a_line(shapes.threads_of_tiles)),
    constraints=FITS_05,
    model_bytes=shapes.tile_reuse,
)
