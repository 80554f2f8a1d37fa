"""What a product of a batch takes, by the ways to launch it, and one launch under the roofs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.ladder import SINGLE, Problem
from gemmlab.records import roofs
from gemmlab.records.experiments import batches

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


def under_the_roofs(table: pandas.DataFrame) -> pandas.DataFrame:
    """Rung 13 in one launch at the largest batch of each size, beside the recorded ceilings.

    Nanoseconds for a product; TB/s if A and B are read once and C is written once, and TFLOP/s,
    with their shares of the copy's rate and of the FMA ceiling in percent.
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
            "TB/s": moved / 1e12, "of a copy's rate, %": 100 * moved / ceilings.bytes_per_second,
            "TFLOP/s": done / 1e12, "of the FP32 roof, %": 100 * done / ceilings.flop_per_second,
        }  # fmt: skip
    return pandas.DataFrame(found).T
