"""The kernels that the simulator is judged by, with the rungs of the ladder.

PRODUCTS compute C = alpha * A @ B + beta * C: FP32 rungs with settings that are not their default,
whose records are in results/, and kernels for tensor cores that are no rungs. OTHERS are kernels of
other kinds that belong to a series on products.
"""

import re

from whole_kernels import KERNELS as KERNELS
from whole_kernels import OTHERS as OTHERS
from whole_kernels import TENSOR_PRODUCTS, Inputs, Product, plain_arguments
from whole_kernels import Entry as Entry
from whole_kernels import Other as Other

from gemmlab import ladder
from gemmlab.cuda.options import options_for
from gemmlab.folders import kernel_file

OWN_HEADER = re.compile(r'^#include "(\w+\.cuh)"\n', re.M)


def self_contained(text: str) -> str:
    """CUDA C++ `text` with the headers of kernels/ instead of their first #include."""
    there = set()

    def header(match: re.Match) -> str:
        if match[1] in there:
            return ""
        there.add(match[1])
        body = kernel_file(match[1]).read_text(encoding="utf-8")
        return OWN_HEADER.sub(header, body.replace("#pragma once\n", ""))

    return OWN_HEADER.sub(header, text)


# --- rungs ----------------------------------------------------------------------------------------


def without_bias(given: Inputs) -> list:
    """The arguments of a rung that takes a bias: there is none."""
    return [*plain_arguments(given), 0]


class RungProduct(Product):
    """A rung's grid is the ladder's: that of 01_naive has rows along x."""

    @property
    def options(self) -> tuple[str, ...]:
        return options_for(self.settings)

    def grid(self, m: int, n: int) -> tuple[int, int, int]:
        entry, problem = ladder.find(self.path.stem), ladder.Problem(m, n, 1)
        return entry.launches(problem, self.settings, ladder.SIMULATED)[0].grid


def rung(name: str, **given: int) -> RungProduct:
    """An FP32 rung of the ladder with these settings, and its defaults for the others."""
    entry = ladder.find(name)
    settings = ladder.settings_for(entry, given)
    has_bias_pointer = entry.takes_bias(settings) or "BIAS" in settings
    return RungProduct(
        f"{name} {ladder.written(settings)}", entry.path, entry.entry(settings), settings,
        entry.block(settings), shared_bytes=entry.shared_bytes(settings),
        tile=entry.tile(settings),
        arguments=without_bias if has_bias_pointer else plain_arguments,
    )  # fmt: skip


SQUARE = {"BM": 64, "BN": 64, "BK": 8}
SMALL_WARPS = {**SQUARE, "WM": 32, "WN": 32}

PRODUCTS = [
    rung("03_shared_memory", TILE=16, BK=16),
    rung("03_shared_memory", TILE=8, BK=32, PAD=1),
    rung("03_shared_memory", TILE=32, BK=32, PAD=1),
    rung("04_thread_tile_1d", BM=32, BN=32, BK=16, TM=4),
    rung("04_thread_tile_1d", BM=64, BN=64, BK=8, TM=8),
    rung("05_thread_tile_2d", **SQUARE, TM=4, TN=4),
    rung("05_thread_tile_2d", BM=128, BN=128, BK=8, TM=8, TN=8),
    rung("06_vectorized_loads", **SQUARE, TM=8, TN=8),
    rung("06_vectorized_loads", BM=128, BN=64, BK=16, TM=4, TN=8),
    rung("07_bank_conflicts", **SQUARE),
    rung("07_bank_conflicts", BM=128, BN=128, BK=8, SWIZZLE=0, SPLIT=0),
    rung("07_bank_conflicts", BM=128, BN=128, BK=8, PAD=4, SWIZZLE=0),
    rung("08_warp_tiling", **SMALL_WARPS),
    rung("08_warp_tiling", BM=128, BN=128, BK=16, WM=64, WN=32),
    rung("09_double_buffering", **SMALL_WARPS, STAGES=1),
    rung("09_double_buffering", **SMALL_WARPS, STAGES=2),
    rung("09_double_buffering", BM=128, BN=128, BK=8, STAGES=3),
    *TENSOR_PRODUCTS,
]


def product(name: str) -> Product:
    """The product kernel of this name."""
    (kernel,) = (product for product in PRODUCTS if product.name == name)
    return kernel
