"""Scales of FP8 as gl.matmul takes them, and what makes of them what a kernel takes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from numbers import Real
from typing import Any

import numpy as np

from gemmlab.kernel import layout
from gemmlab.kernel.arguments import ArgumentError, kind_of
from gemmlab.ladder import BRAIN, SINGLE, Problem
from gemmlab.ladder.precision import BFLOAT16, BLOCK, OF_BLOCKS, OF_ROWS, OF_TENSORS
from gemmlab.ladder.shapes import ceil_div

ROW = 16 // BFLOAT16.bytes  # columns of C to a multiple of which rows are made longer
NO_SCALES = None, None


@dataclass(frozen=True)
class Scaling:
    """What of the scales a plan depends on: their shapes, () of a number, and the type of C."""

    shapes: tuple[tuple[int, ...], ...]
    to: str

    def steps(self, problem: Problem, xp: Any) -> tuple[str, tuple[Callable, Callable]]:
        """The kind of scales, and what makes of A's and of B's what the kernel takes. Raises
        ArgumentError for shapes that do not fit."""
        m, n, k = problem.shape
        blocks = (m, ceil_div(k, BLOCK)), (ceil_div(k, BLOCK), ceil_div(n, BLOCK))
        if set(self.shapes) <= {(), (1,)}:
            return OF_TENSORS.name, (partial(_single, xp),) * 2
        if self.shapes == ((m,), (n,)):
            return OF_ROWS.name, (_whole, partial(_longer, xp, n) if n % ROW else _whole)
        if self.shapes == blocks and not k:  # no product has a scale
            return OF_TENSORS.name, (lambda _: xp.ones(1, np.float32),) * 2
        if self.shapes == blocks:
            return OF_BLOCKS.name, (by_columns,) * 2
        raise ArgumentError(
            f"scales are {' and '.join(map(str, self.shapes))}; these matrices need numbers, or "
            f"shapes ({m},) and ({n},) for rows, or {blocks[0]} and {blocks[1]} for blocks"
        )


def scaling_of(scales: Any, A: Any, C: Any, out: Any) -> Scaling:
    """Raises ArgumentError for what are no two scales in float32, arrays of A's kind."""
    if not isinstance(scales, tuple | list) or len(scales) != 2:
        raise ArgumentError(f"scales are {kind_of(scales)}: pass a tuple, A's scale and B's")
    for name, scale in zip("AB", scales, strict=True):
        if isinstance(scale, Real):
            continue
        if type(scale) is not type(A) or scale.dtype != np.float32:
            what = f"{kind_of(scale)} of {getattr(scale, 'dtype', 'no type')}"
            raise ArgumentError(f"scales of {name} are {what}: pass numbers or float32 arrays")
    is_single = any(getattr(X, "dtype", None) == np.float32 for X in (C, out))
    shapes = tuple(getattr(scale, "shape", ()) for scale in scales)
    return Scaling(shapes, SINGLE.name if is_single else BRAIN.name)


def _single(xp: Any, scale: Any) -> Any:
    return _number(xp, float(scale)) if isinstance(scale, Real) else scale.reshape(1)


@lru_cache(maxsize=256)
def _number(xp: Any, scale: float) -> Any:
    """An array of it, which is there before another stream may need it."""
    array = xp.asarray([scale], np.float32)
    if xp is not np:
        xp.cuda.get_current_stream().synchronize()
    return array


def _whole(scale: Any) -> Any:
    return scale if scale.flags.c_contiguous and layout.begins(scale) else scale.copy()


def by_columns(scale: Any) -> Any:
    """scale.T as a kernel takes it: of an array in Fortran order nothing is copied."""
    return _whole(scale.T)


def _longer(xp: Any, n: int, scale: Any) -> Any:
    """With ones for the columns by which rows are made longer."""
    return xp.concatenate([scale, xp.ones(-n % ROW, np.float32)])
