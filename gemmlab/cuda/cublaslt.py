"""cuBLASLt's products: with a bias and an activation fused into them, of 8 and of 16 bits.

Called through its C interface.

Numbers of enumerations and the layout of structures are those of NVIDIA's cublasLt.h of CUDA 12 and
13; the functions are described in NVIDIA, "cuBLAS", chapter "Using the cuBLASLt API".
"""

from __future__ import annotations

import ctypes
from functools import cache

from gemmlab.cuda.cublas import (
    COMPUTE_32F,
    WORKSPACE_BYTES,
    CublasError,
    refuse_reduced_precision,
)

EPILOGUES = {"none": 4, "ReLU": 6, "GELU by tanh": 36}  # CUBLASLT_EPILOGUE_BIAS, with it RELU, GELU
FLOAT, INT32 = 0, 10  # CUDA_R_32F, CUDA_R_32I
COMPUTE_32I = 72  # CUBLAS_COMPUTE_32I: whole factors and sums
INT8, E4M3, E5M2 = 3, 28, 29  # CUDA_R_8I, CUDA_R_8F_E4M3, CUDA_R_8F_E5M2
EIGHT_BITS = {  # of A, of B, of C, of the factors, and how it computes
    "int8": (INT8, INT8, INT32, INT32, COMPUTE_32I),
    "float8_e4m3": (E4M3, E4M3, FLOAT, FLOAT, COMPUTE_32F),
    "float8_e5m2": (E5M2, E4M3, FLOAT, FLOAT, COMPUTE_32F),  # it takes no two of E5M2
}
FP8_CODES = {"float8_e4m3": 28, "float8_e5m2": 29}  # CUDA_R_8F_...
RESULT_CODES = {"bfloat16": 14, "float32": FLOAT}  # CUDA_R_...
# Of their first factor, our B, and of their second:
# CUBLASLT_MATMUL_DESC_{A,B}_SCALE_POINTER and _MODE.
SCALE_POINTERS, SCALE_MODES = (17, 18), (31, 32)
# Kind of scales -> modes of both, CUBLASLT_MATMUL_MATRIX_SCALE_...: SCALAR_32F; OUTER_VEC_32F;
# BLK128x128_32F and VEC128_32F.
MODES = {"tensors": (0, 0), "rows": (3, 3), "blocks": (5, 4)}
SIXTEEN_BITS = {"float16": 2, "bfloat16": 14}  # CUDA_R_16F, CUDA_R_16BF
FAST_ACCUMULATION = 25  # CUBLASLT_MATMUL_DESC_FAST_ACCUM
SCALES_TOGETHER = 4  # a row of scales of 128×128 blocks is so many, or a multiple
FIRST_TRANSPOSED = 3  # attribute of a product: CUBLASLT_MATMUL_DESC_TRANSA
TRANSPOSED = 1  # CUBLAS_OP_T
EPILOGUE, BIAS_POINTER = 7, 8  # attributes of a product: CUBLASLT_MATMUL_DESC_...
MAX_WORKSPACE_BYTES = 1  # attribute of a preference: CUBLASLT_MATMUL_PREF_...
PROPOSALS = 8  # algorithms that are asked for, and tried
TRIES = 5  # of each, the best of which counts


class NoFusedEpilogue(CublasError):
    """cuBLASLt has no such epilogue, or proposes no algorithm for it."""


class NoAlgorithm(CublasError):
    """cuBLASLt proposes no algorithm that runs, for a product of this shape and these types."""


class _Proposal(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8), ("workspace_bytes", ctypes.c_size_t),
        ("status", ctypes.c_int), ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4),
    )  # fmt: skip


@cache
def _library() -> ctypes.CDLL:
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path)
    except (ImportError, RuntimeError, OSError) as error:
        raise CublasError(
            f"cuBLASLt cannot be loaded: {str(error).splitlines()[0]}; it comes with cuBLAS, in "
            "the CUDA toolkit or the package nvidia-cublas."
        ) from error


