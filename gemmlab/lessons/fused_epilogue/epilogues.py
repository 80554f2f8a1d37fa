"""The ways to a product with bias and activation: fused into it, and kernels after it.

Fused are rung 11, and cuBLASLt's product with an epilogue. After a product, in place: one kernel by
float4 (finish.cu, written for speed), one CuPy elementwise kernel, or separate CuPy kernels, one
function after the other, as the expression is written in Python.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from gemmlab import ladder
from gemmlab.cuda.cublas import Cublas
from gemmlab.cuda.cublaslt import CublasLt, Product
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import random_matrix
from gemmlab.records.runs import LARGE

NAME, PLAIN = "11_fused_epilogue", "10_register_banks"
FUSED, ALONE, CUBLAS = "11, fused", "10, product alone", "cuBLAS, product alone"
LT = "cuBLASLt, fused"
BY_FOUR, OURS_BY_FOUR = "cuBLAS, then one kernel by float4", "10, then one kernel by float4"
ONE_KERNEL, SEPARATE = "cuBLAS, then one CuPy kernel", "cuBLAS, then separate CuPy kernels"
SHOWN = {
    ALONE: "10, no epilogue", OURS_BY_FOUR: "10, then one kernel",
    BY_FOUR: "cuBLAS, then one kernel", SEPARATE: "cuBLAS, then two CuPy kernels",
}  # fmt: skip
"""What figures and tables of ReLU call some ways, in fewer words than the records."""
WAYS = (FUSED, LT, ALONE, CUBLAS, OURS_BY_FOUR, BY_FOUR, ONE_KERNEL, SEPARATE)
OF_PLAIN = (ALONE, OURS_BY_FOUR)  # run rung 10

# Of cuBLASLt: CUBLASLT_EPILOGUE_BIAS, with it RELU, GELU; attributes CUBLASLT_MATMUL_DESC_...
EPILOGUES = {"none": 4, "ReLU": 6, "GELU by tanh": 36}
EPILOGUE, BIAS_POINTER = 7, 8

# Matrices of C's size that each operation of a CuPy expression reads and writes. A number or a row,
# as the bias is, counts as nothing.
OPERATIONS = {
    "none": (("C + bias", 1, 1),),
    "ReLU": (("C + bias", 1, 1), ("maximum(C, 0)", 1, 1)),
    "GELU by tanh": (
        ("C + bias", 1, 1), ("T = C * C", 1, 1), ("T * C", 2, 1), ("T * 0.044715", 1, 1),
        ("T + C", 2, 1), ("T * 0.798", 1, 1), ("tanh(T)", 1, 1), ("T + 1", 1, 1), ("T * C", 2, 1),
        ("T * 0.5", 1, 1),
    ),
    "GELU by erf": (
        ("C + bias", 1, 1), ("T = C * 0.707", 1, 1), ("erf(T)", 1, 1), ("T + 1", 1, 1),
        ("T * C", 2, 1), ("T * 0.5", 1, 1),
    ),
}  # fmt: skip

SIDES = (1024, 4096, 8192)
DEPTHS = (64, 128, 256, 512, 1024, 2048, 4096)
CURVE = tuple((side, side, depth) for side in SIDES for depth in DEPTHS)
"""(M, N, K) at which all ways are measured with the activation CURVE_OF."""
CURVE_OF = "ReLU"
THIN = (8192, 8192, 256)
"""(M, N, K) at which bytes of DRAM are counted."""
WITH_ALL = (LARGE, THIN)
"""(M, N, K) at which all activations are measured."""

# The activations once more, as a C++ expression of x for CuPy's elementwise kernels.
EXPRESSIONS = {
    "none": "x",
    "ReLU": "x < 0.0f ? 0.0f : x",
    "GELU by tanh": "0.5f * x * (1.0f + tanhf(0.797884561f * (x + 0.044715f * x * x * x)))",
    "GELU by erf": "0.5f * x * (1.0f + erff(0.707106781f * x))",
}
SOURCE_BY_FOUR = Path(__file__).with_name("finish.cu")


def ways(activation: str) -> tuple[str, ...]:
    """Those there are with an activation: cuBLASLt has not every one."""
    return tuple(way for way in WAYS if way != LT or activation in EPILOGUES)


def passes(way: str, activation: str) -> tuple[int, int]:
    """How often C's size is read and is written, the product's own store among it, with a bias."""
    if way in (BY_FOUR, OURS_BY_FOUR, ONE_KERNEL):
        return 1, 2
    if way == SEPARATE:
        operations = OPERATIONS[activation]
        return sum(reads for _, reads, _ in operations), 1 + sum(w for *_, w in operations)
    return 0, 1


def predicted_bytes(way: str, activation: str, m: int, n: int, k: int) -> tuple[int, int]:
    """Bytes of DRAM (read, written) if A and B are read once and C passes as `passes` says."""
    reads, writes = passes(way, activation)
    return 4 * (m * k + k * n + reads * m * n), 4 * writes * m * n


def by_four(activation: str) -> Callable:
    """finish(C, bias): in one kernel, four elements at a time; M a multiple of 8, N of 4."""
    import cupy

    code = SOURCE_BY_FOUR.read_text("utf-8").replace("EXPRESSION;", f"{EXPRESSIONS[activation]};")
    kernel = cupy.RawKernel(code, "finish")

    def finish(C, bias) -> None:
        fours = C.shape[1] // 4
        kernel((-(-fours // 256), C.shape[0] // 8), (256,), (C, bias, numpy.int32(fours)))

    return finish


def one_kernel(activation: str) -> Callable:
    """finish(C, bias): in one kernel that reads and writes each element once."""
    import cupy

    kernel = cupy.ElementwiseKernel(
        "float32 c, raw float32 bias, int32 n",
        "float32 out",
        f"const float x = c + bias[(unsigned)i % (unsigned)n]; out = {EXPRESSIONS[activation]}",
        "finish",
    )
    return lambda C, bias: kernel(C.reshape(-1), bias, bias.size, C.reshape(-1))


def separate_kernels(activation: str, m: int, n: int) -> Callable:
    """finish(C, bias): one CuPy function after the other, those of OPERATIONS."""
    import cupy
    from cupyx.scipy.special import erf

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


class Followed:
    """A product and what follows it, to be launched and checked as a Kernel."""

    dtype = "float32"

    def __init__(
        self, name: str, product: Cublas | Kernel, activation: str, finish: Callable | None
    ) -> None:
        import cupy

        self.array_module, self.to_host, self.to_device = cupy, cupy.asnumpy, cupy.asarray
        self.name, self.product, self.finish = name, product, finish
        self.activation = activation if finish else "none"

    def random_bias(self, n: int, seed: int):
        return random_matrix(1, n, seed)[0] if self.finish else None

    def launch_into(self, A, B, C, bias=None) -> None:
        self.product.launch_into(A, B, C)
        if self.finish:
            self.finish(C, bias)

    def launch(self, operands, alpha: float, beta: float) -> None:
        """Of alpha 1 and beta 0 alone."""
        self.launch_into(operands.A, operands.B, operands.C, operands.bias)


class FusedProduct(Product):
    """C = activation(A @ B + bias) in one call, float32 and row-major, for one shape (m, n, k).

    activation: of EPILOGUES. Raises NoAlgorithm where cuBLASLt proposes none.
    """

    def __init__(self, cublas: CublasLt, m: int, n: int, k: int, activation: str) -> None:
        import cupy

        super().__init__(cublas, (m, n, k), ("float32",) * 3, "float32")
        self.activation = activation
        # Its bias, which has an element for each of its rows, is ours for each column.
        self.set(EPILOGUE, ctypes.c_uint32(EPILOGUES[activation]))
        random = cupy.random.default_rng(0).random
        A, B, C, bias = (
            random(size, dtype=cupy.float32) for size in ((m, k), (k, n), (m, n), (n,))
        )
        self.set(BIAS_POINTER, ctypes.c_void_p(bias.data.ptr))  # its alignment counts
        self.choose(A, B, C, bias)

    name = LT

    def launch(self, operands, alpha: float, beta: float) -> None:
        """Of alpha 1 and beta 0 alone."""
        self.launch_into(operands.A, operands.B, operands.C, operands.bias)

    def random_bias(self, n: int, seed: int):
        return random_matrix(1, n, seed)[0]

    def launch_into(self, A: Any, B: Any, C: Any, bias: Any) -> None:
        """As Product's; the bias by its name, too, as a Kernel takes it."""
        super().launch_into(A, B, C, bias)

    def _launch(self, proposal: Any, *arrays: Any) -> int:
        """The status of one launch."""
        *matrices, bias = arrays
        self.set(BIAS_POINTER, ctypes.c_void_p(bias.data.ptr))
        return super()._launch(proposal, *matrices)


