"""gl.matmul at drawn shapes, beside cuBLAS: GPU time alone, in turn.

    python benchmarks/judged.py SEED COUNT [DTYPE ...] [--proposals] [--nearest] [--write TABLE.csv]

For each shape of shapes.drawn(SEED, COUNT) both are captured into CUDA graphs of several calls,
over operands that take turns so that L2 does not hold them, and the graphs are launched in turn.
Prints the geometric mean of cuBLAS's time over ours, and its quantiles; `cublas` is its first
choice, with --proposals `cublaslt` is the fastest of what cuBLASLt proposes, and with --nearest
`nearest` is the kernel that was the fastest at the nearest recorded shape, with its settings there.
"""

from __future__ import annotations

import multiprocessing
import sys
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pandas
from graphs import captured, elapsed_us, matrices, timed
from shapes import Shape, drawn

import gemmlab as gl
from gemmlab.cuda.cublas import Cublas, CublasError
from gemmlab.cuda.cublaslt import CublasLt, Product
from gemmlab.cuda.device import gpu
from gemmlab.ladder import SIMULATED, IllegalSetting, Problem
from gemmlab.measure.timing import now
from gemmlab.products.choosing import Row, recorded
from gemmlab.records.tuning import distance

ROUNDS, GRAPH_US, MOST_CALLS = 7, 400, 64
WRITTEN_EVERY = 50  # shapes: the end may never come
PROPOSALS, MOST_BYTES = 32, 60e9  # kept by CuPy's pool; cuBLAS takes its own memory


def compiled(shapes: list[Shape], types: list[str], with_nearest: bool) -> None:
    """Compile what is chosen on all processors, for CuPy's cache: one after the other they take
    minutes."""
    chosen = {
        (choice.rung, tuple(choice.settings.items()))
        for dtype in types
        for shape in shapes
        for choice in [gl.choose((shape.m, shape.n, shape.k), dtype)]
    }
    if with_nearest:
        chosen |= {
            (row.rung.name, tuple(row.values.items()))
            for dtype in types
            for row in {nearest_recorded(shape, dtype) for shape in shapes}
        }
    with multiprocessing.get_context("spawn").Pool() as pool:
        pool.map(_load, sorted(chosen), chunksize=2)


def _load(chosen: tuple[str, tuple[tuple[str, int], ...]]) -> None:
    gl.load(chosen[0], **dict(chosen[1])).prepare()


def nearest_recorded(shape: Shape, dtype: str) -> Row:
    """Of what takes this shape, the fastest that is recorded at the nearest one."""
    problem = Problem(shape.m, shape.n, shape.k)

    def takes(row: Row) -> bool:
        try:
            return bool(row.rung.launches(problem, row.values, SIMULATED))
        except IllegalSetting:
            return False

    rows = [row for row in recorded(dtype) if (row.problem.ops, row.problem.batch) == ("NN", 1)]
    of_shape = (problem.m, problem.n, problem.k)
    return min(
        filter(takes, rows), key=lambda row: (distance(of_shape, row.problem.shape), -row.tflops)
    )


