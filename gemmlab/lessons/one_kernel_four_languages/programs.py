"""The kernels of notebook 25 in Triton, CuTe DSL and Numba: their PTX, and how they are launched.

kernels/25_four_languages/ has their sources, and in ptx.json.xz what compile.py there made of them.
All take matrices whose sizes are multiples of their tiles.
"""

import json
import lzma
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from gemmlab.cuda.driver import tensor_map
from gemmlab.folders import KERNELS
from gemmlab.kernel.on_gpu import from_ptx
from gemmlab.ladder import HALF, SINGLE, Precision
from gemmlab.ladder.launch import Launch
from ptxsim import Run, Structure, TensorMap, launch_ptx

FOLDER = KERNELS / "25_four_languages"
CUDA, TRITON, CUTE, NUMBA = "CUDA C++", "Triton", "CuTe DSL", "Numba"
RUNGS = {SINGLE: "07_bank_conflicts", HALF: "18_persistent"}  # in CUDA C++
BLOCKS = 132  # of kernels whose blocks stay: one for each SM of an H200
SWIZZLE = "128B"


@dataclass(frozen=True)
class Program:
    """A kernel. `tile`: the rows and columns of C that a block computes; `threads` of a block."""

    name: str
    language: str
    precision: Precision
    tile: tuple[int, int]
    threads: int

    @property
    def ptx(self) -> str:
        return _compiled()[self.name]["ptx"]

    @property
    def made_by(self) -> str:
        """The package that compiled it, with its version."""
        return _compiled()[self.name]["made_by"]

    def launch(self, m: int, n: int) -> Launch:
        """For C of m×n; what it takes is in `arguments`. Raises ValueError."""
        rows, columns = self.tile
        if m % rows or n % columns:
            raise ValueError(f"{self.name} takes multiples of {rows}×{columns}, not {m}×{n}")
        grid = (n // columns, m // rows, 1) if self.precision is SINGLE else (BLOCKS, 1, 1)
        block, shared_bytes = (self.threads, 1, 1), _compiled()[self.name]["shared_bytes"]
        return Launch(self.name, grid, block, shared_bytes, args=())

    def arguments(self, A: Any, B: Any, C: Any) -> list[Any]:
        """C = A @ B, in the order of the kernel's parameters: for ptxsim.launch_ptx of NumPy
        arrays, for gemmlab.cuda.driver.PackedLaunch of CuPy arrays."""
        (m, k), n = A.shape, B.shape[1]
        here = isinstance(A, np.ndarray)

        def pointer(array: Any) -> Any:
            return array if here else np.uint64(array.data.ptr)

        def structure(*members: Any) -> Any:
            if here:
                return Structure(*members)
            values = [x if np.isscalar(x) else pointer(x) for x in members]
            packed = np.zeros(1, np.dtype([("", np.asarray(x).dtype) for x in values], align=True))
            packed[0] = tuple(values)
            return packed.view(f"V{packed.nbytes}")

        def box(array: Any, *shape: int) -> Any:
            if here:
                return TensorMap(array, shape, swizzle=SWIZZLE)
            return tensor_map(array, shape, SWIZZLE)

        null = None if here else np.uint64(0)
        sizes = [np.int32(size) for size in (m, n, k)]
        if self.name == "float32_in_triton":
            return [*map(pointer, (A, B, C)), *sizes[1:], null, null]
        if self.name == "float32_in_cute":
            return [*map(pointer, (A, B, C)), *sizes]
        if self.name == "float32_in_numba":
            return [
                value for X in (A, B, C) for value in (
                    null, null, np.int64(X.size), np.int64(X.itemsize), pointer(X),
                    *map(np.int64, (*X.shape, *X.strides)),
                )
            ]  # fmt: skip
        if self.name == "float16_in_triton":
            boxes = box(A, 128, 64), box(B, 64, 64), box(C, 128, 64)
            described = [
                value for of_x, X in zip(boxes, (A, B, C), strict=True)
                for value in (of_x, *map(np.int32, X.shape), np.int64(X.shape[1]), np.int64(1))
            ]  # fmt: skip
            return [*described, *sizes, null, null]
        shapes = structure(np.int32(m), np.int32(k)), structure(np.int32(n), np.int32(k))
        C = structure(C, np.int32(m), np.int32(n), np.int32(n))
        return [box(A, 128, 64), shapes[0], box(B, 64, 64), shapes[1], C, structure(np.uint8(0))]

    def simulate(self, A: np.ndarray, B: np.ndarray, C: np.ndarray, **how: bool) -> Run:
        """C = A @ B by ptxsim. `how`: count, check."""
        launch = self.launch(*C.shape)
        return launch_ptx(
            self.ptx, self.name, launch.grid, launch.block, self.arguments(A, B, C),
            shared_bytes=launch.shared_bytes, **how,
        )  # fmt: skip

    def function(self) -> Any:
        """The kernel, loaded on the GPU here: a cupy.RawKernel."""
        return from_ptx(self.ptx).function(self.launch(*self.tile))

    def random(self, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, B and an empty C, the same for a size on every machine."""
        from gemmlab.kernel.operands import random_values

        A, B = (
            random_values(prod(shape), seed).reshape(shape).astype(self.precision.a.storage)
            for seed, shape in enumerate(((m, k), (k, n)))
        )
        return A, B, np.zeros((m, n), self.precision.c.storage)


@cache
def _compiled() -> dict[str, dict[str, Any]]:
    return json.loads(lzma.decompress((FOLDER / "ptx.json.xz").read_bytes()))


PROGRAMS = (
    Program("float32_in_triton", TRITON, SINGLE, (128, 128), 256),
    Program("float32_in_cute", CUTE, SINGLE, (128, 128), 256),
    Program("float32_in_numba", NUMBA, SINGLE, (128, 128), 256),
    Program("float16_in_triton", TRITON, HALF, (128, 256), 256),
    Program("float16_in_cute", CUTE, HALF, (128, 256), 384),
)
