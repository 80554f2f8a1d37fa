"""The layout of a matrix, or of a batch, in memory: leading dimension, stride, extent.

Matrices are row-major: the elements of a row follow one another. From one row to the next it is the
leading dimension, in elements, and from one matrix of a batch to the next the stride. Both may be
larger than what is there: such an array is a view of a part of a larger one. NumPy and CuPy arrays.
"""

from typing import Any

import numpy as np

from gemmlab.ladder.precision import ElementType

ALIGNMENT = 16  # bytes: of the widest access; whole arrays begin at multiples of it


def leading(array: Any) -> int:
    """Elements from one row to the next; of a single row as many as it has, 1 or more."""
    rows, columns = array.shape[-2:]
    if rows < 2 or not array.size:
        return max(columns, 1)
    return array.strides[-2] // array.itemsize


def stride(array: Any) -> int:
    """Elements from one matrix of a batch to the next; of one matrix as many as it takes."""
    if array.ndim < 3 or array.shape[0] < 2 or not array.size:
        return array.shape[-2] * leading(array)
    return array.strides[0] // array.itemsize


def fault(array: Any, *, gaps: bool, anywhere: bool = False) -> str | None:
    """Why a kernel cannot take the array as it lies, as the end of a sentence; None where it can.

    `gaps`: rows, and the matrices of a batch, may be further apart than they are long. `anywhere`:
    the matrices of a batch may overlap, being given by their addresses and only read.
    """
    if array.flags.c_contiguous:
        return None
    if not gaps:
        return "is not row-major without gaps"
    rows, columns = array.shape[-2:]
    size = array.itemsize
    if any(step % size for step in array.strides):
        return "does not lie on whole elements"
    if columns > 1 and array.strides[-1] != size:
        return "is not row-major: the elements of a row do not follow one another"
    apart = leading(array)
    if apart < columns:
        return f"has rows of {columns} elements that begin {apart} apart, so that they overlap"
    if array.ndim < 3 or array.shape[0] < 2:
        return None
    step, long = stride(array), (rows - 1) * apart + columns
    in_turn = step >= columns and apart >= (array.shape[0] - 1) * step + columns  # row by row
    if step < 0 or not (anywhere or step >= long or in_turn):
        return f"has matrices of {long} elements that begin {step} apart, so that they overlap"
    return None


def begins(array: Any) -> bool:
    """Whether it begins where every kernel can take it. NumPy's are copied to a GPU anyway."""
    return isinstance(array, np.ndarray) or not array.data.ptr % ALIGNMENT


def span(array: Any) -> int:
    """Elements from the first to the last one of the array, both counted, gaps included."""
    if not array.size:
        return 0
    steps = (step * (n - 1) for step, n in zip(array.strides, array.shape, strict=True))
    return 1 + sum(steps) // array.itemsize


def flat(array: np.ndarray) -> tuple[np.ndarray, int]:
    """The memory that an array spans, (n,), and at which of its elements the array begins.

    That is where it is off 16 bytes as it is in the array that it is a view of. An array without
    gaps begins at the first, as what is copied to a GPU does.
    """
    if array.flags.c_contiguous:
        return array, 0
    owner: Any = array
    while getattr(owner, "base", None) is not None:
        owner = owner.base
    owned = np.asarray(owner).ravel(order="K").view(np.uint8)
    begin = array.__array_interface__["data"][0] - owned.__array_interface__["data"][0]
    off = begin % ALIGNMENT
    memory = owned[begin - off : begin + span(array) * array.itemsize]
    return memory.view(array.dtype), off // array.itemsize


def starts(array: Any) -> np.ndarray:
    """int64 (batch,): elements from the beginning of the array to that of each matrix."""
    return stride(array) * np.arange(array.shape[0] if array.ndim > 2 else 1)


def covered(array: Any) -> np.ndarray:
    """bool (span,): which elements of what an array spans belong to it."""
    mask = np.zeros(span(array), bool)
    if array.size:
        steps = [step // array.itemsize for step in array.strides]
        np.lib.stride_tricks.as_strided(mask, array.shape, steps)[...] = True
    return mask


def spread_out(values: np.ndarray, element: ElementType, gap: int) -> np.ndarray:
    """The values, with so many guard cells between rows and a row of them between matrices."""
    *batch, rows, columns = values.shape
    memory = np.full(
        (*batch, rows + bool(batch and gap), columns + gap), element.guard, element.bits
    )
    view = memory.view(element.storage)[..., :rows, :columns]
    view[...] = values
    return view
