"""Who computes which tile of C, and which stages of it, where blocks stay and share what is left.

The schedule is what stream_k.cuh computes, run in the simulator; nothing is multiplied.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas

import ptxsim
from gemmlab.cuda.options import options_for
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Workspace
from gemmlab.lessons.split_k.work import Part, Work

NUMBERS = 4  # of a part: its tile's first row and column, its first stage, the one after
SCHEDULE = Path(__file__).with_name("schedule.cu")


def sharing(kernel: Kernel, m: int, n: int, k: int, sm_count: int) -> Work:
    """What each block of an m×n×k product does, a block for each of `sm_count` SMs.

    kernel: of 22_fp32_summit. A step of the Work is a stage of BK.
    """
    blocks = kernel.scheduled_for(sm_count).grid(m, n, k)[0]
    (rows, columns), depth = kernel.rung.tile(kernel.settings), kernel.settings["BK"]
    tiles, stages = (-(-m // rows), -(-n // columns)), max(1, -(-k // depth))
    most = -(-tiles[0] * tiles[1] // blocks) + 2  # a cut at both ends of a share
    numbers, counts = np.full((blocks, most, NUMBERS), -1, np.int32), np.zeros(blocks, np.int32)
    ptxsim.launch(
        SCHEDULE, "schedule", (blocks, 1, 1), (1, 1, 1), [numbers, counts, most, m, n, k],
        options=options_for(kernel.settings),
    )  # fmt: skip
    parts = []
    for block in range(blocks):
        start = 0
        for top, left, first, end in numbers[block, : counts[block]].tolist():
            tile = top // rows, left // columns
            parts.append(Part((block, 0, 0), tile, first, end, block, start))
            start = parts[-1].stop
    return Work((m, n, k), sm_count, tiles, stages, tuple(parts))


def idle(
    kernels: dict[str, Kernel], shapes: Iterable[tuple[int, int, int]], sm_count: int
) -> pandas.DataFrame:
    """How much of the SMs' time they have nothing to do, if all stages take as long.

    A row for each (M, N, K) and kernel. most stages: of an SM, until the last one is done.
    workspace: for the sums of parts.
    """
    rows = []
    for shape in shapes:
        for name, kernel in kernels.items():
            work = sharing(kernel, *shape, sm_count)
            launch = kernel.scheduled_for(sm_count).launches(kernel.problem(*shape))[0]
            workspace_bytes = sum(arg.bytes for arg in launch.args if isinstance(arg, Workspace))
            parts_of = Counter(part.tile for part in work.parts)
            shared = sum(count > 1 for count in parts_of.values())
            rows.append({
                "M×N×K": "×".join(map(str, shape)), "blocks": name,
                "tiles": work.tiles[0] * work.tiles[1], "most stages": work.length,
                "idle, %": round(100 * (1 - work.busy), 1), "cut tiles": shared,
                "workspace, MB": round(workspace_bytes / 1e6, 2) if shared else 0.0,
            })  # fmt: skip
    return pandas.DataFrame(rows)
