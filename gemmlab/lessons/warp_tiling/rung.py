"""Rung 08: its entry on the ladder."""

from collections.abc import Callable

from gemmlab.ladder import shapes
from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Constraint, Number, Parameter, Settings, fits


def warp_tile(default_rows: int, default_columns: int) -> tuple[Parameter, ...]:
    return (
        Parameter("WM", default_rows, (32, 64), "rows of C that a warp computes"),
        Parameter("WN", default_columns, (32, 64), "columns of C that a warp computes"),
    )


def _even_shares(threads: Number, each: int, of_what: str) -> Constraint:
    """The threads bring as many groups of `each` elements of a tile of A, and of B."""

    def broken(s: Settings) -> str | None:
        count = threads(s)
        for matrix, side in (("A", "BM"), ("B", "BN")):
            groups = s[side] * s["BK"] // each
            if groups % count:
                return (
                    f"makes {count} threads per block, but a tile of {matrix} has {groups} groups "
                    f"of {of_what}: no multiple of that"
                )
        return None

    return Constraint("even shares", broken)


def warps_fit(
    buffers: Callable[[Settings], int], blocks: Callable[[Settings], int]
) -> tuple[Constraint, ...]:
    """`buffers`: pairs of tiles in shared memory; `blocks`: how many are to run on an SM."""
    return (
        _even_shares(shapes.threads_of_warps, 4, "four floats"),
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
