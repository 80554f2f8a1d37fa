"""One call for every product: gl.matmul takes the rung and the settings that choose() names.

What a call needs is found once for each kind of call (shapes, strides, types, operations) and kept:
after that a call asks a dictionary, prepares what the rung cannot take as it is, and launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gemmlab.cuda.device import gpu
from gemmlab.kernel import faults, layout
from gemmlab.kernel.arguments import ArgumentError, factor, kind_of, problem_of
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import BRAIN, SINGLE, Problem
from gemmlab.ladder.activations import ACTIVATIONS
from gemmlab.loading import load
from gemmlab.products.choosing import TYPES, Chosen, choose

MOST_PLANS = 4096
NO_PLAIN_ARRAYS = (np.matrix, np.ma.MaskedArray)  # of which a product is something else

_plans: dict[tuple, Plan] = {}


def matmul(
    A: Any, B: Any, alpha: float = 1, beta: float = 0, C: Any = None, bias: Any = None,
    activation: str | None = None, transpose_a: bool = False, transpose_b: bool = False,
    dtype: str | None = None,
) -> Any:  # fmt: skip
    """activation(alpha * op(A) @ op(B) + beta * C + bias) by the rung that suits the shape.

    op(A) is A, or its transpose where `transpose_a` is True; so is op(B). With op(A) of (M, K) and
    op(B) of (K, N) the result is (M, N); with a batch before both it is (batch, M, N). A and B are
    float32, float16 or, with dtype="bfloat16", the bits of bfloat16 as uint16, both NumPy or both
    CuPy arrays, of any strides; the result is a new C-contiguous array of their kind and type. Of
    16 bits, sums are float32, and what is stored is rounded once. `C`: as the result, not changed,
    and read only where beta is not 0. `bias`: float32 (N,), added to each row. `activation`:
    "ReLU", "GELU by tanh" or "GELU by erf". alpha and beta become float32.

    On a GPU it does not wait, for CuPy arrays; without one it runs in the simulator. gl.choose says
    what is taken. Raises ArgumentError, IllegalSetting for a type that this GPU does not multiply,
    and what Kernel.launch raises.
    """
    plan = planned(A, B, bias, activation, transpose_a, transpose_b, dtype)
    return plan.run(A, B, factor("alpha", alpha), factor("beta", beta), C, bias)


def planned(
    A: Any, B: Any, bias: Any, activation: Any, transpose_a: bool, transpose_b: bool,
    dtype: str | None = None,
) -> Plan:  # fmt: skip
    """How a call is done, found once for each kind of call. Raises ArgumentError."""
    try:
        key = (
            type(A), A.shape, A.strides, A.dtype, _begins(A),
            type(B), B.shape, B.strides, B.dtype, _begins(B),
            bias is None, activation, transpose_a, transpose_b, dtype,
        )  # fmt: skip
        plan = _plans.get(key)
    except (AttributeError, TypeError):  # no array, or an activation that is no text
        return _plan(A, B, bias is not None, activation, transpose_a, transpose_b, dtype)
    if plan is None:
        plan = _plan(A, B, bias is not None, activation, transpose_a, transpose_b, dtype)
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        _plans[key] = plan
    return plan


def _begins(array: Any) -> bool:
    """Whether it begins where every kernel can take it. NumPy's are copied to a GPU anyway."""
    return isinstance(array, np.ndarray) or not array.data.ptr % layout.ALIGNMENT


@dataclass(frozen=True, eq=False)
class Plan:
    """What one kind of call does: `chosen` is loaded as `kernel`.

    `prepare`: of A and of B, makes of an argument what the kernel takes, or None.
    `problem`: one launch's. `shape`: the result's.
    """

    chosen: Chosen
    kernel: Kernel
    problem: Problem
    shape: tuple[int, ...]
    prepare: tuple[Callable | None, Callable | None]

    def run(self, A: Any, B: Any, alpha: float, beta: float, C: Any, bias: Any) -> Any:
        """Raises ArgumentError for a C or bias that does not fit."""
        kernel, xp, host = self.kernel, self.kernel.array_module, isinstance(A, np.ndarray)
        if bias is not None:
            self._check("bias", bias, (self.problem.n,), SINGLE.name, type(A))
        if beta != 0:
            self._check("C", C, self.shape, kernel.precision.c.storage, type(A))
        if not kernel.on_gpu:
            kernel.require_time(self.problem)
        first, second = self.prepare
        with faults.reported():
            A, B = A if first is None else first(A), B if second is None else second(B)
            if host and kernel.on_gpu:
                A, B, bias = (None if X is None else kernel.to_device(X) for X in (A, B, bias))
            if beta != 0:
                result = xp.array(C, order="C")
            else:
                result = (np.zeros if xp is np else xp.empty)(
                    self.shape, kernel.precision.c.storage
                )
            self._launch(A, B, result, bias, alpha, beta)
            return kernel.to_host(result) if host else result

    def _launch(self, A: Any, B: Any, result: Any, bias: Any, alpha: float, beta: float) -> None:
        each: Iterable[tuple[Any, Any, Any]] = [(A, B, result)]
        if result.ndim > 2 and (self.chosen.one_by_one or self.problem.batch == 1):
            each = zip(A, B, result, strict=True)
        for a, b, c in each:
            operands = Operands(self.problem, self.kernel.precision, a, b, c, bias)
            self.kernel.launch(operands, alpha, beta)

    @staticmethod
    def _check(name: str, array: Any, shape: tuple[int, ...], dtype: str, kind: Any) -> None:
        if type(array) is not kind:
            raise ArgumentError(f"{name} is {kind_of(array)}, A and B are {kind.__module__} arrays")
        if array.dtype != dtype or array.shape != shape:
            raise ArgumentError(
                f"{name} is {array.dtype} {array.shape}: {dtype} {shape} is what goes with A and B"
            )


