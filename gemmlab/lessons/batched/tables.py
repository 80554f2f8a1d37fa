"""What a product of a batch takes, by the ways to launch it; and how a block copies its tiles."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas

from gemmlab import ladder
from gemmlab.kernel.trace import Access, Trace
from gemmlab.ladder import SINGLE, Problem, Target, read_settings
from gemmlab.ladder.problem import OPERATIONS
from gemmlab.lessons.batched import measure as batches
from gemmlab.loading import load
from gemmlab.records import roofs, runs


def per_product(table: pandas.DataFrame, size: int) -> pandas.DataFrame:
    """Microseconds for one product of size³: a row for each batch, a column for each way."""
    rows = table[table["m"] == size]
    times = rows.assign(us=1e3 * rows["time_ms"] / rows["batch"])
    table_of_ways = times.pivot(index="batch", columns="way", values="us")
    return table_of_ways[[way for way in batches.WAYS if way in table_of_ways]]


def meanwhile(table: pandas.DataFrame, size: int, batch: int) -> float:
    """How many launches of one product, in a graph of so many, take as long as the batch in one."""
    us = per_product(table, size).loc[batch]
    return float(batch * us[batches.ONE] / us[batches.GRAPH])


def rounds(rows: pandas.DataFrame) -> pandas.DataFrame:
    """How the tiles of recorded batches are shared among the blocks that stay, on the GPU recorded.

    rows: of best_by_shape.tuned("13_batched"). turns taken: those with a tile.
    """
    rung, rounds_of = ladder.find(batches.RUNG), {}
    gpu = runs.current()["gpu"]
    for row in rows.itertuples():
        problem, settings = Problem(row.m, row.n, row.k, row.batch), read_settings(row.settings)
        (launch,) = rung.launches(problem, settings, Target("", gpu["sm_count"]))
        blocks = launch.grid[0]
        height, width = rung.tile(settings)
        tiles = problem.batch * -(-problem.m // height) * -(-problem.n // width)
        most = -(-tiles // blocks)
        rounds_of[str(problem)] = {
            "tiles": tiles, "blocks": blocks, "tiles of a block": most,
            "turns taken, %": 100 * tiles / (most * blocks),
        }  # fmt: skip
    return pandas.DataFrame.from_dict(rounds_of, orient="index")


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


BANKS, WORD_BYTES = 32, 4


@dataclass(frozen=True)
class Copy:
    """One copy of one warp.

    `access`: what it reads of the matrix. `words`: int (L, each), the words of shared memory that
    each lane fills, from the first of the block's tiles. `along_k`: whether K goes along the stored
    rows. `requests`: the copies by which all warps bring their tile of this matrix.
    """

    access: Access
    words: np.ndarray
    along_k: bool
    requests: int

    @property
    def banks(self) -> np.ndarray:
        """int (32,): how many words go to each bank."""
        return np.bincount(self.words.ravel() % BANKS, minlength=BANKS)


def copy_of(
    trace: Trace, array: str, block: tuple[int, int, int] = (0, 0, 0), warp: int = 0
) -> Copy:
    """The first copy of `array`, "A" or "B", by a warp.

    trace: of one step along K.
    """
    accesses = trace.run.accesses(block, warp)
    pairs = pairwise(accesses)
    kept = next(to for at, to in pairs if at.array == array and to.operation == "copy")
    base = min(
        int(access.addresses[access.active].min())
        for access in trace.run.accesses(block)
        if (access.space, access.operation) == ("shared", "copy")
    )
    first = (kept.addresses[kept.active] - base) // WORD_BYTES
    letter = trace.ops["AB".index(array)]
    loads = [access for access in trace.run.accesses(block) if access.array == array]
    return Copy(
        access=trace.warp_access(array, block=block, warp=warp),
        words=first[:, None] + np.arange(kept.size // WORD_BYTES),
        along_k=(array == "A") == (letter == "N"),
        requests=len(loads),
    )


def by_layout(name: str, **settings: int) -> pandas.DataFrame:
    """Copies by which a block of rung `name` loads a tile of A and of B, a row for each layout."""
    rung, by_ops = ladder.find(name), {}
    for ops in OPERATIONS:
        kernel = load(name, **settings, **ladder.stored_as(rung, ops))
        trace = kernel.trace(*rung.tile(kernel.settings), kernel.settings["BK"])
        by_ops[ops] = {}
        for array in "AB":
            copy = copy_of(trace, array)
            by_ops[ops] |= {
                f"copies of {array}": copy.requests, f"bytes a lane of {array}": copy.access.width,
                f"sectors a copy of {array}": copy.access.sectors,
            }  # fmt: skip
    return pandas.DataFrame(by_ops).T
