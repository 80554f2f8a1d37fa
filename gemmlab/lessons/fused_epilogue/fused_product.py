"""cuBLASLt's product with a bias and an activation fused into it."""

from __future__ import annotations

import ctypes
from typing import Any

from gemmlab.cuda.cublas import CublasError
from gemmlab.cuda.cublaslt import CublasLt, NoAlgorithm, Product

EPILOGUES = {"none": 4, "ReLU": 6, "GELU by tanh": 36}  # CUBLASLT_EPILOGUE_BIAS, with it RELU, GELU
EPILOGUE, BIAS_POINTER = 7, 8  # attributes of a product: CUBLASLT_MATMUL_DESC_...


class NoFusedEpilogue(CublasError):
    """cuBLASLt has no such epilogue, or proposes no algorithm for it."""


class FusedProduct(Product):
    """C = activation(A @ B + bias) in one call, float32 and row-major, for one shape (m, n, k).

    Raises NoFusedEpilogue where cuBLASLt fuses no such activation, or proposes no algorithm.
    """

    def __init__(self, cublas: CublasLt, m: int, n: int, k: int, activation: str) -> None:
        import cupy

        if activation not in EPILOGUES:
            raise NoFusedEpilogue(
                f"cuBLASLt fuses no {activation!r}; it fuses {', '.join(EPILOGUES)}."
            )
        super().__init__(cublas, (m, n, k), ("float32",) * 3, "float32")
        self.activation = activation
        # Its bias, which has an element for each of its rows, is ours for each column.
        self.set(EPILOGUE, ctypes.c_uint32(EPILOGUES[activation]))
        random = cupy.random.default_rng(0).random
        A, B, C, bias = (
            random(size, dtype=cupy.float32) for size in ((m, k), (k, n), (m, n), (n,))
        )
        self.set(BIAS_POINTER, ctypes.c_void_p(bias.data.ptr))  # its alignment counts
        try:
            self.choose(A, B, C, bias)
        except NoAlgorithm:
            raise NoFusedEpilogue(
                f"cuBLASLt proposes no algorithm that runs, for bias and {activation} at "
                f"M={m}, N={n}, K={k} in FP32."
            ) from None

    def launch_into(self, A: Any, B: Any, C: Any, bias: Any) -> None:
        """As Product's; the bias by its name, too, as a Kernel takes it."""
        super().launch_into(A, B, C, bias)

    def _launch(self, proposal: Any, *arrays: Any) -> int:
        """The status of one launch."""
        *matrices, bias = arrays
        self.set(BIAS_POINTER, ctypes.c_void_p(bias.data.ptr))
        return super()._launch(proposal, *matrices)
