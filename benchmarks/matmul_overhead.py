"""What a repeated call of gl.matmul costs the host, beside cupy.matmul.

    python benchmarks/matmul_overhead.py [--write]

Microseconds of Python for each call, CuPy arrays, one call after the other without waiting for
the GPU: the median of some loops, gl.matmul and cupy.matmul in turn. Without a GPU only the time to
find how a call is done. With --write the rows become matmul_overhead.csv beside this file.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pandas

import gemmlab as gl
from gemmlab.cuda.device import gpu
from gemmlab.measure.timing import now
from gemmlab.products import call

# One for each rung that is chosen on an H200; small, so that the GPU keeps up with the host.
SHAPES = {
    "float32": ((32, 32, 32), (1, 256, 256), (512, 512, 64), (2048, 2048, 32), (64, 32, 32, 32)),
    "float16": ((32, 32, 32), (33, 77, 51), (128, 512, 64), (1024, 1024, 64), (4096, 4096, 64)),
}
CALLS, TIMES = 300, 9


def microseconds(once: Callable[[], object], wait: Callable[[], object]) -> float:
    """Of one call, from a loop."""
    wait()
    begin = time.perf_counter()
    for _ in range(CALLS):
        once()
    took = (time.perf_counter() - begin) / CALLS
    wait()
    return 1e6 * took


def measure(shape: tuple[int, ...], dtype: str, xp, wait: Callable[[], object]) -> dict:
    """A row of the table, without the times of whole calls where there is no GPU."""
    m, n, k, *batch = shape
    A, B = (
        xp.asarray(np.random.default_rng(1).uniform(-1, 1, (*batch, *size)).astype(dtype))
        for size in ((m, k), (k, n))
    )
    plan = call.planned(A, B, None, None, False, False)
    ways = {"picking_us": lambda: call.planned(A, B, None, None, False, False)}
    if xp is not np:
        out = xp.empty(plan.shape, dtype)
        ways |= {
            "matmul_us": lambda: gl.matmul(A, B),
            "matmul_out_us": lambda: gl.matmul(A, B, out=out),
            "cupy_us": lambda: xp.matmul(A, B),
            "cupy_out_us": lambda: xp.matmul(A, B, out=out),
        }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(TIMES):
        for way, once in ways.items():
            times[way].append(microseconds(once, wait))
    row = {"m": m, "n": n, "k": k, "batch": (*batch, 1)[0], "dtype": dtype,
           "kernel": plan.kernel.name}  # fmt: skip
    return row | {way: median(taken) for way, taken in times.items()}


def main() -> None:
    print(gl.device())
    xp, wait, here = np, lambda: None, gpu()
    if here is not None:
        import cupy

        xp, wait = cupy, cupy.cuda.Device().synchronize
    rows = [measure(shape, dtype, xp, wait) for dtype, shapes in SHAPES.items() for shape in shapes]
    for row in rows:
        print(", ".join(f"{name} {value if isinstance(value, int | str) else f'{value:.1f}'}"
                        for name, value in row.items()))  # fmt: skip
    if "--write" in sys.argv[1:] and here is not None:
        table = pandas.DataFrame(rows).assign(gpu=here.name, recorded=now())
        path = Path(__file__).with_suffix(".csv")
        table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
        print(path)


if __name__ == "__main__":
    main()