def measure(
    shape: Shape, dtype: str, library: Cublas, proposing: CublasLt | None, with_nearest: bool
) -> dict:
    """A row of the table: µs of each, and what gl.matmul took."""
    import cupy

    pool = cupy.get_default_memory_pool()
    if pool.total_bytes() > MOST_BYTES:
        pool.free_all_blocks()
    stream = cupy.cuda.get_current_stream()
    sets = matrices(shape.m, shape.n, shape.k, dtype)
    calls = {
        "us": [partial(gl.matmul, A, B, out=C, dtype=dtype) for A, B, C in sets],
        "cublas_us": [partial(library.launch_into, *each) for each in sets],
    }
    if proposing is not None:
        product = fastest_proposal(proposing, shape, dtype, sets, stream)
        calls["cublaslt_us"] = [partial(product.launch_into, *each) for each in sets]
    if with_nearest:
        row = nearest_recorded(shape, dtype)
        kernel = gl.load(row.rung.name, **row.values)
        calls["nearest_us"] = [kernel.packed(kernel.given(*each)).enqueue for each in sets]
    once = []
    for each in calls.values():
        each[0]()
        graph = captured(each, stream, 2)
        once.append(min(elapsed_us(partial(graph.launch, stream), stream) for _ in "12") / 2)
    count = int(max(2, min(MOST_CALLS, GRAPH_US / min(once))))
    graphs = {name: captured(each, stream, count) for name, each in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for turn in range(ROUNDS):
        for name in sorted(graphs, reverse=bool(turn % 2)):
            run = partial(graphs[name].launch, stream)
            samples[name].append(elapsed_us(run, stream) / count)
    chosen = gl.choose((shape.m, shape.n, shape.k), dtype)
    return {
        "family": shape.family, "m": shape.m, "n": shape.n, "k": shape.k, "dtype": dtype,
        **{name: median(times) for name, times in samples.items()}, "rung": chosen.rung,
        "padded": chosen.padded is not None,
    }  # fmt: skip


def fastest_proposal(
    proposing: CublasLt, shape: Shape, dtype: str, sets: list, stream: Any
) -> Product:
    """cuBLASLt's product, by the algorithm that is the fastest in a graph. Raises CublasError where
    none runs."""
    product = Product(proposing, (shape.m, shape.n, shape.k), (dtype,) * 3, dtype)
    least, fastest = np.inf, None
    for proposal in product.proposals(PROPOSALS):
        product.chosen = proposal
        try:
            took = timed([partial(product.launch_into, *each) for each in sets], stream, least)
        except CublasError:  # it was proposed and does not run
            continue
        if took < least:
            least, fastest = took, proposal
    if fastest is None:
        raise CublasError(f"cuBLASLt proposes no algorithm that runs, for {dtype} at {shape}.")
    product.chosen = fastest
    return product


def write(rows: list[dict], path: str, seed: str) -> None:
    pandas.DataFrame(rows).assign(seed=seed, gpu=gpu().name, recorded=now()).to_csv(
        path, index=False, float_format="%.6g", lineterminator="\n"
    )


def main() -> None:
    import cupy

    arguments = sys.argv[1:]
    path = None
    if "--write" in arguments:
        at = arguments.index("--write")
        path = arguments[at + 1]
        del arguments[at : at + 2]
    with_proposals, with_nearest = (name in arguments for name in ("--proposals", "--nearest"))
    arguments = [each for each in arguments if not each.startswith("--")]
    seed, count, *types = arguments
    types = types or ["float32", "float16", "bfloat16"]
    shapes = drawn(int(seed), int(count))
    compiled(shapes, types, with_nearest)
    rows = []
    stream = cupy.cuda.Stream(non_blocking=True)
    for dtype in types:
        with stream, Cublas(stream, dtype) as library, CublasLt(stream) as proposing:
            for number, shape in enumerate(shapes):
                if path and number % WRITTEN_EVERY == 0:
                    write(rows, path, seed)
                try:
                    lt = proposing if with_proposals else None
                    rows.append(measure(shape, dtype, library, lt, with_nearest))
                except Exception as error:  # one shape that fails must not lose the others
                    print(shape, dtype, type(error).__name__, str(error)[:200], flush=True)
    if path:
        write(rows, path, seed)
    table = pandas.DataFrame(rows)
    table["share"] = table["cublas_us"] / table["us"]
    for keys in (["dtype"], ["dtype", "family"]):
        grouped = table.groupby(keys)["share"]
        print(pandas.DataFrame({
            "shapes": grouped.size(), "mean": grouped.apply(lambda s: np.exp(np.log(s).mean())),
            "5 %": grouped.quantile(0.05), "least": grouped.min(),
            "below 0.9": grouped.apply(lambda s: (s < 0.9).mean()),
        }).round(3).to_string())  # fmt: skip


if __name__ == "__main__":
    main()
