"""What the simulator costs in processor time, which other programs disturb less than seconds.

    python benchmarks/processor_time.py [PART OF A RUNG'S NAME …]

Prints the tables of docs/speed.md, in milliseconds of one core, the least of some runs:

    1001×777×513    with machine code (numba), loaded before: plain and counted
    256³            by NumPy alone, as a launch of its own: plain, counted and checked
    arithmetic      131072 registers of two float16 or bfloat16, beside a float32 multiply-add,
                    with machine code

To compare two versions, let each run in turn on the same machine, with PYTHONPATH set to its
checkout. Needs NVRTC, and no GPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ptxsim" / "tests"))
import corpus

from ptxsim.arithmetic import compiled, halves, multiply_add

RUNGS = "03_shared_memory", "05_thread_tile_2d", "08_warp_tiling", "10_register_banks"
WARM, LARGE, MIDDLE = (64, 64, 64), (1001, 777, 513), (256, 256, 256)
COUNTED, CHECKED = {"count": True}, {"check": True}
REPEATS = 3
CHAIN = 16
NEVER, AT_ONCE = float("inf"), -1


def milliseconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    def once() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return 1e3 * min(once() for _ in range(repeats))


def of_rung(name: str) -> list[float]:
    kernel = corpus.rung(name)

    def run(shape, **how):
        inputs = kernel.inputs(*shape)
        arguments, grid = kernel.arguments(inputs), kernel.grid(*shape[:2])
        return partial(kernel.run, grid, arguments, limit_s=None, **how)

    for how in ({}, COUNTED, CHECKED):
        run(WARM, **how)()
    compiled.WORTH_IT = AT_ONCE
    row = [milliseconds(run(LARGE, **how)) for how in ({}, COUNTED)]
    compiled.WORTH_IT = NEVER
    return row + [milliseconds(run(MIDDLE, **how)) for how in ({}, COUNTED, CHECKED)]


def of_arithmetic() -> dict[str, float]:
    """Of multiply-adds, CHAIN of which add up and are done together, and of single sums."""
    random, shape = np.random.default_rng(1), (256, 512)
    numbers = random.random((3, *shape, 2), np.float32)
    words = {
        "f32": np.ascontiguousarray(numbers[..., 0]),
        "f16": numbers.astype(np.float16).view(np.int32)[..., 0],
        "bf16": (numbers.view(np.uint32) >> 16).astype(np.uint16).view(np.int32)[..., 0],
    }
    compiled.WORTH_IT = AT_ONCE
    times = {}
    for name, (a, b, c) in words.items():
        batch = multiply_add.Batch(name, [[(0, 1)] * CHAIN])
        chain = partial(multiply_add.fma_batch, batch, [a, b], [c], multiply_add.Stacks(), None)
        times[f"{name} fma"] = milliseconds(chain, 20) / CHAIN
        for function in (halves.add, halves.multiply) if name != "f32" else ():
            each = partial(function, name=name, ftz=False, limit=None)
            operation = partial(halves.each_half, each, (a, b))
            times[f"{name} {function.__name__}"] = milliseconds(operation, 20)
    return times


def main(parts: list[str]) -> None:
    print("| rung | plain | counted | 256³ plain | 256³ counted | 256³ checked |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in RUNGS:
        if not parts or any(part in name for part in parts):
            print(f"| {name} | " + " | ".join(f"{ms:.0f}" for ms in of_rung(name)) + " |")
    print("\n| operation | ms | times an f32 fma |")
    print("| --- | ---: | ---: |")
    times = of_arithmetic()
    for name, ms in times.items():
        print(f"| {name} | {ms:.3f} | {ms / times['f32 fma']:.1f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
