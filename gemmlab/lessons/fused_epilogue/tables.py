"""What an epilogue costs, fused and after cuBLAS: in passes over C, in bytes of DRAM, in time."""

from collections.abc import Sequence

import numpy as np
import pandas

from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.activations import ACTIVATIONS
from gemmlab.lessons.fused_epilogue import epilogues
from gemmlab.records import roofs

MIB = 2**20


def through(kernel: Kernel, x: Sequence[float]) -> np.ndarray:
    """What the epilogue of a kernel of rung 11 makes of numbers, float32 (len(x),).

    They are its C, with an empty product: C = activation(0 + 1 · C).
    """
    numbers = np.asarray(x, np.float32).reshape(1, -1)
    return kernel(np.zeros((1, 0), "f4"), np.zeros((0, numbers.size), "f4"), numbers, beta=1.0)[0]


def passes(activation: str) -> pandas.DataFrame:
    """How often each way reads and writes all of C, its own product's store among it."""
    ways = (epilogues.FUSED, epilogues.BY_FOUR, epilogues.SEPARATE)
    count = {way: epilogues.passes(way, activation) for way in ways}
    return pandas.DataFrame(count, index=["reads of C", "writes of C"]).T


def dram(table: pandas.DataFrame) -> pandas.DataFrame:
    """MiB that each way reads from DRAM and writes there: predicted from passes, and counted."""
    rows = {}
    for row in table.dropna(subset="dram_read_bytes").itertuples():
        read, written = epilogues.predicted_bytes(row.way, row.activation, row.m, row.n, row.k)
        both = [read, row.dram_read_bytes, written, row.dram_write_bytes]
        rows[row.activation, row.way] = [value / MIB for value in both]
    columns = ["read, predicted", "read, counted", "written, predicted", "written, counted"]
    return pandas.DataFrame(rows, index=columns).T


def second_kernel(table: pandas.DataFrame, activation: str) -> float:
    """MiB that the kernel by float4 moves through DRAM, counted: with cuBLAS, less cuBLAS alone."""
    moved = dram(table)[["read, counted", "written, counted"]].sum(axis=1)[activation]
    return float(moved[epilogues.BY_FOUR] - moved[epilogues.CUBLAS])


def multiples(table: pandas.DataFrame, shape: tuple[int, int, int]) -> pandas.DataFrame:
    """Time as a multiple of the fused kernel's, at (M, N, K): a row for each way, by activation."""
    rows = table[(table[["m", "n", "k"]] == list(shape)).all(axis=1)]
    ratios = rows.pivot(index="way", columns="activation", values="ratio")
    there = [way for way in epilogues.WAYS if way in ratios.index]
    return ratios.loc[there, [activation for activation in ACTIVATIONS if activation in ratios]]


def under_the_roofs(table: pandas.DataFrame, side: int) -> pandas.DataFrame:
    """The fused kernel with bias and ReLU at M = N = side, over K, beside the recorded ceilings."""
    chosen = (table["way"] == epilogues.FUSED) & (table["activation"] == epilogues.CURVE_OF)
    rows = table[chosen & (table["m"] == side) & (table["n"] == side)]
    ceilings, seconds = roofs.recorded_ceilings(), rows["time_ms"] / 1e3
    flops = 2 * rows["m"] * rows["n"] * rows["k"] / seconds
    stored = 4 * rows["m"] * rows["n"] / seconds
    return pandas.DataFrame({
        "K": rows["k"],
        "time, ms": rows["time_ms"],
        "TFLOP/s": flops / 1e12,
        "of the FP32 roof, %": 100 * flops / ceilings.flop_per_second,
        "store of C, % of the copy's rate": 100 * stored / ceilings.bytes_per_second,
    }).set_index("K")  # fmt: skip
