"""What gl.matmul takes over all shapes: its recorded share of cuBLAS, and which rung where."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from gemmlab.ladder import SINGLE, Problem
from gemmlab.ladder.problem import GROUPS
from gemmlab.products import choosing
from gemmlab.records.registry import NoRecord, again, of_one_gpu

if TYPE_CHECKING:
    import pandas

LARGE = "large"  # the group of what is recorded beside the shape set
SQUARES = tuple(2**power for power in range(4, 15))  # M = N
DEPTHS = tuple(2**power for power in range(4, 17))  # K
SIDES = tuple(2**power for power in range(15))  # M, N
DEPTH = 4096
SQUARE_C, OF_ONE_DEPTH = "square C", f"K = {DEPTH}"


def shares(dtype: str = SINGLE.name) -> pandas.DataFrame:
    """What gl.choose takes of a type at every recorded shape, A and B as they are, by groups.

    Of one GPU, see registry.of_one_gpu. Columns: group, kernel, settings, dtype, m, n, k, batch,
    tflops, pct_cublas, gpu, recorded. Raises NoRecord where nothing is recorded, BadRecord.
    """
    import pandas

    taken = of_one_gpu(partial(_taken, dtype))
    group_of = {problem: group for group, problems in GROUPS.items() for problem in problems}
    order = {problem: at for at, problem in enumerate(group_of)}
    groups = [*(group for group in GROUPS if group != "batches"), LARGE, "batches"]
    rows = []
    for problem in sorted(taken, key=lambda one: (order.get(one, len(order)), one.flop)):
        row = taken[problem]
        rows.append({
            "group": group_of.get(problem, LARGE), "kernel": row.rung.name,
            "settings": row.settings, "dtype": row.dtype,
            "m": problem.m, "n": problem.n, "k": problem.k,
            "batch": problem.batch, "tflops": row.tflops,
            "pct_cublas": 100 * row.share, "gpu": row.gpu, "recorded": row.recorded,
        })  # fmt: skip
    table = pandas.DataFrame(rows)
    return table.sort_values("group", key=lambda names: names.map(groups.index), kind="stable")


def _taken(dtype: str) -> dict[Problem, choosing.Row]:
    if found := choosing.taken(dtype):
        return found
    raise NoRecord(
        f"nothing is recorded of gl.matmul in {dtype}; {again('best_by_shape')} on a GPU."
    )


def rungs() -> pandas.DataFrame:
    """What gl.choose takes on two grids of shapes: square C over K, and M over N at one K.

    Columns: panel (SQUARE_C or OF_ONE_DEPTH), m, n, k, kernel, settings, recorded: whether a rung
    was measured at this very shape. Raises BadRecord.
    """
    import pandas

    measured = {row.problem for row in choosing.recorded()}
    return pandas.DataFrame(
        {
            "panel": panel, "m": problem.m, "n": problem.n, "k": problem.k,
            "kernel": (chosen := choosing.choose(problem)).rung,
            "settings": tuple(chosen.settings.items()), "recorded": problem in measured,
        }
        for panel, problem in _grids()
    )  # fmt: skip


def _grids() -> Iterator[tuple[str, Problem]]:
    for k in DEPTHS:
        yield from ((SQUARE_C, Problem(side, side, k)) for side in SQUARES)
    for m in SIDES:
        yield from ((OF_ONE_DEPTH, Problem(m, n, DEPTH)) for n in SIDES)
