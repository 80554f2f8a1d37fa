"""Matrices in 8 bits with scales, as rung 19 takes them, made from float32 or bfloat16.

The kernels are in 19_quantize.cu; on a GPU they run there, else in the simulator.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gemmlab.cuda.device import gpu
from gemmlab.cuda.options import options_for
from gemmlab.folders import kernel_file
from gemmlab.kernel import faults, in_simulator, on_gpu
from gemmlab.kernel.arguments import ArgumentError, kind_of
from gemmlab.kernel.fingerprint import code_hash
from gemmlab.kernel.kernel import arch_here
from gemmlab.ladder import Launch, Problem, Settings
from gemmlab.ladder.precision import BFLOAT16, E4M3, E5M2, FLOAT32, SCALES, ElementType, Scales

PATH = kernel_file("19_quantize.cu")
TILE, THREADS = 128, 256  # of a block: rows and columns, and threads
KINDS = {kind.name: kind for kind in SCALES}
ELEMENTS = {element.name: element for element in (E4M3, E5M2)}
SOURCES = (BFLOAT16, FLOAT32)  # by the value of IN32


@dataclass(frozen=True)
class Quantizer:
    """From matrices of `source` to those of `element`, with `scales` as of A or of B (`which`).

    `transpose`: the given matrix is stored transposed, as B is in a product of row-major matrices.
    """

    scales: Scales
    which: str = "A"
    transpose: bool = False
    source: ElementType = FLOAT32
    element: ElementType = E4M3

    @property
    def macros(self) -> Settings:
        by_blocks = 2 if self.which == "A" else 3
        kind = by_blocks if self.scales.depth else 1 if self.scales.rows else 0
        return {
            "KIND": kind, "TRANSPOSE": int(self.transpose),
            "IN32": SOURCES.index(self.source), "DTYPE": int(self.element is E5M2),
        }  # fmt: skip

    def shapes(self, rows: int, cols: int) -> tuple[tuple[int, int], tuple[int, ...]]:
        """Of the matrix that is made of one of rows × cols, and of its scales."""
        lines, depth = (cols, rows) if self.transpose else (rows, cols)
        shape_of = self.scales.shape_of_a if self.which == "A" else self.scales.shape_of_b
        return (lines, depth), shape_of(Problem(lines, lines, depth))

    def launches(self, rows: int, cols: int) -> list[Launch]:
        """In order, with the arguments X, Q, scales, largest (zeros before), rows and cols."""
        block = THREADS, 1, 1
        kind = self.macros["KIND"]
        if kind == 1 and not self.transpose:
            args = ("X", "Q", "scales", "rows", "cols")
            return [Launch("convert_rows", (rows, 1, 1), block, args=args)]
        grid = -(-cols // TILE), -(-rows // TILE), 1
        args = ("X", "Q", "scales", "largest", "rows", "cols")
        launches = [Launch("convert", grid, block, args=args)]
        if kind < 2:
            args = ("X", "largest", "rows", "cols")
            launches.insert(0, Launch("find_largest", grid, block, args=args))
        return launches

    def values(self, X: Any, Q: Any, scales: Any, xp: Any) -> dict[str, Any]:
        """What the arguments of `launches` stand for."""
        rows, cols = X.shape
        largest = xp.zeros(scales.size if self.macros["KIND"] < 2 else 1, np.float32)
        sizes = {"rows": np.int32(rows), "cols": np.int32(cols)}
        return {"X": X, "Q": Q, "scales": scales, "largest": largest, **sizes}

    def loaded(self) -> on_gpu.GpuKernels:
        """Its kernels on the GPU here."""
        return _loaded(self, arch_here())

    def __call__(self, X: Any) -> tuple[Any, Any]:
        """The matrix in 8 bits, as uint8, and its scales, float32: arrays of X's kind."""
        host, here = isinstance(X, np.ndarray), gpu() is not None
        shape, shape_of_scales = self.shapes(*X.shape)
        xp = np
        if here:
            import cupy as xp
        with faults.reported():
            X = xp.asarray(X)
            Q, scales = xp.empty(shape, np.uint8), xp.ones(shape_of_scales, np.float32)
            if X.size:
                launches, values = self.launches(*X.shape), self.values(X, Q, scales, xp)
                if here:
                    self.loaded().run(launches, values)
                else:
                    options = options_for(self.macros)
                    # To one kernel they are words, to the other floats.
                    values["largest"] = values["largest"].view("V4")
                    in_simulator.run(PATH, launches, values, arch=arch_here(), options=options)
            return (Q.get(), scales.get()) if host and here else (Q, scales)


@lru_cache(maxsize=64)
def _loaded(quantizer: Quantizer, arch: str) -> on_gpu.GpuKernels:
    text = PATH.read_text(encoding="utf-8")
    code = code_hash(PATH, quantizer.macros)
    return on_gpu.loaded(text, PATH.name, arch, quantizer.macros, code)


def quantize(
    X: Any, scales: str = "tensors", which: str = "A", *, transpose: bool = False,
    element: str = "float8_e4m3",
) -> tuple[Any, Any]:  # fmt: skip
    """Convert X to 8 bits, as uint8, with float32 scales: scale times number is about X.

    `X`: a matrix of float32, or of bfloat16 as uint16, NumPy or CuPy, C-contiguous; the results are
    arrays of the same kind. For rung 19, A is (M, K) with `which` "A"; B is (N, K) with `which`
    "B"; with `transpose` it is made from one that is stored (K, N). `scales`: "tensors", "rows", or
    "blocks", 1×128 of A and 128×128 of B. `element`: "float8_e4m3" or "float8_e5m2". The largest of
    the elements that share a scale becomes the largest number of the type; NaN stays NaN, and
    infinity becomes the largest number. Raises ArgumentError.
    """
    by_storage = {source.storage: source for source in SOURCES}
    if getattr(X, "ndim", None) != 2 or str(getattr(X, "dtype", "")) not in by_storage:
        what = f"{X.ndim} axes of {X.dtype}" if hasattr(X, "dtype") else kind_of(X)
        raise ArgumentError(
            f"X is {what}: quantize takes a matrix of float32, or of bfloat16 as uint16"
        )
    if not X.flags.c_contiguous:
        raise ArgumentError("X is not row-major without gaps: use np.ascontiguousarray(X)")
    for what, value, known in (
        ("scales", scales, KINDS), ("which", which, ("A", "B")), ("element", element, ELEMENTS),
    ):  # fmt: skip
        if value not in known:
            raise ArgumentError(f"{what} is {value!r}, it must be one of {', '.join(known)}")
    source = by_storage[str(X.dtype)]
    return Quantizer(KINDS[scales], which, bool(transpose), source, ELEMENTS[element])(X)
