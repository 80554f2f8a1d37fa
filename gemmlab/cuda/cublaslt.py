"""cuBLASLt's products of 4, 8 and 16 bits, each by the fastest algorithm that it proposes.

Called through its C interface. Numbers of enumerations and the layout of structures are those of
NVIDIA's cublasLt.h of CUDA 12 and 13; NVIDIA, "cuBLAS", chapter "Using the cuBLASLt API", describes
the functions.
"""

from __future__ import annotations

import ctypes
from typing import Any

from gemmlab.cuda.cublas import (
    COMPUTE_32F,
    COMPUTE_TF32,
    WORKSPACE_BYTES,
    CublasError,
    library,
    refuse_reduced_precision,
)

FLOAT, INT32 = 0, 10  # CUDA_R_32F, CUDA_R_32I: of factors
COMPUTE_32I = 72  # CUBLAS_COMPUTE_32I: whole factors and sums
TYPES = {  # CUDA_R_...
    "float32": FLOAT, "float16": 2, "int8": 3, "int32": INT32, "bfloat16": 14, "float8_e4m3": 28,
    "float8_e5m2": 29, "two float4_e2m1": 33,
}  # fmt: skip
IN_A_BYTE = {"two float4_e2m1": 2}  # elements
EIGHT_BITS = {  # of A, of B and of C
    "int8": ("int8", "int8", "int32"),
    "float8_e4m3": ("float8_e4m3", "float8_e4m3", "float32"),
    "float8_e5m2": ("float8_e5m2", "float8_e4m3", "float32"),  # it takes no two of E5M2
}
SIXTEEN_BITS = ("float16", "bfloat16")
# Of their first factor, our B, and of their second:
# CUBLASLT_MATMUL_DESC_{A,B}_SCALE_POINTER and _MODE.
SCALE_POINTERS, SCALE_MODES = (17, 18), (31, 32)
# Kind of scales -> modes of both, CUBLASLT_MATMUL_MATRIX_SCALE_...: SCALAR_32F; OUTER_VEC_32F;
# BLK128x128_32F and VEC128_32F; VEC32_UE8M0; VEC16_UE4M3.
MODES = {"tensors": (0, 0), "rows": (3, 3), "blocks": (5, 4), "MXFP8": (2, 2), "NVFP4": (1, 1)}
# Formats whose scales lie in tiles, as NVIDIA, "cuBLAS", "1D Block Scaling Factors Layout" has
# them -> elements along k with one scale, and the bits of a scale of 1.
IN_TILES = {"MXFP8": (32, 0x7F), "NVFP4": (16, 0x38)}
TILE_ROWS, TILE_BLOCKS = 128, 4  # scales of a tile, a byte each
TILES_FROM = 100  # ten times the compute capability
FAST_ACCUMULATION = 25  # CUBLASLT_MATMUL_DESC_FAST_ACCUM
SCALES_TOGETHER = 4  # a row of scales of 128×128 blocks is so many, or a multiple
FIRST_TRANSPOSED = 3  # attribute of a product: CUBLASLT_MATMUL_DESC_TRANSA
TRANSPOSED = 1  # CUBLAS_OP_T
MAX_WORKSPACE_BYTES = 1  # attribute of a preference: CUBLASLT_MATMUL_PREF_...
PROPOSALS = 8  # algorithms that are requested, and tried
TRIES = 5  # of each, the best of which counts


class NoAlgorithm(CublasError):
    """cuBLASLt proposes no algorithm that runs, for a product of this shape and these types."""


class _Proposal(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8), ("workspace_bytes", ctypes.c_size_t),
        ("status", ctypes.c_int), ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4),
    )  # fmt: skip


