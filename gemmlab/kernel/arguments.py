"""Check the arguments of a kernel before anything is launched; errors say what is right."""

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from gemmlab.kernel import layout
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Problem, Rung, Settings
from gemmlab.ladder.launch import MATRICES
from gemmlab.ladder.precision import FLOAT32, ElementType

LARGEST = float(np.finfo(np.float32).max)


class ArgumentError(Exception):
    """Matrices, factors or sizes that a kernel does not take. The message says what it takes."""


def problem_of(ops: str, A: Any, B: Any) -> Problem:
    """The product of two matrices, or batches, as they are stored. Raises ArgumentError."""
    batch = A.shape[0] if A.ndim == 3 else 1
    (m, k), (k_of_b, n) = _turned(A, ops[0]), _turned(B, ops[1])
    if k != k_of_b:
        turned = " after transposing" if "T" in ops else ""
        raise ArgumentError(f"A is {m}×{k} and B is {k_of_b}×{n}{turned}: the inner sizes differ")
    if A.ndim != B.ndim or (B.shape[0] if B.ndim == 3 else 1) != batch:
        raise ArgumentError(f"A is {A.shape} and B is {B.shape}: the batches differ")
    return Problem(m, n, k, batch, ops)


def _turned(matrix: Any, how: str) -> tuple[int, int]:
    """Rows and columns of op(matrix)."""
    rows, columns = matrix.shape[-2:]
    return (rows, columns) if how == "N" else (columns, rows)


def operands_of(
    rung: Rung, settings: Settings, A: Any, B: Any, C: Any, beta: float, bias: Any, scales: Any,
    kinds: Any,
) -> Operands:  # fmt: skip
    """The arrays as operands of `rung`, C None where it is not given. Raises ArgumentError.
    `kinds`: the types of arrays that are taken, all of one of them."""
    name, precision = rung.name, rung.precision_of(settings)
    kind = precision.scales
    if bias is not None and not rung.takes_bias(settings):
        also = " with these settings" if "BIAS" in settings else "; rung 11_fused_epilogue does"
        raise ArgumentError(f"{name} takes no bias{also}")
    if scales is None and kind is not None:
        raise ArgumentError(f"{name} needs scales, a float32 array for A and one for B: {kind}")
    if scales is not None and kind is None:
        raise ArgumentError(f"{name} takes no scales")
    matrices = 3 if rung.batch > 1 else 2
    arrays: list[tuple[str, Any, ElementType, int]] = [  # name, array, element type, axes
        ("A", A, precision.a, matrices), ("B", B, precision.b, matrices),
    ]  # fmt: skip
    if beta != 0 and C is None:
        shape = "(batch, M, N)" if rung.batch > 1 else "(M, N)"
        raise ArgumentError(
            f"beta is {beta}, so {name} needs C, a {precision.c.name} {shape} array"
        )
    if beta != 0:
        arrays.append(("C", C, precision.c, matrices))
    if bias is not None:
        arrays.append(("bias", bias, FLOAT32, 1))
    scale_a: Any
    scale_b: Any
    scale_a, scale_b = scales or (None, None)
    if kind is not None:
        axes = matrices - 2 + (2 if kind.depth else 1)
        arrays.append(("scale_a", scale_a, kind.element, 2 if kind.by_columns else axes))
        arrays.append(("scale_b", scale_b, kind.element, axes))
    names = rung.names(settings)
    lies = {"gaps": "lda" in names, "anywhere": "pointers_a" in names}
    for which, array, element, axes in arrays:
        if not isinstance(array, kinds) or type(array) is not type(A):
            raise ArgumentError(
                f"{which} is {kind_of(array)}: {name} takes NumPy arrays, or on a GPU CuPy arrays, "
                "all of one kind"
            )
        if array.dtype != element.storage:
            bits = f"their bits as {element.storage}"  # where NumPy lacks the type
            so = f"{which}.astype(np.{element.name})" if element.name == element.storage else bits
            raise ArgumentError(f"{which} is {array.dtype}: {name} takes {element.name}; use {so}")
        if array.ndim != axes:
            needs = {1: f"a {which} with one", 2: "matrices", 3: "batches of matrices"}[axes]
            if which.startswith("scale"):
                needs = f"{axes}: {kind}"
            raise ArgumentError(f"{which} has {array.ndim} axes: {name} takes {needs}")
        how = lies if which in MATRICES else {"gaps": False}
        if fault := layout.fault(array, **how):
            raise ArgumentError(f"{which} {fault}: pass np.ascontiguousarray({which})")
    problem = problem_of(rung.ops(settings), A, B)
    m, n = problem.m, problem.n
    if beta != 0 and C.shape != (*A.shape[:-2], m, n):
        of_c, of_product = ("×".join(map(str, X)) for X in (C.shape, (*A.shape[:-2], m, n)))
        raise ArgumentError(f"C is {of_c}; it must be {of_product}, like A @ B")
    if bias is not None and len(bias) != n:
        raise ArgumentError(f"bias has {len(bias)} elements; it needs {n}, one per column of A @ B")
    if kind is not None:
        batch, single = A.shape[:-2], replace(problem, batch=1)
        of_a = kind.shape_of_a(problem if kind.by_columns else single)
        for which, scale, needed in (
            ("scale_a", scale_a, of_a if kind.by_columns else (*batch, *of_a)),
            ("scale_b", scale_b, (*batch, *kind.shape_of_b(single))),
        ):
            if scale.shape != needed:
                needs = f"these matrices need {needed}: {kind}"
                raise ArgumentError(f"{which} is {scale.shape}; {needs}")
    return Operands(problem, precision, A, B, C if beta != 0 else None, bias, scale_a, scale_b)


def factor(name: str, value: object) -> float:
    """alpha or beta; raises ArgumentError for what is no real number that float32 holds."""
    # Python's own numbers first: to ask whether another type is real takes a microsecond.
    real = type(value) in (float, int) or (isinstance(value, Real) and not isinstance(value, bool))
    if not real or not -LARGEST <= value <= LARGEST:  # type: ignore[operator]
        raise ArgumentError(
            f"{name} is {value!r}: kernels take a real number in the range of float32, from "
            f"{-LARGEST:.7g} to {LARGEST:.7g}"
        )
    return float(value)  # type: ignore[arg-type]


def kind_of(value: object) -> str:
    return "None" if value is None else f"{type(value).__module__}.{type(value).__name__}"
