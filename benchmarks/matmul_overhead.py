"""What gl.matmul costs beside a direct launch of what it picks.

    python benchmarks/matmul_overhead.py

Microseconds of Python for each call. Picking: asking for the plan of a call that was made before.
With a GPU also whole calls of gl.matmul and of the kernel that it picks, on small CuPy arrays, one
after the other without waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

import gemmlab as gl
from gemmlab.cuda.device import gpu
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


def main() -> None:
    print(gl.device())
    xp, wait = np, lambda: None
    if gpu() is not None:
        import cupy

        xp, wait = cupy, cupy.cuda.Device().synchronize
    for m, n, k in SHAPES:
        A, B = (xp.asarray(gl.random_matrix(*s, seed=1)) for s in ((m, k), (k, n)))
        begin = time.perf_counter()
        gl.matmul(A, B)
        wait()
        first_ms = 1e3 * (time.perf_counter() - begin)

        def picked(A=A, B=B):
            return call.planned(A, B, None, None, False, False)

        plan = picked()
        print(f"{m}×{n}×{k}: {plan.kernel.name}; first call {first_ms:.0f} ms; "
              f"picking {microseconds(picked, wait):.1f} µs", end="")  # fmt: skip
        if xp is not np:
            C = xp.empty((m, n), np.float32)

            def direct(A=A, B=B, C=C, plan=plan):
                plan.kernel.launch_into(A, B, C)

            def whole(A=A, B=B):
                gl.matmul(A, B)

            print(f"; a direct launch {microseconds(direct, wait):.1f} µs, "
                  f"gl.matmul {microseconds(whole, wait):.1f} µs", end="")  # fmt: skip
        print()


if __name__ == "__main__":
    main()
