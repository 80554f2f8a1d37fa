"""Measure what a bias and an activation cost: in rung 11, and after cuBLAS in kernels of their own.

    python benchmarks/fused_epilogue.py

needs a GPU, and Nsight Compute for the bytes of DRAM. Every way of gemmlab.epilogues is verified
and timed in turn with rung 11, both with the same random inputs of their own; the results go to
results/<gpu>-epilogue.csv. After cuBLAS, in place and without allocations:

- one kernel by float4: BY_FOUR below, written for speed: it reads C, adds the bias, applies the
  activation and writes C, four elements at a time, with eight loads of a thread under way.
- one CuPy kernel: the same as a CuPy elementwise kernel, an element a thread.
- separate CuPy kernels: one function after the other, as the expression is written in Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import cupy
import cupyx.profiler
import numpy as np
import pandas
from cupyx.scipy.special import erf

import gemmlab as gl
from gemmlab import epilogues, ladder, profiler
from gemmlab.activations import ACTIVATIONS
from gemmlab.cublas import Cublas
from gemmlab.device import require_gpu, software_versions
from gemmlab.fingerprint import short_code
from gemmlab.kernel import Kernel
from gemmlab.timing import (
    PAIRS,
    Side,
    Spread,
    alternate,
    input_sets,
    make_sets,
    now,
    require_verified,
)
from gemmlab.verify import check_sample

# The activations once more, as a C++ expression of x for CuPy's elementwise kernels.
EXPRESSIONS = {
    "none": "x",
    "ReLU": "x < 0.0f ? 0.0f : x",
    "GELU by tanh": "0.5f * x * (1.0f + tanhf(0.797884561f * (x + 0.044715f * x * x * x)))",
    "GELU by erf": "0.5f * x * (1.0f + erff(0.707106781f * x))",
}
BY_FOUR = r"""
__device__ float finished(float x) { return EXPRESSION; }

