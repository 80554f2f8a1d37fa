"""The product in float64, and the largest error that each element may have.

docs/bounds.md derives the bounds, for each type, and names their sources. Of a float32 C it is

    |alpha| * gamma(K + 2) * (|A| |B|)  +  |beta| * gamma(2) * |C|  +  underflow
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmlab.ladder.activations import activate, error_after
from gemmlab.ladder.precision import FLOAT32, SINGLE, Precision

SMALLEST_NORMAL = 2.0**-126  # of float32, in which all sums are


@dataclass(frozen=True)
class Sums:
    """How a wgmma adds: `depth` products and the sum before them at once, each cut off below the
    share `aligned` of the largest, and the sum below the share `kept` of itself."""

    depth: int
    aligned: float
    kept: float


OF_8_BITS = Sums(32, 2.0**-13, 2.0**-13)
OF_16_BITS = Sums(16, 2.0**-25, 2.0**-23)


def reference(
    A: Any, B: Any, C: Any, alpha: float, beta: float, bias: Any = None, activation: str = "none"
) -> Any:
    """activation(alpha * A @ B + beta * C + bias) in float64, the activation one of ACTIVATIONS.

    `A`: (M, K), `B`: (K, N), `C`: (M, N), each with the batch before it, if any. C is not looked at
    where beta is 0. `bias`: (N,), or None.
    """
    product = alpha * (A.astype(np.float64) @ B.astype(np.float64))
    if beta:
        product = product + beta * C.astype(np.float64)
    if bias is not None:
        product = product + bias.astype(np.float64)
    return activate(product, activation)


def error_bound(
    A: Any, B: Any, C: Any, alpha: float, beta: float,
    precision: Precision = SINGLE, bias: Any = None, activation: str = "none",
    least: tuple[Any, Any] = (0.0, 0.0),
) -> Any:  # fmt: skip
    """How far each element may be from the reference, float64 of C's shape: see docs/bounds.md.
    `least`: of A and B, see Operands.least."""
    k, u = A.shape[-1], FLOAT32.unit_roundoff
    more = 0 if bias is None else 1  # roundings
    errors, size = precision.errors(k)
    errors += (1 + more) * min(1.0, 2 * u / size) if size else 0.0
    magnitude = abs(A).astype(np.float64) @ abs(B).astype(np.float64)
    underflow = (2 * k + 4) * SMALLEST_NORMAL * max(abs(alpha), 1.0)
    bound = abs(alpha) * _gamma(errors, size) * magnitude + underflow
    if precision.promoted is not None:
        more_than_exact = 1 + _gamma(errors, size)  # what is lost is rounded with the rest
        bound += abs(alpha) * more_than_exact * lost(A, B, precision.promoted, least)
    if precision.lost is not None:
        bound += abs(alpha) * (1 + _gamma(errors, size)) * precision.lost(A, B)
    if beta:
        bound += abs(beta) * _gamma(2 + more, u) * abs(C).astype(np.float64)
    if bias is not None:
        bound += _gamma(1, u) * abs(bias).astype(np.float64)
    if activation != "none":
        bound = error_after(reference(A, B, C, alpha, beta, bias), bound, activation) + underflow
    if precision.c is FLOAT32:
        return bound
    largest = abs(reference(A, B, C, alpha, beta, bias, activation)) + bound
    return bound + precision.c.unit_roundoff * largest + precision.c.smallest_subnormal / 2


def _gamma(n: float, u: float) -> float:
    """What n errors of a relative size up to u each add up to at most."""
    return n * u / (1 - n * u)


def lost(
    A: Any, B: Any, promoted: int, least: tuple[Any, Any] = (0.0, 0.0), sums: Sums = OF_8_BITS
) -> Any:
    """The most that each element of A @ B loses in sums by wgmma, float64 (M, N).

    An instruction adds 32 products of 8-bit floats and the sum before it, as recorded on an NVIDIA
    H200 (see ptxsim.tensor_cores.adding; the same in Khattak and Mikaitis, arXiv 2512.07004). With
    2**e the largest power of two among these 33 terms, each is cut off below 2**(e - 13). What is
    left is added exactly, and the sum cut off to 13 bits of its own fraction. Cutting off makes
    nothing larger, so what instructions lose adds up. Of 16-bit floats it adds 16 products, and
    cuts off below 2**(e - 25) and to the 23 bits of float32.

    `A`: (M, K), `B`: (K, N), float64, NumPy or CuPy, each with the batch before it, if any.
    `promoted`: products after which a sum goes on in float32 and the tensor cores begin anew, 0 for
    all. `least`: what elements of A, of B count as at the least, for the exponent of a subnormal
    number is that of the smallest normal one.
    """
    k = A.shape[-1]
    total = 0.0 * (A[..., :1] @ B[..., :1, :])
    group_loss, loss = 0.0 * total, 0.0 * total
    least_a, least_b = (smallest + 0.0 * X for smallest, X in zip(least, (A, B), strict=True))
    for start in range(0, k, sums.depth):
        if promoted and start % promoted == 0:
            loss, group_loss, total = loss + group_loss, 0.0 * loss, 0.0 * total
        part = slice(start, start + sums.depth)
        a, b = A[..., part], B[..., part, :]
        largest_a = abs(a).clip(least_a[..., part]).max(axis=-1, keepdims=True)
        largest_b = abs(b).clip(least_b[..., part, :]).max(axis=-2, keepdims=True)
        before = abs(total) + group_loss
        largest = before + (largest_a * largest_b - before).clip(0.0)
        total = total + a @ b
        group_loss = group_loss + (a.shape[-1] + 1) * sums.aligned * largest
        group_loss = group_loss + sums.kept * (abs(total) + group_loss)
    return loss + group_loss
