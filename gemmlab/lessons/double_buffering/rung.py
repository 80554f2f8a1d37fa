"""Rung 09: its entry on the ladder."""

from gemmlab.ladder import shapes
from gemmlab.ladder.launch import single
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Parameter
from gemmlab.lessons.warp_tiling.rung import warp_tile, warps_fit

RUNG = Rung(
    name="09_double_buffering",
    title="Double buffering",
    idea="the next tiles are loaded while these are multiplied",
    inner_loop=(("for (int tile_k", "}"),),
    parameters=(
        *shapes.block_tile((64, 128), (64, 128, 256), (8, 16), (128, 128, 8)),
        *warp_tile(32, 64),
        Parameter("STAGES", 1, (1, 2, 3, 4), "1: through registers; else buffers for cp.async"),
    ),
    tile=shapes.tile,
    plan=single("double_buffering", shapes.tiles_of_c, shapes.in_a_line(shapes.threads_of_warps)),
    constraints=warps_fit(lambda s: max(2, s["STAGES"]), lambda s: 1),
    model_bytes=shapes.tile_reuse,
    needs_arch=lambda s: "sm_80" if s["STAGES"] > 1 else "",
    planted=Planted.beside(__file__),
)