class CublasLt:
    """A cuBLASLt handle with a workspace, for one CuPy stream.

    Use as a context manager: leaving it frees the handle, and the products made with it end there.
    Raises CublasError where the library is missing, or the environment requests less than FP32.
    """

    def __init__(self, stream: Any) -> None:
        import cupy

        refuse_reduced_precision()
        self.stream = stream
        self._library = library("cublasLt")
        self.workspace = cupy.empty(WORKSPACE_BYTES, dtype=cupy.uint8)
        self._made: list[tuple[str, ctypes.c_void_p]] = []
        self.handle = self.make("cublasLtCreate", "cublasLtDestroy")

    def status(self, function: str, *arguments: Any) -> int:
        """What a function of the library returns, 0 for success."""
        return getattr(self._library, function)(*arguments)

    def call(self, function: str, *arguments: Any) -> None:
        if status := self.status(function, *arguments):
            raise CublasError(f"{function} returned status {status}.")

    def make(self, function: str, destroy: str, *arguments: Any) -> ctypes.c_void_p:
        """What `function` makes of the arguments; `destroy` frees it in the end."""
        made = ctypes.c_void_p()
        self.call(function, ctypes.byref(made), *arguments)
        self._made.append((destroy, made))
        return made

    def __enter__(self) -> CublasLt:
        return self

    def __exit__(self, *_: object) -> None:
        for destroy, made in reversed(self._made):
            self.call(destroy, made)
        self._made.clear()


class Product:
    """C = A @ B of one shape (m, n, k), row-major, launched as a Kernel with alpha 1 and beta 0.

    `types`: names of A, B and C, keys of TYPES. B may be stored transposed. Who makes one calls
    `choose` when everything is set, or sets `chosen`. `arrays` of its methods: A, B, C and what
    else a product takes.
    """

    name = "cublasLt"
    activation = "none"
    takes_bias = False

    def __init__(
        self, cublas: CublasLt, shape: tuple[int, int, int], types: tuple[str, str, str],
        dtype: str, *, b_transposed: bool = False,
    ) -> None:  # fmt: skip
        import cupy

        self.array_module, self.to_host, self.to_device = cupy, cupy.asnumpy, cupy.asarray
        self._cublas, self.dtype, self.shape = cublas, dtype, shape
        integers = types[2] == "int32"
        floats = COMPUTE_TF32 if dtype == "tf32" else COMPUTE_32F
        number = ctypes.c_int32 if integers else ctypes.c_float
        self._alpha, self._beta = number(1), number(0)
        self._product = cublas.make(
            "cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy",
            COMPUTE_32I if integers else floats, INT32 if integers else FLOAT,
        )  # fmt: skip
        if b_transposed:
            self.set(FIRST_TRANSPOSED, ctypes.c_int32(TRANSPOSED))
        # It stores by columns, so it is given the transposes, C.T = B.T @ A.T.
        m, n, k = shape
        k *= IN_A_BYTE.get(types[0], 1)
        a, b, c = (TYPES[name] for name in types)
        self._a, self._c = self._layout(k, m, a), self._layout(n, m, c)
        self._b = self._layout(k, n, b) if b_transposed else self._layout(n, k, b)

    def set(self, attribute: int, value: Any) -> None:
        """An attribute of the product, CUBLASLT_MATMUL_DESC_..., to a number of ctypes."""
        self._cublas.call(
            "cublasLtMatmulDescSetAttribute", self._product, attribute, ctypes.byref(value),
            ctypes.c_size_t(ctypes.sizeof(value)),
        )  # fmt: skip

    def _layout(self, rows: int, columns: int, element: int) -> ctypes.c_void_p:
        return self._cublas.make(
            "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutDestroy", element,
            ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows),
        )  # fmt: skip

    def choose(self, *arrays: Any) -> None:
        """Try all proposals on these, and keep the fastest. Raises NoAlgorithm."""
        proposals = self.proposals()
        times = [self._best_ms(proposal, *arrays) for proposal in proposals]
        runs = [(ms, at) for at, ms in enumerate(times) if ms is not None]
        if not runs:
            m, n, k = self.shape
            what = f"{self.dtype} at M={m}, N={n}, K={k}"
            raise NoAlgorithm(f"cuBLASLt proposes no algorithm that runs, for {what}.")
        self.chosen = proposals[min(runs)[1]]

    def proposals(self, most: int = PROPOSALS) -> list[_Proposal]:
        """The algorithms that cuBLASLt proposes, at most so many; `chosen` is the one launched."""
        cublas, size = self._cublas, ctypes.c_size_t(WORKSPACE_BYTES)
        wish = cublas.make("cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy")
        cublas.call(
            "cublasLtMatmulPreferenceSetAttribute", wish, MAX_WORKSPACE_BYTES, ctypes.byref(size),
            ctypes.c_size_t(ctypes.sizeof(size)),
        )  # fmt: skip
        proposals, count = (_Proposal * most)(), ctypes.c_int()
        status = cublas.status(
            "cublasLtMatmulAlgoGetHeuristic", cublas.handle, self._product, self._b, self._a,
            self._c, self._c, wish, most, proposals, ctypes.byref(count),
        )  # fmt: skip
        return [] if status else [each for each in proposals[: count.value] if each.status == 0]

    def _best_ms(self, proposal: _Proposal, *arrays: Any) -> float | None:
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

    def _launch(self, proposal: _Proposal, A: Any, B: Any, C: Any) -> int:
        """The status of one launch."""
        first, second, result = (ctypes.c_void_p(X.data.ptr) for X in (B, A, C))
        workspace = self._cublas.workspace
        return self._cublas.status(
            "cublasLtMatmul", self._cublas.handle, self._product, ctypes.byref(self._alpha),
            first, self._b, second, self._a, ctypes.byref(self._beta), result, self._c,
            result, self._c, proposal.algorithm, ctypes.c_void_p(workspace.data.ptr),
            ctypes.c_size_t(WORKSPACE_BYTES), ctypes.c_void_p(self._cublas.stream.ptr),
        )  # fmt: skip

    def launch_into(self, *arrays: Any) -> None:
        """On C-contiguous CuPy arrays of the shape; no checks, no synchronisation."""
        if status := self._launch(self.chosen, *arrays):
            raise CublasError(f"cublasLtMatmul returned status {status}.")

    def launch(self, operands: Any, alpha: float, beta: float) -> None:
        """As a Kernel's, for kernel.operands.Operands. The factors are 1 and 0."""
        self.launch_into(operands.A, operands.B, operands.C)


