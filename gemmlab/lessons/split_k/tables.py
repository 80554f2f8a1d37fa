"""Ways to join the parts of K, what cutting K gains, and thin products, from records."""

import pandas

from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import read_settings
from gemmlab.ladder.settings import ALONE, EVERY_PART, JOINS, STREAM_K
from gemmlab.lessons.split_k.measure import TIMES_OF_JOINS

MICROSECONDS = 1e3  # of a millisecond


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
