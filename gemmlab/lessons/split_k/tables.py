"""Ways to join the parts of K, what cutting K gains, and thin products, from records."""

import pandas

from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import read_settings
from gemmlab.ladder.precision import SINGLE
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.settings import ALONE, EVERY_PART, JOINS, STREAM_K
from gemmlab.lessons.split_k.measure import TIMES_OF_JOINS
from gemmlab.records import best_by_shape, roofs

MICROSECONDS = 1e3  # of a millisecond
MIB = 2**20


def times() -> pandas.DataFrame:
    """Microseconds of a product: a row for each shape, a column for each way to join; cuBLAS."""
    table = TIMES_OF_JOINS.read()
    table["shape"] = [f"{m}×{n}×{k}" for m, n, k in table[["m", "n", "k"]].to_numpy()]
    wide = table.pivot(index="shape", columns="join", values="time_ms") * MICROSECONDS
    wide = wide.reindex(index=table["shape"].unique(), columns=[*JOINS])
    of_shape = table.groupby("shape", sort=False)
    wide["cuBLAS"] = of_shape["cublas_ms"].median() * MICROSECONDS
    settings = table["settings"].map(read_settings)
    tiles = settings.map(lambda chosen: f"{chosen['BM']}×{chosen['BN']}")
    parts = settings.map(lambda chosen: chosen["SPLIT"])
    wide.insert(0, "tile", tiles.groupby(table["shape"], sort=False).first())
    wide.insert(1, "parts", parts.groupby(table["shape"], sort=False).max())
    wide.columns.name = None
    return wide


def ways() -> pandas.DataFrame:
    """Of times(): one block for each tile, K split with all blocks adding, stream-K; cuBLAS."""
    names = {
        JOINS[ALONE]: "one block for each tile", JOINS[EVERY_PART]: "split-K",
        JOINS[STREAM_K]: "stream-K",
    }  # fmt: skip
    return times().rename(columns=names)[["tile", "parts", *names.values(), "cuBLAS"]]


def smaller_tile_then_parts(before: Kernel, m: int, n: int, k: int) -> pandas.DataFrame:
    """Microseconds of `before`, of 12 with a smaller tile, and of that with K split as well.

    The first is the run that is recorded of `before`, the others are from times().
    """
    ours, shape = ways().loc[f"{m}×{n}×{k}"], before.settings
    run = before.benchmark().query("m == @m and n == @n and k == @k and kernel == @before.name")
    large, small = f"{shape['BM']}×{shape['BN']}", ours["tile"]
    columns = {
        "tile": [large, small, small],
        "parts": [1, 1, ours["parts"]],
        "µs": [
            MICROSECONDS * run["time_ms"].iloc[0],
            *ours[["one block for each tile", "split-K"]],
        ],
    }
    rows = pandas.DataFrame(columns, index=[before.name, "12, a smaller tile", "12, and K split"])
    sides = rows["tile"].str.split("×", expand=True).astype(int)
    tiles = -(-m // sides[0]) * -(-n // sides[1])
    rows.insert(2, "blocks", tiles * rows["parts"])
    return rows


def under_the_copy_roof(name: str, most: int) -> pandas.DataFrame:
    """The rung where M or N is at most `most`, A and B as they are, a row for each M×N×K.

    TB/s: A, B and C moved once at the recorded speed.
    """
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