// A block has 256 groups of four columns, a thread eight rows of its group; M is a multiple of 8.
extern "C" __global__ void finish(float4* C, const float4* bias, int fours)
{
    const int four = blockIdx.x * 256 + threadIdx.x;
    if (four >= fours) return;
    const float4 add = bias[four];
    float4* mine = C + (size_t)blockIdx.y * 8 * fours + four;
    float4 x[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = mine[(size_t)i * fours];
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        mine[(size_t)i * fours] = make_float4(finished(x[i].x + add.x), finished(x[i].y + add.y),
                                              finished(x[i].z + add.z), finished(x[i].w + add.w));
}
"""
DRAM_OF = ("ReLU", "GELU by erf")  # for which bytes of DRAM are counted
DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
SEED = 2024


def by_four(activation: str) -> Callable:
    """finish(C, bias): in one kernel, four elements at a time; M a multiple of 8, N of 4."""
    code = BY_FOUR.replace("EXPRESSION", EXPRESSIONS[activation])
    kernel = cupy.RawKernel(code, "finish")

    def finish(C, bias) -> None:
        (m, n), fours = C.shape, C.shape[1] // 4
        if m % 8 or n % 4:
            raise ValueError(f"C is {m}×{n}: M must be a multiple of 8, N of 4")
        kernel((-(-fours // 256), m // 8), (256,), (C, bias, np.int32(fours)))

    return finish


def one_kernel(activation: str) -> Callable:
    """finish(C, bias): in one kernel that reads and writes each element once."""
    kernel = cupy.ElementwiseKernel(
        "float32 c, raw float32 bias, int32 n",
        "float32 out",
        f"const float x = c + bias[(unsigned)i % (unsigned)n]; out = {EXPRESSIONS[activation]}",
        "finish",
    )
    return lambda C, bias: kernel(C.reshape(-1), bias, bias.size, C.reshape(-1))


def separate_kernels(activation: str, m: int, n: int) -> Callable:
    """finish(C, bias): one CuPy function after the other, those of epilogues.OPERATIONS."""
    T = cupy.empty((m, n), cupy.float32) if "GELU" in activation else None

    def finish(C, bias) -> None:
        cupy.add(C, bias, out=C)
        if activation == "ReLU":
            cupy.maximum(C, 0, out=C)
        elif activation == "GELU by tanh":
            cupy.multiply(C, C, out=T)
            cupy.multiply(T, C, out=T)
            cupy.multiply(T, 0.044715, out=T)
            cupy.add(T, C, out=T)
            cupy.multiply(T, 0.797884561, out=T)
            cupy.tanh(T, out=T)
        elif activation == "GELU by erf":
            cupy.multiply(C, 0.707106781, out=T)
            erf(T, out=T)
        if T is not None:
            cupy.add(T, 1, out=T)
            cupy.multiply(T, C, out=T)
            cupy.multiply(T, 0.5, out=C)

    return finish


class AfterCublas:
    """cuBLAS and what follows it, to be launched and checked as a Kernel."""

    dtype, array_module, to_host = "float32", cupy, staticmethod(cupy.asnumpy)
    to_device = staticmethod(cupy.asarray)

    def __init__(self, name: str, cublas: Cublas, activation: str, finish: Callable | None) -> None:
        self.name, self.cublas, self.finish = name, cublas, finish
        self.activation = activation if finish else "none"

    def random_bias(self, n: int, seed: int):
        return gl.random_matrix(1, n, seed)[0] if self.finish else None

    def launch_into(self, A, B, C, bias=None) -> None:
        self.cublas.launch_into(A, B, C)
        if self.finish:
            self.finish(C, bias)


def make(way: str, cublas: Cublas, fused: Kernel, m: int, n: int):
    """What to launch for a way."""
    if way == epilogues.FUSED:
        return fused
    if way == epilogues.ALONE:
        settings = {key: value for key, value in fused.settings.items() if key != "ACTIVATION"}
        return gl.load(epilogues.PLAIN, **settings)
    finish = {
        epilogues.CUBLAS: lambda: None,
        epilogues.BY_FOUR: lambda: by_four(fused.activation),
        epilogues.ONE_KERNEL: lambda: one_kernel(fused.activation),
        epilogues.SEPARATE: lambda: separate_kernels(fused.activation, m, n),
    }[way]()
    return AfterCublas(way, cublas, fused.activation, finish)


def fused_kernel(m: int, n: int, k: int, activation: str) -> Kernel:
    value = ACTIVATIONS.index(activation)
    return gl.load(epilogues.NAME, shape=(m, n, k), ACTIVATION=value)


def measured(m: int, n: int, k: int, activation: str) -> Iterator[dict[str, object]]:
    """A row for each way at one shape."""
    here, versions = require_gpu("Measuring epilogues"), software_versions()
    fused = fused_kernel(m, n, k, activation)
    stream = cupy.cuda.Stream(non_blocking=True)
    count = input_sets(4 * (m * k + k * n + m * n), here.l2_bytes)
    with stream, Cublas(stream) as cublas:
        sets = make_sets(m, n, k, 2 * count)
        bias = cupy.asarray(gl.random_matrix(1, n, SEED)[0])
        sets = [(*matrices, bias) for matrices in sets]
        for way in epilogues.WAYS:
            launched = make(way, cublas, fused, m, n)
            if isinstance(launched, Kernel):
                require_verified(launched)
            check_sample(launched, m, n, k)
            stream.synchronize()
            ours = Side(launcher(fused), sets[:count], stream)
            other = Side(launcher(launched), sets[count:], stream)
            ours.plan()
            other.plan()
            our_ms, other_ms, state = alternate(ours, other, PAIRS, f"{way} {m}x{n}x{k}")
            time, ratio = (
                Spread.of(other_ms, min),
                Spread.of([b / a for a, b in zip(our_ms, other_ms, strict=True)], min),
            )
            settings = ladder.written(fused.settings)
            yield {
                "m": m, "n": n, "k": k, "activation": activation, "way": way, "settings": settings,
                "time_ms": time.median, "time_q1_ms": time.q1, "time_q3_ms": time.q3,
                "fused_ms": Spread.of(our_ms, min).median, "ratio": ratio.median,
                "ratio_q1": ratio.q1, "ratio_q3": ratio.q3, "pairs": PAIRS,
                "sm_clock_mhz": state.sm_clock_mhz, "power_w": state.power_w,
                "code": short_code(fused.rung.path, fused.settings), "gpu": here.name,
                **{name: versions[name] for name in ("driver", "cuda", "cublas", "cupy")},
                "ncu": profiler.ncu_version(), "recorded": now(),
            }  # fmt: skip


def launcher(launched) -> Callable:
    """What launches it on (A, B, C, bias); the bias stays unread where there is no epilogue."""
    if launched.random_bias(1, 0) is None:
        return lambda A, B, C, bias: launched.launch_into(A, B, C)
    return lambda A, B, C, bias: launched.launch_into(A, B, C, bias=bias)


def dram(way: str, activation: str) -> dict[str, float]:
    """Bytes of DRAM of one run of a way at epilogues.THIN, all its kernels together."""
    child = [__file__, "--profile", way, activation]
    found = profiler.profiled_together(child, DRAM, f"{way}, {activation}")
    return dict(zip(("dram_read_bytes", "dram_write_bytes"), found.values(), strict=True))


def profile(way: str, activation: str) -> None:
    """Run one way once with the profiler on; this is what runs under ncu."""
    m, n, k = epilogues.THIN
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, Cublas(stream) as cublas:
        launched = make(way, cublas, fused_kernel(m, n, k, activation), m, n)
        (matrices,) = make_sets(m, n, k, 1)
        bias = cupy.asarray(gl.random_matrix(1, n, SEED)[0])
        launch = launcher(launched)
        launch(*matrices, bias)  # loads and compiles
        stream.synchronize()
        with cupyx.profiler.profile():
            launch(*matrices, bias)
            stream.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", nargs=2, metavar=("WAY", "ACTIVATION"),
                        help="run one way once, as Nsight Compute has it run")  # fmt: skip
    if found := parser.parse_args().profile:
        return profile(*found)
    here, rows = require_gpu("Measuring epilogues"), []
    wanted = [(shape, epilogues.CURVE_OF) for shape in epilogues.CURVE]
    wanted += [
        (shape, activation)
        for shape in epilogues.WITH_ALL
        for activation in ACTIVATIONS
        if (shape, activation) not in wanted
    ]
    for shape, activation in wanted:
        for row in measured(*shape, activation):
            if shape == epilogues.THIN and activation in DRAM_OF:
                row |= dram(row["way"], activation)
            rows.append(row)
            print(f"{shape} {activation}, {row['way']}: {row['time_ms']:.4g} ms, "
                  f"{row['ratio']:.3f} of 11", flush=True)  # fmt: skip
    print(epilogues.write(pandas.DataFrame(rows, columns=epilogues.COLUMNS), here.slug))


if __name__ == "__main__":
    main()
