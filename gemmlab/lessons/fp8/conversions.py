"""Which numbers 8-bit floats are, and how far the hardware's conversion moves a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gemmlab.ladder.element_types import ElementType
from gemmlab.lessons.fp8.quantize import ELEMENTS, quantize

if TYPE_CHECKING:
    import pandas

EACH = 256  # values that are converted of each octave


def numbers(element: ElementType) -> np.ndarray:
    """All finite numbers above 0 of an 8-bit float, in order, float64."""
    every = element.decode(np.arange(128, dtype=np.uint8))
    return np.sort(every[np.isfinite(every) & (every > 0)])


def converted(values: np.ndarray, element: ElementType) -> np.ndarray:
    """What kernels/19_quantize.cu makes of values up to the largest number of `element`, float64.

    values: float32 (n,). They are quantized together with that number, so that their scale is 1.
    """
    largest = np.float32(numbers(element)[-1])
    Q, scale = quantize(np.append(values, largest)[None], "tensors", element=element.name)
    assert scale[0] == 1, "with the largest number there is, the scale is 1"
    return element.decode(Q[0, :-1])


def rounding() -> pandas.DataFrame:
    """The largest relative error of a conversion in each octave, for both types.

    A row for each octave, as far as it has a number of the type that is converted to. Columns:
    element, from (where the octave begins, 2**exponent), error (a share of the value).
    """
    import pandas

    rows = []
    for element in ELEMENTS.values():
        every = numbers(element)
        between = (np.append(0.0, every[:-1]) + every) / 2  # as far from both neighbours
        first, last = (int(np.floor(np.log2(one))) for one in (every[0] / 2, every[-1]))
        for exponent in range(first, last + 1):
            values = np.append(between, np.exp2(exponent + np.arange(EACH) / EACH))
            inside = (values >= 2.0**exponent) & (values < 2.0 ** (exponent + 1))
            values = values[inside & (values <= every[-1])].astype(np.float32)
            error = abs(converted(values, element) - values) / values
            rows.append({"element": element.name, "from": 2.0**exponent, "error": error.max()})
    return pandas.DataFrame(rows)
