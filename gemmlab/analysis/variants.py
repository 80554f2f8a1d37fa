"""Variants of a kernel, of edited text or with other settings, counted and compiled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.analysis import counters
from gemmlab.cuda.architectures import WARP
from gemmlab.kernel.kernel import Kernel, assembled
from gemmlab.records import tuning
from gemmlab.records.registry import NoRecord, StaleRecord

if TYPE_CHECKING:
    import pandas

TAKEN = ("registers per thread", "spilled bytes", "blocks per SM")
COUNTED = {name: counters.PER_32[name] for name in ("global loads", "global sectors")} | {
    re.sub("(loads|stores)", r"shared \1", what): metric for what, metric in counters.SHARED.items()
}
DIGITS = 3  # after the point, of counts per 32 multiply-adds
SPEED = f"TFLOP/s at {'×'.join(map(str, tuning.SHAPES[0]))}"
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Part:
    """One of several changes between a rung and the one before it, made to rung `like` alone."""

    what: str
    like: str
    changes: Mapping[str, str]


_TURNED = """
            #pragma unroll
            for (int i = threadIdx.x; i < BM * BK; i += THREADS)
                a[i % BK][i / BK] ="""
_ELEMENT = "A[(size_t)(top + i / BK) * K + tile_k + i % BK]"
PARTS = {
    "06_vectorized_loads": (
        Part(
            "two blocks asked for",
            "05_thread_tile_2d",
            {"__launch_bounds__(THREADS)": "__launch_bounds__(THREADS, 2)"},
        ),
        Part(
            "wide loads",
            "05_thread_tile_2d",
            {
                "load_tile<": "load_tile_by_four<",
                "__shared__ float": "__shared__ __align__(16) float",
                "left + BN <= N;": "left + BN <= N && N % 4 == 0 && K % 4 == 0;",
            },
        ),
        Part(
            "transposed",
            "05_thread_tile_2d",
            {
                "float a[BM][BK]": "float a[BK][BM]",
                "a[y + i][k]": "a[k][y + i]",
                "load_tile<true, THREADS>(a, A, top, tile_k, M, K)": f"{_TURNED} {_ELEMENT}",
                "load_tile<false, THREADS>(a, A, top, tile_k, M, K)": f"{_TURNED} "
                f"top + i / BK < M && tile_k + i % BK < K ? {_ELEMENT} : 0.0f",
            },
        ),
        Part(
            "06, single reads",
            "06_vectorized_loads",
            {
                "i < TM; i += 4": "i < TM; ++i",
                "*(float4*)&a_column[i] = *(const float4*)&": "a_column[i] = ",
                "for (int j = 0; j < TN; j += 4)\n                *(float4*)&b_row[j] = "
                "*(const float4*)&": "for (int j = 0; j < TN; ++j)\n                b_row[j] = ",
            },
        ),
    )
}
"""What changed from one rung to the next, taken apart: no part of these was measured."""


def parts(name: str, **settings: int) -> dict[str, Kernel]:
    """What it is -> the kernel with that part alone, of rung `name`, with the same settings all.

    Raises LookupError for a rung that is not taken apart, and what `edited` raises.
    """
    if name not in PARTS:
        raise LookupError(f"{name} is not taken apart; there are the parts of {', '.join(PARTS)}.")
    return {part.what: edited(part.like, part.changes, **settings) for part in PARTS[name]}


def edited(name: str, changes: Mapping[str, str], **settings: int) -> Kernel:
    """The rung `name` with pieces of its text replaced: `changes`, from the old to the new.

    Raises ValueError for a piece that the text does not have, and else what from_source raises.
    """
    text = ladder.find(name).path.read_text(encoding="utf-8")
    for old, new in changes.items():
        if old not in text:
            raise ValueError(f"{name}.cu has no {old!r}; changes are from what stands there.")
        text = text.replace(old, new)
    return assembled(text, name, **settings)


def side_by_side(kernels: Mapping[str, Kernel], m: int, n: int, k: int) -> pandas.DataFrame:
    """What kernels take of an SM, and what they ask of memory, a column for each under its name.

    First registers, spilled bytes and blocks, from the compiler. Then counts of a product of this
    shape (M, N, K), simulated, per 32 multiply-adds. Last the speed from the sweep of settings, in
    TFLOP/s, whatever the shape here: "not recorded" of a text that was edited.
    """
    import pandas

    return pandas.DataFrame({name: _of(kernel, m, n, k) for name, kernel in kernels.items()})


def _of(kernel: Kernel, m: int, n: int, k: int) -> pandas.Series:
    import pandas

    (taken,) = kernel.resources().to_dict("records")
    counted, steps = counters.simulated(kernel, m, n, k), m * n * k / WARP
    rows: dict[str, object] = {name: taken[name] for name in TAKEN}
    rows |= {
        f"{name} per 32 FMA": round(counted[metric] / steps, DIGITS)
        for name, metric in COUNTED.items()
    }
    try:
        speed: object = round(tuning.of(kernel).gflops / 1000, 1)
    except (NoRecord, StaleRecord):
        speed = NOT_RECORDED
    return pandas.Series(rows | {SPEED: speed}, dtype=object)