class CublasLt:
    """A cuBLASLt handle with a workspace, for one CuPy stream.

    Use as a context manager: leaving it frees the handle, and the products made with it end there.
    Raises CublasError where the library is missing, or the environment asks for less than FP32.
    """

    def __init__(self, stream) -> None:
        import cupy

        refuse_reduced_precision()
        self.stream = stream
        self._library = _library()
        self.workspace = cupy.empty(WORKSPACE_BYTES, dtype=cupy.uint8)
        self._made: list[tuple[str, ctypes.c_void_p]] = []
        self.handle = self.make("cublasLtCreate", "cublasLtDestroy")

    def status(self, function: str, *arguments) -> int:
        """What a function of the library returns, 0 for success."""
        return getattr(self._library, function)(*arguments)

    def call(self, function: str, *arguments) -> None:
        if status := self.status(function, *arguments):
            raise CublasError(f"{function} returned status {status}.")

    def make(self, function: str, destroy: str, *arguments) -> ctypes.c_void_p:
        """What `function` makes of the arguments; `destroy` frees it in the end."""
        made = ctypes.c_void_p()
        self.call(function, ctypes.byref(made), *arguments)
        self._made.append((destroy, made))
        return made

    def __enter__(self) -> CublasLt:
        return self

    def __exit__(self, *_) -> None:
        for destroy, made in reversed(self._made):
            self.call(destroy, made)
        self._made.clear()


class _Product:
    """A product of one shape (m, n, k), row-major, by the fastest algorithm that is proposed.

    `arrays` of its methods: A, B, C and what else a kind of product takes.
    """

    def __init__(self, cublas: CublasLt, factors: int, compute: int) -> None:
        import cupy

        self.array_module, self.to_host, self.to_device = cupy, cupy.asnumpy, cupy.asarray
        self._cublas = cublas
        number = ctypes.c_float if factors == FLOAT else ctypes.c_int32
        self._one, self._zero = number(1), number(0)
        self._product = cublas.make(
            "cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy", compute, factors
        )

    def _set(self, attribute: int, value) -> None:
        self._cublas.call(
            "cublasLtMatmulDescSetAttribute", self._product, attribute, ctypes.byref(value),
            ctypes.c_size_t(ctypes.sizeof(value)),
        )  # fmt: skip

    def _layout(self, rows: int, columns: int, element: int) -> ctypes.c_void_p:
        return self._cublas.make(
            "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutDestroy", element,
            ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows),
        )  # fmt: skip

    def _lay_out(self, b, a, c) -> None:
        """cuBLASLt stores by columns: it is given the transposes, C.T = B.T @ A.T.

        Of each: rows and columns as cuBLASLt sees them, and the number of its type.
        """
        self._b, self._a, self._c = (self._layout(*each) for each in (b, a, c))

    def _choose(self, *arrays) -> bool:
        """Try all proposals, and keep the fastest; False where none runs."""
        proposals = self._proposals()
        times = [self._best_ms(one, *arrays) for one in proposals]
        runs = [(ms, at) for at, ms in enumerate(times) if ms is not None]
        if runs:
            self._chosen = proposals[min(runs)[1]]
        return bool(runs)

    def _proposals(self) -> list[_Proposal]:
        cublas, size = self._cublas, ctypes.c_size_t(WORKSPACE_BYTES)
        wish = cublas.make("cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy")
        cublas.call(
            "cublasLtMatmulPreferenceSetAttribute", wish, MAX_WORKSPACE_BYTES, ctypes.byref(size),
            ctypes.c_size_t(ctypes.sizeof(size)),
        )  # fmt: skip
        found, count = (_Proposal * PROPOSALS)(), ctypes.c_int()
        status = cublas.status(
            "cublasLtMatmulAlgoGetHeuristic", cublas.handle, self._product, self._b, self._a,
            self._c, self._c, wish, PROPOSALS, found, ctypes.byref(count),
        )  # fmt: skip
        return [] if status else [one for one in found[: count.value] if one.status == 0]

    def _best_ms(self, proposal: _Proposal, *arrays) -> float | None:
        """The shortest of TRIES launches in milliseconds; None where it does not run."""
        import cupy

        stream = self._cublas.stream
        if self._launch(proposal, *arrays):
            return None
        times = []
        for _ in range(TRIES):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record(stream)
            self._launch(proposal, *arrays)
            end.record(stream)
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(start, end))
        return min(times)

    def _launch(self, proposal: _Proposal, A, B, C) -> int:
        """The status of one launch."""
        first, second, result = (ctypes.c_void_p(X.data.ptr) for X in (B, A, C))
        workspace = self._cublas.workspace
        return self._cublas.status(
            "cublasLtMatmul", self._cublas.handle, self._product, ctypes.byref(self._one),
            first, self._b, second, self._a, ctypes.byref(self._zero), result, self._c,
            result, self._c, proposal.algorithm, ctypes.c_void_p(workspace.data.ptr),
            ctypes.c_size_t(WORKSPACE_BYTES), ctypes.c_void_p(self._cublas.stream.ptr),
        )  # fmt: skip

    def launch_into(self, *arrays) -> None:
        """On C-contiguous CuPy arrays of the shape; no checks, no synchronisation."""
        if status := self._launch(self._chosen, *arrays):
            raise CublasError(f"cublasLtMatmul returned status {status}.")


