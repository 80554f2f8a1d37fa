"""What parts leave out of a number, and where the error of a product comes from."""

import numpy as np
import pandas

from gemmlab.lessons.emulated_fp32 import errors, model
from gemmlab.lessons.emulated_fp32.errors import WAYS, Case

EVERY = 25  # of the numbers from 1 to 2, how many there are to one that is split


def left_by_parts() -> pandas.DataFrame:
    """The largest share of a number from 1 to 2 that is left after each part, in BF16 and FP16."""
    numbers = (1 + np.arange(0, 2**23, EVERY) * 2.0**-23).astype(np.float32)[:, None]
    columns = {}
    for way in ("BF16×9", "FP16×3"):
        parts = _values(numbers, WAYS.index(way))
        shares = [(abs(numbers - sum(parts[:i])) / numbers).max() for i in range(1, len(parts) + 1)]
        columns[way.partition("×")[0]] = pandas.Series(shares, range(1, len(shares) + 1))
    return pandas.DataFrame(columns).rename_axis("parts")


def account(way: str, promote: int, data: str, k: int = errors.DEPTH) -> pandas.Series:
    """Root mean squares of what each step adds to the error, as shares of |A| |B|.

    What the parts leave out, the products that are not computed, the sums of the largest parts
    with their promotion, and all else, that is corrections and the last addition.
    """
    A, B = errors.matrices(data, k)
    number = WAYS.index(way)
    how, wide_a, wide_b = model.WAYS[number], A.astype(np.float64), B.astype(np.float64)
    left, right = _values(A, number), [part.T for part in _values(B.T, number)]
    all_parts = sum(left) @ sum(right)
    kept = left[0] @ right[0] + sum(left[i] @ right[j] for i, j in how.corrections)
    largest = [X[0].astype(np.float32) for X in (left, right)]
    sums = model.product(*largest, number, promote) - left[0] @ right[0]
    C = Case(way, promote, data, k).multiply(A, B)
    steps = {
        "parts": all_parts - wide_a @ wide_b, "products left out": kept - all_parts,
        "sums of the largest parts": sums, "all else": C - kept - sums,
        "error": C - wide_a @ wide_b,
    }  # fmt: skip
    size = abs(wide_a) @ abs(wide_b)
    return pandas.Series({name: np.sqrt(np.mean((x / size) ** 2)) for name, x in steps.items()})


def _values(X: np.ndarray, way: int) -> list[np.ndarray]:
    """The parts of each number, float64, as much as each has of it."""
    parts, exponents = model.split(X, way)
    scales = np.exp2(exponents.astype(np.float64))[:, None]
    return [part * model.WAYS[way].step ** i * scales for i, part in enumerate(parts)]


def rms(way: str, promote: int, data: str, k: int = errors.DEPTH) -> float:
    """The recorded error. Raises NoRecord, StaleRecord."""
    table = errors.ERRORS.read().set_index(["way", "promote", "data", "k"])
    return float(table.loc[(way, promote, data, k), "rms"])
