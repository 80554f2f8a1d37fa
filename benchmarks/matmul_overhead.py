"""What gl.matmul costs beside a direct launch of what it picks.

    python benchmarks/matmul_overhead.py [--write]

Microseconds of Python for each call. Picking: asking for the plan of a call that was made before.
With a GPU also whole calls of gl.matmul and of the kernel that it picks, on small CuPy arrays, one
after the other without waiting; with --write they become matmul_overhead.csv beside this file.
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

SHAPES = ((32, 32, 32), (1, 64, 64), (64, 64, 64))  # too small to keep a GPU busy
CALLS, TIMES = 500, 9


def microseconds(once: Callable[[], object], wait: Callable[[], object]) -> float:
    """Of one call: the median of some loops."""
    times = []
    for _ in range(TIMES):
        wait()
        begin = time.perf_counter()
        for _ in range(CALLS):
            once()
        times.append((time.perf_counter() - begin) / CALLS)
        wait()
    return 1e6 * median(times)


def measure(m: int, n: int, k: int, xp, wait: Callable[[], object]) -> dict[str, object]:
    """A row of COLUMNS, without a direct launch and a whole call where there is no GPU."""
    A, B = (xp.asarray(gl.random_matrix(*shape, seed=1)) for shape in ((m, k), (k, n)))
    gl.matmul(A, B)

    def picked():
        return call.planned(A, B, None, None, False, False)

    plan = picked()
    row = {"m": m, "n": n, "k": k, "kernel": plan.kernel.name,
           "picking_us": microseconds(picked, wait)}  # fmt: skip
    if xp is not np:
        C = xp.empty((m, n), np.float32)
        row["direct_us"] = microseconds(lambda: plan.kernel.launch_into(A, B, C), wait)
        row["matmul_us"] = microseconds(lambda: gl.matmul(A, B), wait)
    return row


def main() -> None:
    print(gl.device())
    xp, wait, here = np, lambda: None, gpu()
    if here is not None:
        import cupy

        xp, wait = cupy, cupy.cuda.Device().synchronize
    rows = [measure(*shape, xp, wait) for shape in SHAPES]
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
