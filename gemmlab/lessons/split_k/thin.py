"""Products with few rows or columns of C, from records: held against the roof of the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.ladder import SINGLE, Problem
from gemmlab.records import best_by_shape, roofs

if TYPE_CHECKING:
    import pandas

MIB = 2**20


def under_the_copy_roof(name: str, most: int) -> pandas.DataFrame:
    """The rung where M or N is at most `most`, A and B as they are, a row for each M×N×K.

    What moving A, B and C once makes at the recorded speed, in TB/s, and in percent of what a copy
    reaches; operations for each byte of it; and the share of cuBLAS. Raises what
    best_by_shape.tuned and roofs.recorded_ceilings raise.
    """
    import pandas

    table, roof = best_by_shape.tuned(name), roofs.recorded_ceilings()
    rows = {}
    for row in table.query("way == 'in turn' and ops == 'NN' and batch == 1").itertuples():
        problem = Problem(row.m, row.n, row.k)
        if min(row.m, row.n) > most:
            continue
        seconds = problem.flop / (row.tflops * 1e12)
        moved = problem.least_bytes(SINGLE)
        rate = moved / seconds
        rows[f"{row.m}×{row.n}×{row.k}"] = [
            moved / MIB, problem.flop / moved, 1e6 * seconds,
            rate / 1e12, 100 * rate / roof.bytes_per_second, row.pct_cublas,
        ]  # fmt: skip
    columns = ["MiB", "FLOP per byte", "µs", "TB/s", "of a copy's rate, %", "% of cuBLAS"]
    return pandas.DataFrame.from_dict(rows, orient="index", columns=columns)