def _random_bits(m: int, n: int, k: int, bits: int) -> tuple[Any, Any, Any]:
    """A, B, of eight bits stored transposed, and room for C; zeros would cost no power. Of 16 bits
    0.0078 to 1.9 in float16, and up to 1 in bfloat16; below 64 all bits of FP8 are numbers."""
    import cupy

    random = cupy.random.default_rng(0).integers
    limits, b_shape = ((0, 64), (n, k)) if bits == 8 else ((0x2000, 0x3F80), (k, n))
    A, B = (random(*limits, size).astype(f"uint{bits}") for size in ((m, k), b_shape))
    return A, B, cupy.zeros((m, n), cupy.float32)


class UnscaledProduct(Product):
    """C = A @ B of `dtype`, one of EIGHT_BITS or SIXTEEN_BITS. Raises NoAlgorithm.

    Of eight bits B is stored (n, k), which is the only way that cuBLASLt takes FP8 on Hopper, and
    its fastest of INT8. C is int32 from int8, float32 from FP8; where A is of E5M2, B is of E4M3.
    Of 16 bits C is of the same type, and sums are float32.
    """

    def __init__(self, cublas: CublasLt, m: int, n: int, k: int, dtype: str) -> None:
        types, eight = EIGHT_BITS.get(dtype, (dtype,) * 3), dtype in EIGHT_BITS
        super().__init__(cublas, (m, n, k), types, dtype, b_transposed=eight)
        self.choose(*_random_bits(m, n, k, 8 if eight else 16))


