"""What sums of 8-bit floats by wgmma lose: it keeps 13 bits of the fraction.

An instruction adds 32 products and the sum before it, as recorded on an NVIDIA H200 (see
ptxsim.tensor_cores.adding; the same in Khattak and Mikaitis, arXiv 2512.07004). With
2**e the largest power of two among these 33 terms, each is cut off below 2**(e - 13): it loses less
than that. What is left is added exactly, and the sum cut off to 13 bits of its own fraction.
Cutting off makes nothing larger, so what instructions lose adds up.
"""

from __future__ import annotations

from typing import Any

DEPTH = 32  # products of one instruction
UNIT = 2.0**-13


def lost(A: Any, B: Any, promoted: int, least: tuple[Any, Any] = (0.0, 0.0)) -> Any:
    """The most that each element of A @ B loses, float64 (M, N).

    `A`: (M, K), `B`: (K, N), float64, NumPy or CuPy. `promoted`: products after which a sum goes on
    in float32 and the tensor cores begin anew, 0 for all. `least`: what elements of A, of B count
    as at the least, for the exponent of a subnormal one is that of the smallest normal number.
    """
    k = A.shape[-1]
    total = 0.0 * (A[:, :1] @ B[:1])
    group_loss, loss = 0.0 * total, 0.0 * total
    least_a, least_b = (least_one + 0.0 * X for least_one, X in zip(least, (A, B), strict=True))
    for at in range(0, k, DEPTH):
        if promoted and at % promoted == 0:
            loss, group_loss, total = loss + group_loss, 0.0 * loss, 0.0 * total
        part = slice(at, at + DEPTH)
        a, b = A[:, part], B[part]
        of_a = abs(a).clip(least_a[:, part]).max(axis=1)
        of_b = abs(b).clip(least_b[part]).max(axis=0)
        before = abs(total) + group_loss
        largest = before + (of_a[:, None] * of_b - before).clip(0.0)
        total = total + a @ b
        group_loss = group_loss + (a.shape[1] + 1) * UNIT * largest
        group_loss = group_loss + UNIT * (abs(total) + group_loss)
    return loss + group_loss
