"""The ways to a product with bias and activation: fused into it, and kernels after it.

Fused are rung 11, and cuBLASLt's product with an epilogue. After a product, in place: one kernel
by float4 (finish.cu, written for speed), or separate CuPy kernels, one function after the other, as
the expression is written in Python. With activations other than CURVE_OF, rung 11 and the product
alone are measured.
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
from gemmlab.records.runs import LARGE

NAME, PLAIN = "11_fused_epilogue", "10_register_banks"
FUSED, ALONE, CUBLAS = "11, fused", "10, product alone", "cuBLAS, product alone"
LT = "cuBLASLt, fused"
BY_FOUR, OURS_BY_FOUR = "cuBLAS, then one kernel by float4", "10, then one kernel by float4"
SEPARATE = "cuBLAS, then separate CuPy kernels"
SHOWN = {
    ALONE: "10, no epilogue", OURS_BY_FOUR: "10, then one kernel",
    BY_FOUR: "cuBLAS, then one kernel", SEPARATE: "cuBLAS, then two CuPy kernels",
}  # fmt: skip
"""What figures and tables of ReLU call some ways, in fewer words than the records."""
WAYS = (FUSED, LT, ALONE, CUBLAS, OURS_BY_FOUR, BY_FOUR, SEPARATE)
OF_PLAIN = (ALONE, OURS_BY_FOUR)  # run rung 10

# Of cuBLASLt: CUBLASLT_EPILOGUE_RELU_BIAS; attributes CUBLASLT_MATMUL_DESC_...
RELU_BIAS = 6
EPILOGUE, BIAS_POINTER = 7, 8

# Matrices of C's size that each operation of a CuPy expression reads and writes. A number or a row,
# as the bias is, counts as nothing.
OPERATIONS = {
    "ReLU": (("C + bias", 1, 1), ("maximum(C, 0)", 1, 1)),
    "GELU by tanh": (
        ("C + bias", 1, 1), ("T = C * C", 1, 1), ("T * C", 2, 1), ("T * 0.044715", 1, 1),
        ("T + C", 2, 1), ("T * 0.798", 1, 1), ("tanh(T)", 1, 1), ("T + 1", 1, 1), ("T * C", 2, 1),
        ("T * 0.5", 1, 1),
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

SOURCE_BY_FOUR = Path(__file__).with_name("finish.cu")


def ways(activation: str) -> tuple[str, ...]:
    """Those that are measured with an activation."""
    return WAYS if activation == CURVE_OF else (FUSED, ALONE)


def passes(way: str, activation: str) -> tuple[int, int]:
    """How often C's size is read and is written, the product's own store among it, with a bias."""
    if way in (BY_FOUR, OURS_BY_FOUR):
        return 1, 2
    if way == SEPARATE:
        operations = OPERATIONS[activation]
        return sum(reads for _, reads, _ in operations), 1 + sum(w for *_, w in operations)
    return 0, 1


def by_four() -> Callable:
    """finish(C, bias): in one kernel, four elements at a time; M a multiple of 8, N of 4."""
    import cupy

    kernel = cupy.RawKernel(SOURCE_BY_FOUR.read_text("utf-8"), "finish")

    def finish(C, bias) -> None:
        fours = C.shape[1] // 4
        kernel((-(-fours // 256), C.shape[0] // 8), (256,), (C, bias, numpy.int32(fours)))

    return finish


def separate_kernels(C, bias) -> None:
    """One CuPy function after the other, those of OPERATIONS[CURVE_OF]."""
    import cupy

    cupy.add(C, bias, out=C)
    cupy.maximum(C, 0, out=C)


class Followed:
    """A product and what follows it, to be launched and checked as a Kernel."""

    dtype = "float32"

    def __init__(self, name: str, product: Cublas | Kernel, finish: Callable | None) -> None:
        import cupy

        self.array_module, self.to_host, self.to_device = cupy, cupy.asnumpy, cupy.asarray
        self.name, self.product, self.finish = name, product, finish
        self.activation = CURVE_OF if finish else "none"
        self.takes_bias = finish is not None

    def launch_into(self, A, B, C, bias=None) -> None:
        launcher(self.product)(A, B, C, None)
        if self.finish:
            self.finish(C, bias)

    def launch(self, operands, alpha: float, beta: float) -> None:
        """Of alpha 1 and beta 0 alone."""
        self.launch_into(operands.A, operands.B, operands.C, operands.bias)


class FusedProduct(Product):
    """C = ReLU(A @ B + bias) in one call, float32 and row-major, for one shape (m, n, k).

    Raises NoAlgorithm where cuBLASLt proposes none.
    """

    name, activation, takes_bias = LT, CURVE_OF, True

    def __init__(self, cublas: CublasLt, m: int, n: int, k: int) -> None:
        import cupy

        super().__init__(cublas, (m, n, k), ("float32",) * 3, "float32")
        # Its bias, which has an element for each of its rows, is ours for each column.
        self.set(EPILOGUE, ctypes.c_uint32(RELU_BIAS))
        random = cupy.random.default_rng(0).random
        A, B, C, bias = (
            random(size, dtype=cupy.float32) for size in ((m, k), (k, n), (m, n), (n,))
        )
        self.set(BIAS_POINTER, ctypes.c_void_p(bias.data.ptr))  # its alignment counts
        self.choose(A, B, C, bias)

    def launch(self, operands, alpha: float, beta: float) -> None:
        """Of alpha 1 and beta 0 alone."""
        self.launch_into(operands.A, operands.B, operands.C, operands.bias)

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
        return FusedProduct(lt, *shape)
    if way in OF_PLAIN:
        rung, settings = plain_with(fused.settings)
        plain = Kernel(rung, settings, None, rung.path)
        if way == ALONE:
            return plain
        return Followed(way, plain, by_four())
    finish = {CUBLAS: None, BY_FOUR: by_four(), SEPARATE: separate_kernels}[way]
    return Followed(way, cublas, finish)


def plain_with(fused: ladder.Settings) -> tuple[ladder.Rung, ladder.Settings]:
    """Rung 10, with what these settings of 11 are without an activation."""
    rung = ladder.find(PLAIN)
    return rung, ladder.settings_for(rung, {name: fused[name] for name in rung.defaults})


def launcher(launched: Way | Cublas) -> Callable:
    """What launches it on (A, B, C, bias); the bias stays unread where there is no epilogue."""
    if isinstance(launched, Kernel):
        return lambda A, B, C, bias: launched.launch(launched.given(A, B, C, bias), 1.0, 0.0)
    if isinstance(launched, Cublas):
        return lambda A, B, C, bias: launched.launch_into(A, B, C)
    return launched.launch_into
