"""Matrices from a seed, and what a float32 product of them may be."""

from __future__ import annotations

import numpy as np

UNIT_ROUNDOFF = 2.0**-24  # half the distance from 1 to the next float32
SMALLEST_NORMAL = 2.0**-126


def ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)


def random_matrix(rows: int, cols: int, seed: int) -> np.ndarray:
    """float32 (rows, cols), uniform in [-1, 1), the same for a seed on every machine.

    NumPy keeps the raw bits of its PCG64 the same for good, and its distributions not.
    """
    raw = np.random.PCG64(seed).random_raw(rows * cols)
    values = (raw >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - 1
    return values.reshape(rows, cols)


def reference(A, B, C, alpha: float, beta: float) -> np.ndarray:
    """alpha * A @ B + beta * C in float64. C is not looked at where beta is 0."""
    product = alpha * (A.astype(np.float64) @ B.astype(np.float64))
    return product + beta * C.astype(np.float64) if beta else product


def error_bound(A, B, C, alpha: float, beta: float) -> np.ndarray:
    """How far each element may be from the reference, float64 of C's shape, with float32 sums.

    N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, SIAM 2002, section
    3.1: an inner product of length K in any order. Subnormal products and sums may be 0.
    """
    k = A.shape[-1]
    magnitude = abs(A).astype(np.float64) @ abs(B).astype(np.float64)
    underflow = (2 * k + 4) * SMALLEST_NORMAL * max(abs(alpha), 1.0)
    bound = abs(alpha) * _gamma(k + 2) * magnitude + underflow
    return bound + abs(beta) * _gamma(2) * abs(C).astype(np.float64) if beta else bound


def _gamma(n: int) -> float:
    """What n relative errors of up to the unit roundoff each add up to at most."""
    return n * UNIT_ROUNDOFF / (1 - n * UNIT_ROUNDOFF)
