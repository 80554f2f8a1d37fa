"""Rungs 08 and 09: tiles of warps, and the next tiles on their way."""

from __future__ import annotations

from collections.abc import Callable

from gemmlab.ladder.constraints import Constraint, even_shares, fits
from gemmlab.ladder.launch import single
from gemmlab.ladder.planted import Planted
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.rungs.shapes import (
    block_tile,
    in_a_line,
    threads_of_warps,
    tile,
    tile_reuse,
    tiles_of_c,
)
from gemmlab.ladder.settings import Parameter, Settings


def _warp_tile(default_rows: int, default_columns: int) -> tuple[Parameter, ...]:
    return (
        Parameter("WM", default_rows, (32, 64), "rows of C that a warp computes"),
        Parameter("WN", default_columns, (32, 64), "columns of C that a warp computes"),
    )


def _warps_fit(
    buffers: Callable[[Settings], int], blocks: Callable[[Settings], int]
) -> tuple[Constraint, ...]:
    """`buffers`: pairs of tiles in shared memory; `blocks`: how many are to run on an SM."""
    return (
        even_shares(threads_of_warps, 4, "four floats"),
        *fits(
            threads_of_warps,
            lambda s: (s["WM"] // 4, s["WN"] // 8),
            # Rows of A's tile are padded.
            lambda s: buffers(s) * s["BK"] * (s["BM"] + 4 + s["BN"]),
            blocks,
        ),
    )


WARP_TILING = Rung(
    name="08_warp_tiling",
    title="Warp tiling",
    idea="block, warp, thread: a level between, and lanes that read the same",
    inner_loop=(
        ("const int across", "const int x"),
        ("float a_column", "*(float4*)&b_row"),
    ),
    parameters=(
        *block_tile((64, 128), (64, 128, 256), (8, 16), (128, 128, 8)),
        *_warp_tile(64, 64),
        Parameter("MIN_BLOCKS", 1, (1, 2, 3), "blocks that shall fit on one SM"),
    ),
    tile=tile,
    plan=single("warp_tiling", tiles_of_c, in_a_line(threads_of_warps)),
    constraints=_warps_fit(lambda s: 1, lambda s: s["MIN_BLOCKS"]),
    model_bytes=tile_reuse,
)

DOUBLE_BUFFERING = Rung(
    name="09_double_buffering",
    title="Double buffering",
    idea="the next tiles on their way while these are multiplied",
    inner_loop=(("for (int tile_k", "}"),),
    parameters=(
        *block_tile((64, 128), (64, 128, 256), (8, 16), (128, 128, 8)),
        *_warp_tile(32, 64),
        Parameter("STAGES", 1, (1, 2, 3, 4), "1: through registers; else buffers for cp.async"),
    ),
    tile=tile,
    plan=single("double_buffering", tiles_of_c, in_a_line(threads_of_warps)),
    constraints=_warps_fit(lambda s: max(2, s["STAGES"]), lambda s: 1),
    model_bytes=tile_reuse,
    needs_arch=lambda s: "sm_80" if s["STAGES"] > 1 else "",
    planted=Planted(
        old="wait_for_copies<STAGES - 2>",
        new="wait_for_copies<STAGES - 1>",
        what="STAGES - 1 groups may still be on the way after this wait, the stage that is "
        "multiplied next among them; at most STAGES - 2 may be",
        kind="read of a copy in flight",
        seen="kernel.check() sees the read of a copy in flight, and in the simulator, where copies "
        "arrive as late as they may, kernel.verify() fails too",
        hint="kernel.check() names the line that reads too early and the one that started the "
        "copy. Which line should have made sure that it has arrived?",
        settings={"BM": 64, "BN": 64, "WM": 32, "WN": 32, "STAGES": 3},
    ),
)

RUNGS = (WARP_TILING, DOUBLE_BUFFERING)
