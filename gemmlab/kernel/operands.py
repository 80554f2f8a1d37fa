"""The matrices of one product, as they are stored, with all that a launch names; who takes them.

Inputs to verify, check and trace a kernel with are made here. Two fill large ones on the device
itself: verify.check_sample, and timing, which needs many sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np

from gemmlab.kernel import layout
from gemmlab.ladder.launch import LD_SCALE_A, LEADING, MATRICES, POINTERS, STRIDES
from gemmlab.ladder.precision import FLOAT32, ElementType, Precision, Scales
from gemmlab.ladder.problem import Problem

FLOATS = (*MATRICES, "bias", "scale_a", "scale_b")
ARRAYS = (*FLOATS, "rows", "lost")


def random_values(count: int, seed: int) -> np.ndarray:
    """float32 (count,), uniform in [-1, 1), the same for a seed on every machine. NumPy promises
    the raw bits of its PCG64 for good, its distributions not."""
    raw = np.random.PCG64(seed).random_raw(count)
    return (raw >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - 1


def random_matrix(rows: int, cols: int, seed: int, dtype: str = "float32") -> np.ndarray:
    """(rows, cols), uniform in [-1, 1), the same for a seed on every machine. Made in float32 and
    rounded to `dtype`, so that a number just below 1 may become 1."""
    return random_values(rows * cols, seed).astype(dtype, copy=False).reshape(rows, cols)


@dataclass(frozen=True, eq=False)
class Operands:
    """A, B and C as they are stored, and a bias (N,) and scales, float32, or None. Scales multiply
    elements of A and of B: see ladder.precision. Matrices may lie with gaps: see layout. `rows`: of
    products that differ in height, int32, as the kernel takes it; A and C may have two axes then.
    `lost`: int32, one element, for a kernel to say that a product may not be what float32 gives.
    """

    problem: Problem
    precision: Precision
    A: Any
    B: Any
    C: Any
    bias: Any = None
    scale_a: Any = None
    scale_b: Any = None
    rows: Any = None
    lost: Any = None

    @classmethod
    def from_seed(
        cls, problem: Problem, precision: Precision, seed: int, *, bias: bool = False,
        written: bool = True, gap: int = 0,
    ) -> Operands:  # fmt: skip
        """NumPy arrays: A of the seed, B, C, bias and scales of those after it.

        Uniform in [-1, 1), scales in [0.5, 2.5). `written`: whether C holds numbers; else it
        is for a product with beta = 0, which must not read it. `gap`: elements between rows, and
        where it is not 0 also a row between the matrices of a batch; they hold guard cells.
        """

        def matrix(which: int, shape: tuple[int, ...], element: Any) -> np.ndarray:
            values = random_values(int(np.prod(shape)), seed + which)
            matrices = element.encode(values, element.storage).reshape(shape)
            return layout.spread_out(matrices, element, gap) if gap else matrices

        A = matrix(0, problem.shape_of_a, precision.a)
        B = matrix(1, problem.shape_of_b, precision.b)
        if written:
            C = matrix(2, problem.shape_of_c, precision.c)
        else:
            C = layout.spread_out(unwritten(problem.shape_of_c, precision.c), precision.c, gap)
        biases = random_values(problem.n, seed + 3) if bias else None
        made = cls(problem, precision, A, B, C, biases)
        return made if precision.scales is None else made.scaled(seed + 4, np.asarray)

    def arrays(self) -> dict[str, Any]:
        """Those that are there, by the names that launches use."""
        return {name: array for name in ARRAYS if (array := getattr(self, name)) is not None}

    def elements(self) -> dict[str, ElementType]:
        """The element type of each name of `arrays`."""
        precision = self.precision
        matrices = {"A": precision.a, "B": precision.b, "C": precision.c}
        if (kind := precision.scales) is not None:
            matrices |= {"scale_a": kind.element, "scale_b": kind.element}
        return dict.fromkeys(FLOATS, FLOAT32) | matrices

    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """op(A), op(B) and C in float64, NumPy, with the scales: (M, K), (K, N), (M, N)."""
        A, B = self.precision.a.decode(self.A), self.precision.b.decode(self.B)
        A = A if self.problem.ops[0] == "N" else A.swapaxes(-1, -2)
        B = B if self.problem.ops[1] == "N" else B.swapaxes(-1, -2)
        if self.precision.scales is not None:
            of_a, of_b = self.spread_scales()
            A, B = A * of_a, B * of_b
        return A, B, self.precision.c.decode(self.C)

    def least(self) -> tuple[Any, Any]:
        """What an element other than 0 of op(A), of op(B) counts as at the least, with its scale.
        In the tensor cores a subnormal number has the exponent of the smallest normal one."""
        a, b = self.precision.a.smallest_normal, self.precision.b.smallest_normal
        if self.precision.scales is None:
            return a, b
        of_a, of_b = self.spread_scales()
        return a * of_a, b * of_b

    @property
    def scales(self) -> tuple[Any, Any] | None:
        """Of A and of B, as a call of a kernel takes them."""
        return None if self.scale_a is None else (self.scale_a, self.scale_b)

    def spread_scales(self) -> tuple[Any, Any]:
        """Scales as float64 factors of op(A) and op(B)."""
        kind, (m, n, k) = cast(Scales, self.precision.scales), self.problem.shape
        of_b = kind.spread(self.scale_b, kind.columns, n, k).swapaxes(-1, -2)
        of_a = kind.spread(kind.by_rows(self.scale_a, self.problem), kind.rows, m, k)
        return of_a, of_b

    def scaled(self, seed: int, to_device: Callable[[np.ndarray], Any]) -> Operands:
        """With scales of this seed and the one after it, as from_seed makes them."""
        kind = cast(Scales, self.precision.scales)
        shapes = kind.shape_of_a(self.problem), kind.shape_of_b(self.problem)
        of_a, of_b = (
            to_device(kind.of_random(random_values(int(np.prod(shape)), at).reshape(shape)))
            for at, shape in enumerate(shapes, seed)
        )
        return replace(self, scale_a=of_a, scale_b=of_b)

    def changed(self, change: Callable[[Any], Any]) -> Operands:
        """With every array as `change` gives it, such as one on a GPU."""
        return replace(self, **{name: change(array) for name, array in self.arrays().items()})

    def values(self, alpha: float, beta: float) -> dict[str, Any]:
        """What each name in a launch's arguments stands for: see gemmlab.ladder.launch.NAMES.

        Arrays; sizes and leading dimensions as int32, strides as int64, alpha and beta as float32.
        What is not there is a null pointer.
        """
        m, n, k = self.problem.shape
        sizes = {"M": m, "N": n, "K": k, "batch": self.problem.batch}
        matrices = self.A, self.B, self.C
        sizes |= zip(LEADING, map(layout.leading, matrices), strict=True)
        strides = zip(STRIDES, map(layout.stride, matrices), strict=True)
        return {
            **{name: getattr(self, name) for name in ARRAYS},
            **{name: np.int32(size) for name, size in sizes.items()},
            **{name: np.int64(stride) for name, stride in strides},
            LD_SCALE_A: np.int32(0 if self.scale_a is None else self.scale_a.shape[-1]),
            "alpha": np.float32(alpha), "beta": np.float32(beta),
        }  # fmt: skip

    @cached_property
    def pointers(self) -> dict[str, Any]:
        """CuPy uint64 (batch,) for each name of POINTERS: where each matrix begins on the GPU. Made
        once: nothing can be allocated while launches are captured into a graph."""
        import cupy

        return {
            name: cupy.asarray((array.data.ptr + array.itemsize * layout.starts(array)), np.uint64)
            for name, array in zip(POINTERS, (self.A, self.B, self.C), strict=True)
        }


def unwritten(shape: tuple[int, ...], element: ElementType) -> np.ndarray:
    """An array of bits that no arithmetic makes, NaN of floats: what is not written shows."""
    return np.full(shape, element.guard, element.bits).view(element.storage)


class Launchable(Protocol):
    """What is launched, checked and timed alike: a Kernel, a product of cuBLAS, or several kernels.

    `dtype`: the name of a Precision. `activation`: one of ladder.activations. The methods are as
    those of a Kernel.
    """

    name: str
    dtype: str

    @property
    def activation(self) -> str: ...

    @property
    def takes_bias(self) -> bool: ...

    @property
    def array_module(self) -> Any: ...

    def to_device(self, array: Any) -> Any: ...

    def to_host(self, array: Any) -> Any: ...

    def launch(self, operands: Operands, alpha: float, beta: float) -> None: ...
