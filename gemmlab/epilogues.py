"""What a bias and an activation cost, fused into the product or after it: measured, read anywhere.

    python benchmarks/fused_epilogue.py

measures on a GPU and writes results/<gpu>-epilogue.csv, a row for each shape, activation and way.
A row belongs to the code that was measured: where rung 11 has changed since, nothing is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gemmlab import ladder, tables
from gemmlab.device import replayed_file
from gemmlab.fingerprint import short_code
from gemmlab.ladder import RESULTS
from gemmlab.records import LARGE, NoRecord, StaleRecord

if TYPE_CHECKING:
    import pandas

NAME, PLAIN = "11_fused_epilogue", "10_register_banks"
FUSED, ALONE, CUBLAS = "11, fused", "10, product alone", "cuBLAS, product alone"
BY_FOUR = "cuBLAS, then one kernel by float4"
ONE_KERNEL, SEPARATE = "cuBLAS, then one CuPy kernel", "cuBLAS, then separate CuPy kernels"
WAYS = (FUSED, ALONE, CUBLAS, BY_FOUR, ONE_KERNEL, SEPARATE)

# Matrices of C's size that each operation of a CuPy expression reads and writes. A number or a row,
# as the bias is, counts as nothing.
OPERATIONS = {
    "none": (("C + bias", 1, 1),),
    "ReLU": (("C + bias", 1, 1), ("maximum(C, 0)", 1, 1)),
    "GELU by tanh": (
        ("C + bias", 1, 1), ("T = C * C", 1, 1), ("T * C", 2, 1), ("T * 0.044715", 1, 1),
        ("T + C", 2, 1), ("T * 0.798", 1, 1), ("tanh(T)", 1, 1), ("T + 1", 1, 1), ("T * C", 2, 1),
        ("T * 0.5", 1, 1),
    ),
    "GELU by erf": (
        ("C + bias", 1, 1), ("T = C * 0.707", 1, 1), ("erf(T)", 1, 1), ("T + 1", 1, 1),
        ("T * C", 2, 1), ("T * 0.5", 1, 1),
    ),
}  # fmt: skip

SIDES = (1024, 4096, 8192)
DEPTHS = (64, 128, 256, 512, 1024, 2048, 4096)
CURVE = tuple((side, side, depth) for side in SIDES for depth in DEPTHS)
"""(M, N, K) at which all ways are measured with the activation CURVE_OF."""
CURVE_OF = "ReLU"
THIN = (8192, 8192, 256)
"""(M, N, K) at which bytes of DRAM are counted."""
WITH_ALL = (LARGE, THIN)
"""(M, N, K) at which all activations are measured."""

COLUMNS = (
    "m", "n", "k", "activation", "way", "settings", "time_ms", "time_q1_ms", "time_q3_ms",
    "fused_ms", "ratio", "ratio_q1", "ratio_q3", "pairs", "sm_clock_mhz", "power_w",
    "dram_read_bytes", "dram_write_bytes", "code", "gpu", "driver", "cuda", "cublas", "cupy",
    "ncu", "recorded",
)  # fmt: skip


def passes(way: str, activation: str) -> tuple[int, int]:
    """How often C's size is read and is written, the product's own store among it, with a bias."""
    if way in (BY_FOUR, ONE_KERNEL):
        return 1, 2
    if way == SEPARATE:
        operations = OPERATIONS[activation]
        return sum(reads for _, reads, _ in operations), 1 + sum(w for *_, w in operations)
    return 0, 1


def predicted_bytes(way: str, activation: str, m: int, n: int, k: int) -> tuple[int, int]:
    """Bytes of DRAM (read, written) if A and B are read once and C passes as `passes` says."""
    reads, writes = passes(way, activation)
    return 4 * (m * k + k * n + reads * m * n), 4 * writes * m * n


def file_of(slug: str) -> Path:
    """Where the measurements of the GPU `slug` are kept."""
    return RESULTS / f"{slug}-epilogue.csv"


def epilogue() -> pandas.DataFrame:
    """The recorded rows, with the columns COLUMNS: times in milliseconds, medians and quartiles.

    fused_ms is rung 11's median beside this way, ratio what the way takes as a multiple of it, pair
    by pair; for rung 11 itself it is the noise. Bytes of DRAM are empty where not counted.

    Raises NoRecord, and StaleRecord if rung 11 has changed since.
    """
    import pandas

    file = replayed_file()
    path = file_of(file.stem) if file else None
    again = "run `python benchmarks/fused_epilogue.py` on a GPU."
    if path is None or not path.is_file():
        raise NoRecord(f"no epilogues are recorded; {again}")
    table = pandas.read_csv(path)
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing or table.empty:
        raise NoRecord(f"{path.name} lacks {', '.join(missing) or 'rows'}; {again}")
    source = ladder.find(NAME).path
    for settings, code in table[["settings", "code"]].drop_duplicates().itertuples(index=False):
        if code != short_code(source, ladder.read_settings(settings)):
            raise StaleRecord(f"epilogues were recorded for another version of {NAME}; {again}")
    return table


def write(table: pandas.DataFrame, slug: str) -> Path:
    """Write the rows of the GPU `slug`; returns the file."""
    tables.write(table, file_of(slug), COLUMNS)
    return file_of(slug)