class ScaledProduct(Product):
    """C = (scaled A) @ (scaled B).T of floats of 8 or 4 bits. Raises NoAlgorithm.

    `types`: names of the element types of A, B and C; `scales`: "tensors", "rows" or "blocks", see
    gemmlab.ladder.precision, or one of IN_TILES, which a B200 multiplies and an H200 does not; k
    counts bytes then. `fast`: whether all products are one sum of the tensor cores.
    """

    def __init__(
        self, cublas: CublasLt, m: int, n: int, k: int, types: tuple[str, str, str], scales: str,
        fast: bool = False,
    ) -> None:  # fmt: skip
        import cupy

        capability = int(cupy.cuda.Device().compute_capability)
        if scales in IN_TILES and capability < TILES_FROM:
            raise NoAlgorithm(
                f"cuBLASLt multiplies {scales} on GPUs of compute capability {TILES_FROM / 10} or "
                f"more; this one has {capability / 10}."
            )
        super().__init__(cublas, (m, n, k), types, " ".join((*types, scales)), b_transposed=True)
        self._scales = scales
        self.set(FAST_ACCUMULATION, ctypes.c_int8(fast))
        for attribute, mode in zip(SCALE_MODES, MODES[scales], strict=True):
            self.set(attribute, ctypes.c_int32(mode))
        if scales in IN_TILES:
            block, unit = IN_TILES[scales]
            self._tiles = -(-k * IN_A_BYTE.get(types[0], 1) // (block * TILE_BLOCKS))  # along k
            size = -(-max(m, n) // TILE_ROWS) * self._tiles * TILE_ROWS * TILE_BLOCKS
            ones = cupy.full(size, unit, cupy.uint8)
        else:
            size = max(m, n) * (-(-k // 128) + SCALES_TOGETHER)  # enough for any kind
            ones = cupy.ones(size, cupy.float32)
        self._set_scales(ones, ones)  # their alignment counts
        self._laid_out: dict[int, tuple[Any, Any, Any]] = {}
        self.choose(*_random_bits(m, n, k, 8), ones, ones)

    def launch(self, operands: Any, alpha: float, beta: float) -> None:
        """As a Kernel's, for operands of ops NT. The factors are 1 and 0.

        cuBLASLt has scales of blocks in its own order: A's by columns, rows of B's padded. Of those
        in tiles, it has none behind the last tile that k reaches. They are rearranged when they are
        first seen.
        """
        a, b = operands.scale_a, operands.scale_b
        if self._scales == "blocks" or self._scales in IN_TILES:
            if id(a) not in self._laid_out:
                self._laid_out[id(a)] = *self._in_order(a, b, operands.precision.scales), a
            a, b, _ = self._laid_out[id(a)]
        self.launch_into(operands.A, operands.B, operands.C, a, b)

    def _in_order(self, a: Any, b: Any, kind: Any) -> tuple[Any, Any]:
        cupy = self.array_module
        if self._scales in IN_TILES:
            of_a, of_b = (
                x.reshape(-(-lines // TILE_ROWS), -1, TILE_ROWS * TILE_BLOCKS)[:, : self._tiles]
                for x, lines in ((a, self.shape[0]), (b, self.shape[1]))
            )
            return cupy.ascontiguousarray(of_a), cupy.ascontiguousarray(of_b)
        padding = -b.shape[1] % SCALES_TOGETHER
        padded = cupy.pad(b, ((0, 0), (0, padding)))
        return a if kind.by_columns else cupy.ascontiguousarray(a.T), cupy.ascontiguousarray(padded)

    def _set_scales(self, scale_a: Any, scale_b: Any) -> None:
        for attribute, scale in zip(SCALE_POINTERS, (scale_b, scale_a), strict=True):
            self.set(attribute, ctypes.c_void_p(scale.data.ptr))

    def _launch(self, proposal: _Proposal, *arrays: Any) -> int:
        """The status of one launch."""
        A, B, C, scale_a, scale_b = arrays
        self._set_scales(scale_a, scale_b)
        return super()._launch(proposal, A, B, C)
