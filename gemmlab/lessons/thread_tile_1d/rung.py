"""Rung 04: its entry on the ladder."""

from gemmlab.ladder import shapes
from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Parameter, Settings, fits


def _threads_04(s: Settings) -> int:
    return s["BM"] * s["BN"] // s["TM"]


def both_tiles(s: Settings) -> int:
    """Floats of a tile of A and one of B."""
    return s["BK"] * (s["BM"] + s["BN"])


RUNG = Rung(
    name="04_thread_tile_1d",
    title="A column of outputs per thread",
    idea="a thread computes a column of outputs",
    inner_loop=(
        ("const int thread_n = thread", "const int thread_m = thread"),
        ("float accumulators[TM]", "for (int tile_k"),
        ("__syncthreads", "__syncthreads("),
    ),
    parameters=(
        *shapes.block_tile((32, 64, 128), (32, 64, 128), (8, 16, 32), (32, 64, 16)),
        Parameter("TM", 16, (4, 8, 16), "rows of C that a thread computes"),
    ),
    tile=shapes.tile,
    plan=single("thread_tile_1d", shapes.tiles_of_c, shapes.in_a_line(_threads_04)),
    constraints=fits(_threads_04, lambda s: (s["TM"], 1), both_tiles),
    model_bytes=shapes.tile_reuse,
)