Way = Kernel | Followed | FusedProduct


def make(way: str, cublas: Cublas, lt: CublasLt, fused: Kernel, shape: tuple[int, int, int]) -> Way:
    """What to launch for a way at one shape (M, N, K). Raises NoAlgorithm."""
    if way == FUSED:
        return fused
    if way == LT:
        return FusedProduct(lt, *shape, fused.activation)
    if way in OF_PLAIN:
        rung, settings = plain_with(fused.settings)
        plain = Kernel(rung, settings, None, rung.path)
        if way == ALONE:
            return plain
        return Followed(way, plain, fused.activation, by_four(fused.activation))
    finish = {
        CUBLAS: lambda: None,
        BY_FOUR: lambda: by_four(fused.activation),
        ONE_KERNEL: lambda: one_kernel(fused.activation),
        SEPARATE: lambda: separate_kernels(fused.activation, *shape[:2]),
    }[way]()
    return Followed(way, cublas, fused.activation, finish)


def plain_with(fused: ladder.Settings) -> tuple[ladder.Rung, ladder.Settings]:
    """Rung 10, with what these settings of 11 are without an activation."""
    rung = ladder.find(PLAIN)
    return rung, ladder.settings_for(rung, {name: fused[name] for name in rung.defaults})


def launcher(launched: Way) -> Callable:
    """What launches it on (A, B, C, bias); the bias stays unread where there is no epilogue."""
    if launched.random_bias(1, 0) is None:
        return lambda A, B, C, bias: launched.launch_into(A, B, C)
    return lambda A, B, C, bias: launched.launch_into(A, B, C, bias=bias)