def _plan(
    A: Any, B: Any, biased: bool, activation: Any, transpose_a: bool, transpose_b: bool,
    dtype: str | None,
) -> Plan:  # fmt: skip
    for name, value in (("transpose_a", transpose_a), ("transpose_b", transpose_b)):
        if not isinstance(value, bool):
            raise ArgumentError(f"{name} is {value!r}: it must be True or False")
    if activation is not None and activation not in ACTIVATIONS:
        there = ", ".join(map(repr, ACTIVATIONS))
        raise ArgumentError(f"there is no activation {activation!r}; there are {there}, and None")
    _check_matrices(A, B, dtype)
    (A, how_a), (B, how_b) = (
        _by_rows(X, turned) for X, turned in ((A, transpose_a), (B, transpose_b))
    )
    product = problem_of(how_a + how_b, A, B)
    fused = biased or activation not in (None, ACTIVATIONS[0])
    chosen = choose(product, dtype or A.dtype.name, fused)
    settings = dict(chosen.settings)
    if fused:
        settings["ACTIVATION"] = ACTIVATIONS.index(activation or ACTIVATIONS[0])
    kernel = _kernel(chosen.rung, tuple(settings.items()))
    problem = product
    if chosen.turned:
        problem = replace(problem, ops="NN")
    if chosen.one_by_one:
        problem = replace(problem, batch=1)
    shape = (*A.shape[:-2], product.m, product.n)
    prepare = (
        _prepare(A, how_a, transpose_a, "A" in chosen.turned, kernel),
        _prepare(B, how_b, transpose_b, "B" in chosen.turned, kernel),
    )
    return Plan(chosen, kernel, problem, shape, prepare)


def _check_matrices(A: Any, B: Any, dtype: str | None) -> None:
    kinds = _kinds()
    if dtype is not None and dtype not in TYPES:
        raise ArgumentError(f"dtype is {dtype!r}; it must be one of {', '.join(TYPES)}")
    if dtype is None:  # their own type says what they are, but for the bits of bfloat16
        stored = {precision.a.storage for precision in TYPES.values() if precision is not BRAIN}
    else:
        stored = {TYPES[dtype].a.storage}
    for name, array in (("A", A), ("B", B)):
        if not isinstance(array, kinds) or isinstance(array, NO_PLAIN_ARRAYS):
            raise ArgumentError(
                f"{name} is {kind_of(array)}: gl.matmul takes NumPy arrays, or on a GPU CuPy arrays"
            )
    if type(B) is not type(A):
        raise ArgumentError(
            f"A is {kind_of(A)} and B is {kind_of(B)}: gl.matmul takes arrays of one kind"
        )
    for name, array in (("A", A), ("B", B)):
        if array.dtype.name not in stored:
            raise ArgumentError(
                f"{name} is {array.dtype}: gl.matmul takes {' and '.join(sorted(stored))}"
                + (f" with dtype={dtype!r}" if dtype else "")
                + f", and the bits of {BRAIN.name} as {BRAIN.a.storage} with dtype={BRAIN.name!r}"
            )
        if array.ndim not in (2, 3):
            raise ArgumentError(
                f"{name} has {array.ndim} axes: gl.matmul takes matrices, or batches of them"
            )
    if A.dtype != B.dtype:
        raise ArgumentError(f"A is {A.dtype} and B is {B.dtype}: they must be of one type")


def _by_rows(array: Any, turned: bool) -> tuple[Any, str]:
    """The array as it is stored, row by row where that can be, and its letter of a Problem."""
    by_rows = array.flags.c_contiguous or array.strides[-1] == array.itemsize
    if not by_rows and array.strides[-2] == array.itemsize:  # a transposed view
        return array.swapaxes(-1, -2), "TN"[turned]
    return array, "NT"[turned]


def _prepare(
    array: Any, letter: str, transposed: bool, turned: bool, kernel: Any
) -> Callable | None:
    """What makes of an argument, where it is, what the kernel takes; None for nothing. `array`: as
    it is stored. `turned`: op of it is made before the product."""
    swapped = (letter == "T") != transposed  # the caller's array is a transposed view of it
    if turned:
        swapped = not swapped
    xp = np if isinstance(array, np.ndarray) else kernel.array_module
    lies = array.swapaxes(-1, -2) if turned else array
    gaps = kernel.takes("lda")
    copied = layout.fault(lies, gaps=gaps) is not None or not (gaps or _begins(array))
    if copied:
        return lambda X: xp.array(X.swapaxes(-1, -2) if swapped else X, order="C")
    return (lambda X: X.swapaxes(-1, -2)) if swapped else None


def _kinds() -> tuple[type, ...]:
    if gpu() is None:
        return (np.ndarray,)
    import cupy

    return np.ndarray, cupy.ndarray


@lru_cache(maxsize=256)
def _kernel(name: str, settings: tuple[tuple[str, Any], ...]) -> Kernel:
    kernel = load(name, **dict(settings))
    kernel.prepare()
    return kernel
