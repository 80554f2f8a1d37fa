"""How fast the simulator is, and how much memory it takes.

    python benchmarks/simulator_speed.py [PART OF A NAME …]

Prints a row for every float32 rung and for one setting of each other product in tests/corpus.py, or
for those whose names contain one of the parts:

    plain, counted      seconds for M×K×N = 1001×513×777, with count=False and count=True
    64³ counted         milliseconds, the best of some
    128³ checked        seconds with check=True
    peak memory         MB of the whole process, the libraries among them, for each kind of run

Every kernel has a process of its own. It is compiled and translated before the first clock starts.
Where numba-cuda is installed, its simulator (NUMBA_ENABLE_CUDASIM=1) computes 64³ with a naive and
a tiled kernel beside ours, in the same run. Times depend on what else the machine does: leave it
alone meanwhile. Needs NVRTC, and no GPU.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import corpus

from gemmlab.kernel.operands import random_matrix
from gemmlab.ladder import RUNGS, SINGLE

LARGE = (1001, 777, 513)  # m, n, k
CHECKED = (128, 128, 128)
SMALL = (64, 64, 64)
REPEATS = 7
MAX_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # what getrusage counts in, in bytes


def kernels() -> dict[str, corpus.Product]:
    """By file name: the float32 rungs with their defaults, and one setting of each other file."""
    rungs = {rung.name: corpus.rung(rung.name) for rung in RUNGS if rung.precision is SINGLE}
    return {product.path.stem: product for product in reversed(corpus.PRODUCTS)} | rungs


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAX_RSS_UNIT / 1e6


def measure(kernel: corpus.Product) -> dict[str, float]:
    """One kernel, in this process. The peak of memory only grows: the kinds of run are in order."""
    given = {shape: kernel.inputs(*kernel.fitting(*shape)) for shape in (SMALL, LARGE, CHECKED)}

    def run(shape, **how):
        inputs = given[shape]
        grid = kernel.grid(*inputs.shape[:2])
        return kernel.run(grid, kernel.arguments(inputs), limit_s=None, **how)

    run(SMALL)
    row = {"plain, s": seconds(lambda: run(LARGE)), "plain, MB": peak_mb()}
    run(SMALL, count=True)
    row["64³ plain, ms"] = 1e3 * min(seconds(lambda: run(SMALL)) for _ in range(REPEATS))
    row["64³ counted, ms"] = 1e3 * min(
        seconds(lambda: run(SMALL, count=True)) for _ in range(REPEATS)
    )
    row["counted, s"] = seconds(lambda: run(LARGE, count=True))
    row["counted, MB"] = peak_mb()
    row["128³ checked, s"] = seconds(lambda: run(CHECKED, check=True))
    row["checked, MB"] = peak_mb()
    return row


# --- numba-cuda's simulator -----------------------------------------------------------------------


def measure_numba() -> dict[str, float]:
    """Seconds for 64³ in numba-cuda's simulator: a naive and a tiled kernel."""
    import numba_products

    tile = numba_products.TILE
    m, n, k = SMALL
    A, B = random_matrix(m, k, 1), random_matrix(k, n, 2)
    times = {}
    for name in ("naive", "tiled"):
        C = np.full((m, n), np.nan, np.float32)
        kernel = getattr(numba_products, name)
        launched = kernel[(m // tile, n // tile), (tile, tile)]
        times[name] = seconds(partial(launched, A, B, C))
        if not np.allclose(C, A @ B, atol=1e-4):
            raise RuntimeError(f"numba-cuda's {name} kernel gives a wrong product")
    return times


def beside_numba(table: pd.DataFrame) -> pd.DataFrame | None:
    """Both simulators at 64³, or None where numba-cuda is not installed."""
    ours = {"naive": "01_naive", "tiled": corpus.rung("03_shared_memory", TILE=16, BK=16).name}
    if importlib.util.find_spec("numba") is None:
        return None
    theirs = in_child("--numba", NUMBA_ENABLE_CUDASIM="1")
    extra = {name: in_child("--one", name) for name in ours.values() if name not in table.index}
    rows = {}
    for kind, name in ours.items():
        row = extra.get(name) or table.loc[name]
        rows[kind] = {
            "numba-cuda, ms": 1e3 * theirs[kind],
            "plain, ms": row["64³ plain, ms"],
            "counted, ms": row["64³ counted, ms"],
            "times faster": 1e3 * theirs[kind] / row["64³ plain, ms"],
            "times faster, counting": 1e3 * theirs[kind] / row["64³ counted, ms"],
        }
    return pd.DataFrame(rows).T


# --- all of it ------------------------------------------------------------------------------------


def in_child(*arguments: str, **environment: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, *arguments], env=os.environ | environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def main(parts: list[str]) -> None:
    names = [name for name in kernels() if not parts or any(part in name for part in parts)]
    rows = {name: in_child("--one", name) for name in tqdm(names, unit="kernel")}
    table = pd.DataFrame(rows).T
    summary = pd.DataFrame({"median": table.median(), "largest": table.max()}).T
    print(pd.concat([table, summary]).to_string(float_format="{:.2f}".format))
    compared = beside_numba(table)
    if compared is None:
        print("\nnumba-cuda is not installed: nothing to compare with")
        return
    print("\n64³ beside numba-cuda's simulator")
    print(compared.to_string(float_format="{:.1f}".format))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        every = kernels() | {product.name: product for product in corpus.PRODUCTS}
        print(json.dumps(measure(every[sys.argv[2]])))
    elif sys.argv[1:2] == ["--numba"]:
        print(json.dumps(measure_numba()))
    else:
        main(sys.argv[1:])