class FusedProduct(_Product):
    """C = activation(A @ B + bias) in one call, float32 and row-major, for one shape (m, n, k).

    Of the algorithms that cuBLASLt proposes for the shape it takes the one that is fastest here.
    Raises NoFusedEpilogue for an activation that cuBLASLt does not fuse, and where it proposes no
    algorithm that runs.
    """

    dtype = "float32"
    name = "cublasLt"

    def __init__(self, cublas: CublasLt, m: int, n: int, k: int, activation: str) -> None:
        import cupy

        if activation not in EPILOGUES:
            raise NoFusedEpilogue(
                f"cuBLASLt fuses no {activation!r}; it fuses {', '.join(EPILOGUES)}."
            )
        super().__init__(cublas, FLOAT, COMPUTE_32F)
        self.activation = activation
        self._set(EPILOGUE, ctypes.c_uint32(EPILOGUES[activation]))
        # Its bias, which has an element for each of its rows, is ours for each column.
        self._lay_out((n, k, FLOAT), (k, m, FLOAT), (n, m, FLOAT))
        random = cupy.random.default_rng(0).random
        A, B, C, bias = (
            random(size, dtype=cupy.float32) for size in ((m, k), (k, n), (m, n), (n,))
        )
        self._set(BIAS_POINTER, ctypes.c_void_p(bias.data.ptr))  # its alignment counts
        if not self._choose(A, B, C, bias):
            raise NoFusedEpilogue(
                f"cuBLASLt proposes no algorithm that runs, for bias and {activation} at "
                f"M={m}, N={n}, K={k} in FP32."
            )

    def launch_into(self, A, B, C, bias) -> None:
        """As _Product's; the bias by its name, too, as a Kernel takes it."""
        super().launch_into(A, B, C, bias)

    def _launch(self, proposal: _Proposal, A, B, C, bias) -> int:
        """The status of one launch."""
        self._set(BIAS_POINTER, ctypes.c_void_p(bias.data.ptr))
        return super()._launch(proposal, A, B, C)


class SixteenBitProduct(_Product):
    """C = A @ B of `dtype`, one of SIXTEEN_BITS, row-major, sums in float32, for one (m, n, k).

    It is launched as a Kernel, with alpha 1 and beta 0. Raises NoAlgorithm where cuBLASLt proposes
    none that runs.
    """

    name = "cublasLt"
    activation = "none"

    def __init__(self, cublas: CublasLt, m: int, n: int, k: int, dtype: str) -> None:
        import cupy

        super().__init__(cublas, FLOAT, COMPUTE_32F)
        self.dtype, element = dtype, SIXTEEN_BITS[dtype]
        self._lay_out((n, k, element), (k, m, element), (n, m, element))
        # Bits of 0.0078 to 1.9 in float16, and of numbers up to 1 in bfloat16: zeros cost no power.
        random = cupy.random.default_rng(0).integers
        A, B = (random(0x2000, 0x3F80, size).astype(cupy.uint16) for size in ((m, k), (k, n)))
        if not self._choose(A, B, cupy.zeros((m, n), cupy.uint16)):
            raise NoAlgorithm(
                f"cuBLASLt proposes no algorithm that runs, for {dtype} at M={m}, N={n}, K={k}."
            )

    def launch(self, operands, alpha: float, beta: float) -> None:
        """As a Kernel's, for kernel.operands.Operands of ops NN. The factors are 1 and 0."""
        self.launch_into(operands.A, operands.B, operands.C)

    def random_bias(self, n: int, seed: int) -> None:
        """It takes none."""


