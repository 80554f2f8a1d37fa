"""gl.matmul at drawn shapes, beside cuBLAS: GPU time alone, in turn.

    python benchmarks/judged.py SEED COUNT [DTYPE ...] [--write TABLE.csv]

For each shape of shapes.drawn(SEED, COUNT) both are captured into CUDA graphs of several calls,
over operands that take turns so that L2 does not hold them, and the graphs are launched in turn.
Prints the geometric mean of cuBLAS's time over ours, and its quantiles; `cublas` is its first
choice.
"""

from __future__ import annotations

import sys
from statistics import median

import numpy as np
import pandas
from shapes import drawn

import gemmlab as gl
from gemmlab.cuda.cublas import Cublas
from gemmlab.cuda.device import gpu
from gemmlab.measure.timing import now

ROUNDS, GRAPH_S, L2_BYTES, MOST_SETS, MOST_CALLS = 7, 4e-4, 1 << 27, 8, 64


def measure(shape, dtype: str) -> dict:
    """A row of the table: µs of both, and what gl.matmul took."""
    import cupy

    m, n, k = shape.m, shape.n, shape.k
    stored = np.dtype({"bfloat16": "uint16"}.get(dtype, dtype))
    size = stored.itemsize * (m * k + k * n + m * n)
    sizes = (m, k), (k, n)
    sets = min(MOST_SETS, max(1, -(-L2_BYTES // size)))
    random = cupy.random.default_rng(1)

    def drawn_matrix(size):
        X = 2 * random.random(size, dtype=np.float32) - 1
        if dtype == "bfloat16":
            return (X.view(np.uint32) >> 16).astype(np.uint16)
        return X.astype(stored)

    operands = [(*map(drawn_matrix, sizes), cupy.empty((m, n), stored)) for _ in range(sets)]
    stream = cupy.cuda.Stream(non_blocking=True)

    def graph(call, count: int):
        stream.begin_capture()
        for i in range(count):
            call(*operands[i % sets])
        return stream.end_capture()

    def ms(launched) -> float:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(stream)
        launched.launch(stream)
        end.record(stream)
        end.synchronize()
        return cupy.cuda.get_elapsed_time(begin, end)

    def ours(A, B, out):
        gl.matmul(A, B, out=out, dtype=dtype)

    with stream, Cublas(stream, dtype) as library:
        cublas = library.launch_into
        times = {}
        for call in (ours, cublas):
            for operand in operands[:2]:
                call(*operand)
            once = graph(call, 2)
            ms(once)
            times[call] = ms(once) / 2
        count = int(max(2, min(MOST_CALLS, GRAPH_S * 1e3 / min(times.values()))))
        graphs = {call: graph(call, count) for call in (ours, cublas)}
        samples = {call: [] for call in graphs}
        for turn in range(ROUNDS):
            for call in sorted(graphs, key=lambda each: each is ours, reverse=bool(turn % 2)):
                samples[call].append(ms(graphs[call]) / count)
    chosen = gl.choose((m, n, k), dtype)
    return {
        "family": shape.family, "m": m, "n": n, "k": k, "dtype": dtype,
        "us": 1e3 * median(samples[ours]), "cublas_us": 1e3 * median(samples[cublas]),
        "rung": chosen.rung, "settings": str(chosen.settings), "why": chosen.why[:40],
    }  # fmt: skip


def main() -> None:
    arguments = sys.argv[1:]
    path = None
    if "--write" in arguments:
        at = arguments.index("--write")
        path = arguments[at + 1]
        del arguments[at : at + 2]
    seed, count, *types = arguments
    rows = []
    for dtype in types or ["float32", "float16"]:
        for shape in drawn(int(seed), int(count)):
            try:
                rows.append(measure(shape, dtype))
            except Exception as error:  # one shape that fails must not lose the others
                print(shape, dtype, type(error).__name__, str(error)[:200], flush=True)
    table = pandas.DataFrame(rows)
    table["share"] = table["cublas_us"] / table["us"]
    if path:
        table.assign(seed=seed, gpu=gpu().name, recorded=now()).to_csv(
            path, index=False, float_format="%.6g", lineterminator="\n"
        )
    for keys in (["dtype"], ["dtype", "family"]):
        grouped = table.groupby(keys)["share"]
        print(pandas.DataFrame({
            "shapes": grouped.size(), "mean": grouped.apply(lambda s: np.exp(np.log(s).mean())),
            "5 %": grouped.quantile(0.05), "least": grouped.min(),
            "below 0.9": grouped.apply(lambda s: (s < 0.9).mean()),
        }).round(3).to_string())  # fmt: skip


if __name__ == "__main__":
    main()
