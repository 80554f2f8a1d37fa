"""How long quantizing takes, by kind of scales, beside what it must move.

    python -m gemmlab record 19_quantizing

holds each quantizer to the simulator's bits by what it keeps of a small matrix, and times it;
results/<gpu>/quantizing.csv holds it (see gemmlab.records.registry).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.fingerprint import Fingerprint, fingerprint
from gemmlab.kernel.operands import random_values
from gemmlab.ladder import Target, written
from gemmlab.ladder.element_types import BFLOAT16, E4M3
from gemmlab.ladder.precision import OF_BLOCKS, OF_ROWS, OF_TENSORS
from gemmlab.lessons.fp8.quantize import PATH, Quantizer
from gemmlab.measure.in_turn import Side, input_sets
from gemmlab.measure.timing import Spread, now
from gemmlab.records.registry import DATE, POSITIVE, SIZE, TEXT, Say, Table

if TYPE_CHECKING:
    import pandas

NAME = "19_quantizing"
SHAPES = ((4096, 4096), (8192, 8192), (7168, 2048))  # rows and columns
BITS_SHAPE, BITS_SEED = (136, 264), 19
SAMPLES = 9
EVERY = tuple(
    Quantizer(scales, which, transpose, BFLOAT16, E4M3)
    for scales in (OF_TENSORS, OF_ROWS, OF_BLOCKS)
    for which in ("AB" if scales is OF_BLOCKS else "A")
    for transpose in (False, True)
)
COLUMNS = {
    **TEXT("scales", "which", "transposed", "settings"), **SIZE("rows", "cols"),
    **POSITIVE("us", "us_q1", "us_q3", "tbytes_per_s"), **TEXT("sha256", "code", "gpu"),
    **DATE("recorded"),
}  # fmt: skip


def bits_of(quantizer: Quantizer) -> str:
    """The SHA-256 of a small matrix of a seed, quantized, and of its scales."""
    values = random_values(BITS_SHAPE[0] * BITS_SHAPE[1], BITS_SEED).reshape(BITS_SHAPE)
    Q, scales = quantizer(BFLOAT16.encode(values, BFLOAT16.storage))
    return hashlib.sha256(Q.tobytes() + scales.tobytes()).hexdigest()


def record(say: Say) -> Path:
    """Time all of EVERY on matrices that rotate past the L2; returns the file. Raises NoGpu."""
    import cupy
    import pandas

    here = require_gpu("Timing quantizers")
    rows, stream = [], cupy.cuda.Stream(non_blocking=True)
    with stream:
        for quantizer in EVERY:
            for shape in SHAPES:
                moved = 3 * shape[0] * shape[1]  # 16 bits in, 8 bits out
                spread = Spread.of(_times_us(quantizer, shape, moved, here.l2_bytes, stream), min)
                rows.append({
                    "scales": quantizer.scales.name, "which": quantizer.which,
                    "transposed": "yes" if quantizer.transpose else "no",
                    "settings": written(quantizer.macros), "rows": shape[0], "cols": shape[1],
                    "us": spread.median, "us_q1": spread.q1, "us_q3": spread.q3,
                    "tbytes_per_s": moved / spread.median / 1e6, "sha256": bits_of(quantizer),
                    "gpu": here.name, "recorded": now(),
                })  # fmt: skip
            say(f"{NAME}: {rows[-1]['settings']}: {rows[-1]['us']:.1f} µs at {shape}")
    return EVIDENCE.write(pandas.DataFrame(rows), here.slug)


def _times_us(quantizer: Quantizer, shape, moved: int, l2_bytes: int, stream) -> list[float]:
    """Microseconds of each sample, in launches captured into a graph."""
    import cupy

    random, sets = cupy.random.RandomState(2024), []
    of_q, of_scales = quantizer.shapes(*shape)
    for _ in range(input_sets(moved, l2_bytes)):
        values = random.uniform(-1, 1, shape, dtype=cupy.float32)
        X = BFLOAT16.encode(values, BFLOAT16.storage)
        Q, scales = cupy.empty(of_q, np.uint8), cupy.ones(of_scales, np.float32)
        arguments = quantizer.values(X, Q, scales, cupy)
        sets.append((quantizer.loaded().prepared(quantizer.launches(*shape), arguments),))
    side = Side(lambda launch: launch(), sets, stream)
    side.plan()
    return [1e3 * side.elapsed_ms() / side.launches for _ in range(SAMPLES)]


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    (quantizer,) = (each for each in EVERY if written(each.macros) == row.settings)
    launches = quantizer.launches(int(row.rows), int(row.cols))
    return fingerprint(PATH, quantizer.macros, launches)


EVIDENCE = Table(
    name=NAME, file="quantizing.csv", remake=record, key=("settings", "rows", "cols"),
    columns=COLUMNS, fingerprint_of=_fingerprint_of,
)  # fmt: skip


def times() -> pandas.DataFrame:
    """A row for each quantizer and shape, with the columns of COLUMNS. Raises what
    registry.Table.read raises."""
    return EVIDENCE.read()
