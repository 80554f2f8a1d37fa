"""What a product of a batch takes, by the ways to launch it."""

import pandas

from gemmlab.ladder import SINGLE, Problem
from gemmlab.lessons.batched import measure as batches
from gemmlab.records import roofs


def per_product(table: pandas.DataFrame, size: int) -> pandas.DataFrame:
    """Microseconds for one product of size³: a row for each batch, a column for each way."""
    rows = table[table["m"] == size]
    times = rows.assign(us=1e3 * rows["time_ms"] / rows["batch"])
    return times.pivot(index="batch", columns="way", values="us")[[*batches.WAYS]]


def meanwhile(table: pandas.DataFrame, size: int, batch: int) -> float:
    """How many launches of one product, in a graph of so many, take as long as the batch in one."""
    us = per_product(table, size).loc[batch]
    return float(batch * us[batches.ONE] / us[batches.GRAPH])


def under_the_roofs(table: pandas.DataFrame) -> pandas.DataFrame:
    """Rung 13 in one launch at the largest batch of each size, beside the recorded ceilings.

    Bytes: A and B read once, C written once.
    """
    ceilings, by_shape = roofs.recorded_ceilings(), {}
    for size, rows in table[table["way"] == batches.ONE].groupby("m"):
        last = rows.sort_values("batch").iloc[-1]
        problem = Problem(*(int(last[name]) for name in ("m", "n", "k", "batch")))
        seconds = last["time_ms"] / 1e3
        moved, done = problem.least_bytes(SINGLE) / seconds, problem.flop / seconds
        by_shape[f"{size}×{size}×{size}"] = {
            "ns for a product": 1e9 * seconds / problem.batch,
            "FLOP per byte": problem.flop / problem.least_bytes(SINGLE),
            "TB/s": moved / 1e12, "of a copy's rate, %": 100 * moved / ceilings.bytes_per_second,
            "TFLOP/s": done / 1e12, "of the FP32 roof, %": 100 * done / ceilings.flop_per_second,
        }  # fmt: skip
    return pandas.DataFrame(by_shape).T