class EightBitProduct(_Product):
    """C = A @ B.T of eight bits, `dtype` one of EIGHT_BITS, for one shape (m, n, k).

    B is stored (n, k), which is the only way that cuBLASLt takes FP8 on Hopper, and its fastest of
    INT8. C is int32 from int8, float32 from FP8. Where A is of E5M2, B is of E4M3. It is launched
    as a Kernel, with alpha 1 and beta 0. Raises NoAlgorithm where cuBLASLt proposes none that
    runs.
    """

    name = "cublasLt"
    activation = "none"

    def __init__(self, cublas: CublasLt, m: int, n: int, k: int, dtype: str) -> None:
        import cupy

        of_a, of_b, result, factors, compute = EIGHT_BITS[dtype]
        super().__init__(cublas, factors, compute)
        self.dtype = dtype
        self._set(FIRST_TRANSPOSED, ctypes.c_int32(TRANSPOSED))
        self._lay_out((k, n, of_b), (k, m, of_a), (n, m, result))
        random = cupy.random.default_rng(0).integers  # below 64 all bits of FP8 are numbers
        A, B = (random(0, 64, size).astype(cupy.uint8) for size in ((m, k), (n, k)))
        if not self._choose(A, B, cupy.zeros((m, n), cupy.float32)):
            raise NoAlgorithm(
                f"cuBLASLt proposes no algorithm that runs, for {dtype} at M={m}, N={n}, K={k}."
            )

    def launch(self, operands, alpha: float, beta: float) -> None:
        """As a Kernel's, for kernel.operands.Operands of ops NT. The factors are 1 and 0."""
        self.launch_into(operands.A, operands.B, operands.C)

    def random_bias(self, n: int, seed: int) -> None:
        """It takes none."""


class ScaledProduct(_Product):
    """C = (scaled A) @ (scaled B).T of 8-bit floats, for one shape (m, n, k).

    `types`: names of the element types of A, B and C; `scales`: "tensors", "rows" or "blocks", see
    gemmlab.ladder.scales; `fast`: whether all products are one sum of the tensor cores. It is
    launched as a Kernel, with alpha 1 and beta 0. Raises NoAlgorithm where cuBLASLt proposes none
    that runs.
    """

    name = "cublasLt"
    activation = "none"

    def __init__(
        self, cublas: CublasLt, m: int, n: int, k: int, types: tuple[str, str, str], scales: str,
        fast: bool = False,
    ) -> None:  # fmt: skip
        import cupy

        super().__init__(cublas, FLOAT, COMPUTE_32F)
        self.dtype, self._by_blocks = " ".join((*types, scales)), scales == "blocks"
        of_a, of_b = FP8_CODES[types[0]], FP8_CODES[types[1]]
        self._set(FIRST_TRANSPOSED, ctypes.c_int32(TRANSPOSED))
        self._set(FAST_ACCUMULATION, ctypes.c_int8(fast))
        for attribute, mode in zip(SCALE_MODES, MODES[scales], strict=True):
            self._set(attribute, ctypes.c_int32(mode))
        self._lay_out((k, n, of_b), (k, m, of_a), (n, m, RESULT_CODES[types[2]]))
        random = cupy.random.default_rng(0).integers  # below 64 all bits of FP8 are numbers
        A, B = (random(0, 64, size).astype(cupy.uint8) for size in ((m, k), (n, k)))
        size = max(m, n) * (-(-k // 128) + SCALES_TOGETHER)  # enough for any kind
        ones = cupy.ones(size, cupy.float32)
        self._set_scales(ones, ones)  # their alignment counts
        self._laid_out: dict[int, tuple] = {}
        if not self._choose(A, B, cupy.zeros((m, n), cupy.float32), ones, ones):
            raise NoAlgorithm(
                f"cuBLASLt proposes no algorithm that runs, for {self.dtype} at M={m}, N={n}, "
                f"K={k}."
            )

    def launch(self, operands, alpha: float, beta: float) -> None:
        """As a Kernel's, for operands of ops NT. The factors are 1 and 0.

        cuBLASLt has scales of blocks in its own order: A's by columns, rows of B's padded. They are
        brought into it when they are first seen.
        """
        a, b = operands.scale_a, operands.scale_b
        if self._by_blocks:
            if id(a) not in self._laid_out:
                cupy, padding = self.array_module, -b.shape[1] % SCALES_TOGETHER
                turned = cupy.ascontiguousarray(a.T)
                padded = cupy.ascontiguousarray(cupy.pad(b, ((0, 0), (0, padding))))
                self._laid_out[id(a)] = turned, padded, a
            a, b, _ = self._laid_out[id(a)]
        self.launch_into(operands.A, operands.B, operands.C, a, b)

    def _set_scales(self, scale_a, scale_b) -> None:
        for attribute, scale in zip(SCALE_POINTERS, (scale_b, scale_a), strict=True):
            self._set(attribute, ctypes.c_void_p(scale.data.ptr))

    def _launch(self, proposal: _Proposal, A, B, C, scale_a, scale_b) -> int:
        """The status of one launch."""
        self._set_scales(scale_a, scale_b)
        return super()._launch(proposal, A, B, C)

    def random_bias(self, n: int, seed: int) -> None:
        """It takes none."""
