"""What a product of a batch takes, by the ways to launch it, and one launch under the roofs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.ladder import SINGLE, Problem, Target, read_settings
from gemmlab.lessons.batched import measure as batches
from gemmlab.records import roofs, runs

if TYPE_CHECKING:
    import pandas


def per_product(table: pandas.DataFrame, size: int) -> pandas.DataFrame:
    """Microseconds for one product of size³, a row for each batch, a column for each way.

    table: as gl.batches() gives.
    """
    rows = table[table["m"] == size]
    times = rows.assign(us=1e3 * rows["time_ms"] / rows["batch"])
    found = times.pivot(index="batch", columns="way", values="us")
    return found[[way for way in batches.WAYS if way in found]]


def meanwhile(table: pandas.DataFrame, size: int, batch: int) -> float:
    """How many launches of one product, in a graph of so many, take as long as the batch in one."""
    us = per_product(table, size).loc[batch]
    return float(batch * us[batches.ONE] / us[batches.GRAPH])


def rounds(rows: pandas.DataFrame) -> pandas.DataFrame:
    """How the tiles of recorded batches share out among the blocks that stay, on the GPU recorded.

    rows: of best_by_shape.tuned("13_batched"). A row for each: tiles, blocks, tiles for each block
    at most, and the percentage of the blocks' turns in which there is a tile, all being as long.
    """
    import pandas

    rung, found = ladder.find(batches.RUNG), {}
    gpu = runs.current()["gpu"]
    for row in rows.itertuples():
        problem, settings = Problem(row.m, row.n, row.k, row.batch), read_settings(row.settings)
        (launch,) = rung.launches(problem, settings, Target("", gpu["sm_count"]))
        blocks = launch.grid[0]
        height, width = rung.tile(settings)
        tiles = problem.batch * -(-problem.m // height) * -(-problem.n // width)
        most = -(-tiles // blocks)
        found[str(problem)] = {
            "tiles": tiles, "blocks": blocks, "tiles of a block": most,
            "turns taken, %": 100 * tiles / (most * blocks),
        }  # fmt: skip
    return pandas.DataFrame.from_dict(found, orient="index")


def under_the_roofs(table: pandas.DataFrame) -> pandas.DataFrame:
    """Rung 13 in one launch at the largest batch of each size, beside the recorded ceilings.

    Nanoseconds for a product; FLOP per byte and TB/s if A and B are read once and C is written
    once, and TFLOP/s, with shares of the copy's rate and of the FMA ceiling in percent.
    """
    import pandas

    ceilings, found = roofs.recorded_ceilings(), {}
    for size, rows in table[table["way"] == batches.ONE].groupby("m"):
        last = rows.sort_values("batch").iloc[-1]
        problem = Problem(*(int(last[name]) for name in ("m", "n", "k", "batch")))
        seconds = last["time_ms"] / 1e3
        moved, done = problem.least_bytes(SINGLE) / seconds, problem.flop / seconds
        found[f"{size}×{size}×{size}"] = {
            "ns for a product": 1e9 * seconds / problem.batch,
            "FLOP per byte": problem.flop / problem.least_bytes(SINGLE),
            "TB/s": moved / 1e12, "of a copy's rate, %": 100 * moved / ceilings.bytes_per_second,
            "TFLOP/s": done / 1e12, "of the FP32 roof, %": 100 * done / ceilings.flop_per_second,
        }  # fmt: skip
    return pandas.DataFrame(found).T
