"""Rung 08: its entry on the ladder."""

from collections.abc import Callable

from gemmlab.ladder import shapes
from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings, fits


def warp_tile(default_rows: int, default_columns: int) -> tuple[Parameter, ...]:
    return (
        Parameter("WM", default_rows, (32, 64), "rows of C that a warp computes"),
        Parameter("WN", default_columns, (32, 64), "columns of C that a warp computes"),
    )


def warps_fit(
    buffers: Callable[[Settings], int], blocks: Callable[[Settings], int]
) -> tuple[Constraint, ...]:
    """`buffers`: pairs of tiles in shared memory; `blocks`: how many are to run on an SM."""
    return (
        shapes.even_shares(lambda s, side: side * s["BK"] // 4, "four floats"),
        *fits(
            shapes.threads_of_warps,
            lambda s: (s["WM"] // 4, s["WN"] // 8),
            # Rows of A's tile are padded.
            lambda s: buffers(s) * s["BK"] * (s["BM"] + 4 + s["BN"]),
            blocks,
        ),
    )


RUNG = Rung(
    name="08_warp_tiling",
    title="Warp tiling",
    idea="a tile for each level: block, warp, thread; lanes share operands",
    inner_loop=(
        ("const int lane_n", "const int thread_n"),
        ("float fragment_a", "*(float4*)&fragment_b"),
    ),
    parameters=(
        *shapes.block_tile((64, 128), (64, 128, 256), (8, 16), (128, 128, 8)),
        *warp_tile(64, 64),
        Parameter("MIN_BLOCKS", 1, (1, 2, 3), "blocks that must fit on one SM"),
    ),
    tile=shapes.tile,
    plan=single("warp_tiling", shapes.tiles_of_c, shapes.in_a_line(shapes.threads_of_warps)),
    constraints=warps_fit(lambda s: 1, lambda s: s["MIN_BLOCKS"]),
    model_bytes=shapes.tile_reuse,
)
