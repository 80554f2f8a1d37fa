"""What the blocks that stay need of A and B in each of their rounds, at any size of product.

The order of the tiles is what warpgroup_tiles.cuh computes, run in the simulator; nothing
is multiplied. schedule.py has the same from the copies of whole products, which must be small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import ptxsim
from gemmlab import ladder
from gemmlab.cuda.options import options_for
from gemmlab.ladder import Problem, Settings, Target

if TYPE_CHECKING:
    import pandas

PERSISTENT = ladder.find("18_persistent")
THREADS = 128
PLACES = """
#include "warpgroup_tiles.cuh"

extern "C" __global__ void places(int* rows, int* columns, int count, int down, int across,
                                  int group)
{
    const int number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= count) return;
    const Corner place = tile_at(number, down, across, group);
    rows[number] = place.row;
    columns[number] = place.col;
}
"""


def order(settings: Settings, m: int, n: int) -> np.ndarray:
    """int (tiles, 2): row and column of each cluster's tile, by its number, counted in such tiles.

    settings: of 18_persistent, whose blocks go through them so.
    """
    down, across = (-(-end // size) for end, size in zip((m, n), _size(settings), strict=True))
    rows, columns = np.full((2, down * across), -1, np.int32)
    group = -(-settings["GROUP"] // PERSISTENT.cluster_tiles(settings)[0])
    ptxsim.launch(
        PLACES, "places", (-(-rows.size // THREADS), 1, 1), (THREADS, 1, 1),
        [rows, columns, rows.size, down, across, group], options=options_for({}),
    )  # fmt: skip
    return np.stack([rows, columns], axis=1)


def needs(settings: Settings, m: int, n: int, k: int, sm_count: int) -> pandas.DataFrame:
    """Of each round: how many tiles it has, and what of A and B its blocks need and ask for.

    settings: of 18_persistent; sm_count: of the GPU.
    Columns: tiles; rows of A and columns of B, each counted once; GB needed, those times K; GB
    asked for, by all blocks together, boxes for a whole cluster once.
    """
    import pandas

    together, size = settings["CLUSTER"], _size(settings)
    (launch,) = PERSISTENT.launches(Problem(m, n, k), settings, Target("sm_90a", sm_count))
    clusters = launch.grid[0] // together
    bytes_of_k = k * PERSISTENT.precision_of(settings).a.bytes
    every = order(settings, m, n)
    rows = []
    for first in range(0, len(every), clusters):
        some = every[first : first + clusters]
        needed = [_covered(np.unique(some[:, axis]), size[axis], (m, n)[axis]) for axis in (0, 1)]
        rows.append({
            "tiles": len(some) * together, "rows of A": needed[0], "columns of B": needed[1],
            "GB needed": sum(needed) * bytes_of_k / 1e9,
            "GB asked for": len(some) * sum(size) * bytes_of_k / 1e9,
        })  # fmt: skip
    return pandas.DataFrame(rows, index=pandas.RangeIndex(len(rows), name="round"))


def _size(settings: Settings) -> tuple[int, int]:
    """Rows and columns of a whole cluster's tile."""
    down, across = PERSISTENT.cluster_tiles(settings)
    return settings["BM"] * down, settings["BN"] * across


def _covered(tiles: np.ndarray, size: int, end: int) -> int:
    """Rows, or columns, of these tiles that lie in the matrix."""
    return int(np.minimum(size, end - tiles * size).sum())
