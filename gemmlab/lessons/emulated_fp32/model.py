"""23_emulated_fp32.cu in NumPy, bit for bit: how it splits float32, and in which order it adds.

The tensor cores' own sums are those of ptxsim, as recorded on an NVIDIA H200. The kernels' own
float32 arithmetic takes subnormal numbers for 0, as that of all kernels here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ptxsim.tensor_cores import adding
from ptxsim.tensor_cores.wgmma import SUMS_AT_ONCE, Rows

f4, f8 = np.float32, np.float64
WGMMA_K = 16  # products that an instruction adds at once
STAGE_K = 64  # of K in a stage of the pipeline
LARGEST_BF16 = f4(2.0**128 - 2.0**120)
LARGEST_SCALED = 14  # exponent of the largest of a row, scaled for fp16
LEAST_EXPONENT = -112  # of a row's largest: what it is scaled by is a float32


@dataclass(frozen=True)
class Way:
    """How float32 is multiplied by products of 16 bits.

    `element`: the type of the parts, as PTX calls it. `parts`: of each number. `order`: products of
    part i of A and part j of B are computed where i + j is at most this. `step`: part i is stored
    divided by the i-th power of this, so that small ones are not subnormal. `least`: a smaller
    number than this, as it is scaled, may lose bits that matter.
    """

    name: str
    element: str
    parts: int
    order: int
    step: float = 1.0
    least: float = 2.0**-102

    @property
    def scales(self) -> bool:
        """Whether rows of A and columns of B are scaled."""
        return self.element == "f16"

    @property
    def corrections(self) -> list[tuple[int, int]]:
        """The parts of A and B of each product but the largest, the smallest first."""
        return [
            (i, order - i)
            for order in range(self.order, 0, -1)
            for i in range(self.parts)
            if 0 <= order - i < self.parts
        ]


WAYS = (
    Way("BF16×6", "bf16", 3, 2),
    Way("FP16×3", "f16", 2, 1, 2.0**-11, 2.0**-11),
    Way("BF16×3", "bf16", 2, 1),
    Way("BF16×9", "bf16", 3, 4),
)  # by the value of WAY


def split(x: np.ndarray, way: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The parts of each number of `x`, float32 (rows, K), and what its rows are scaled by.

    Parts are float32 (rows, K) with values of the 16-bit type. Exponents are int (rows,), 0 where
    nothing is scaled: x is about 2**exponent * (part 0 + step * part 1 + step**2 * part 2). Of
    what is not finite, part 0 alone counts.
    """
    how = WAYS[way]
    exponents = np.zeros(len(x), int)
    if how.scales:
        largest = (abs(x).view(np.uint32).max(axis=1, initial=0) >> 23).astype(int) - 127
        exponents = np.maximum(largest, LEAST_EXPONENT) - LARGEST_SCALED
    with np.errstate(invalid="ignore"):
        rest = _flushed(_flushed(x) * np.exp2(-exponents).astype(f4)[:, None])
        parts = []
        for _ in range(how.parts):
            parts.append(_rounded(rest, how.element))
            rest = _flushed(rest - parts[-1]) * f4(1 / how.step)
    return parts, exponents


def _flushed(x: np.ndarray) -> np.ndarray:
    return np.where(abs(x) < f4(2.0**-126), f4(0), x)


def _rounded(x: np.ndarray, element: str) -> np.ndarray:
    """To the nearest of 16 bits, as float32; of bfloat16 a finite number stays finite."""
    if element == "f16":
        return x.astype(np.float16).astype(f4)
    finite = np.isfinite(x)
    bits = np.where(finite, x.clip(-LARGEST_BF16, LARGEST_BF16), f4(0)).view(np.uint32)
    bits = bits + 0x7FFF + (bits >> 16 & 1) & np.uint32(0xFFFF0000)
    return np.where(finite, bits.astype(np.uint32).view(f4), x)


def lost(x: np.ndarray, way: int, k: int) -> bool:
    """Whether the kernel says that it may have lost bits of x, float32 (rows, K), of products of
    depth `k`. It says so, too, where C is not finite."""
    how = WAYS[way]
    scaled = abs(x) * np.exp2(-split(x, way)[1].astype(f8))[:, None]
    least = f4(how.least) / f4(k) if how.scales else how.least
    return bool(((x != 0) & (scaled < least)).any())


def product(A: np.ndarray, B: np.ndarray, way: int, promote: int) -> np.ndarray:
    """A @ B by the kernel with alpha 1 and beta 0, float32 (M, N). `A`: (M, K), `B`: (K, N), both
    float32. `promote`: after so many of K, a multiple of 64, sums of the largest parts go on in
    float32; 0 for never."""
    how = WAYS[way]
    (left, of_a), (right, of_b) = split(A, way), split(B.T, way)
    left, right = ([_padded(part) for part in parts] for parts in (left, right))
    totals = np.zeros((len(A), B.shape[1]), f4)
    with np.errstate(invalid="ignore", over="ignore"):
        for sums in _intervals(left[0], right[0], how.element, promote):
            totals = _flushed(totals + _flushed(sums))
        corrections = _corrections(left, right, how).astype(f4)  # may be subnormal
        both = totals + corrections * f4(how.step)  # exact but for the addition
        both = np.where(np.isfinite(totals), both, totals).astype(f8)
        return _flushed(np.ldexp(both, of_a[:, None] + of_b).astype(f4))


def _padded(part: np.ndarray) -> np.ndarray:
    """With zeros, to whole stages."""
    return np.pad(part, ((0, 0), (0, -part.shape[1] % STAGE_K)))


def _intervals(a: np.ndarray, b: np.ndarray, element: str, promote: int) -> Iterator[np.ndarray]:
    """float32 (M, N): what is promoted after each interval of K."""
    k = a.shape[1]
    if not k:
        return
    promote = promote or k
    a, b = (np.pad(x, ((0, 0), (0, -k % promote))) for x in (a, b))
    a, b = (x.reshape(len(x), -1, promote).swapaxes(0, 1) for x in (a, b))
    at_once = max(1, SUMS_AT_ONCE // max(1, a.shape[1] * b.shape[1]))
    for start in range(0, len(a), at_once):
        some = slice(start, start + at_once)
        sums = np.zeros((len(a[some]), a.shape[1], b.shape[1]))
        for k in range(0, promote, WGMMA_K):
            step = (some, slice(None), slice(k, k + WGMMA_K))
            sums = _added(a[step], b[step], sums, element)
        yield from sums.astype(f4)


def _corrections(left: list[np.ndarray], right: list[np.ndarray], how: Way) -> np.ndarray:
    """float64 (M, N): the sum of all products but the largest, in units of `step`."""
    sums = np.zeros((1, len(left[0]), len(right[0])))
    for stage in range(0, left[0].shape[1], STAGE_K):
        for i, j in how.corrections:
            for k in range(stage, stage + STAGE_K, WGMMA_K):
                step = (None, slice(None), slice(k, k + WGMMA_K))
                sums = _added(left[i][step], right[j][step], sums, how.element)
    return sums[0]


def _added(a: np.ndarray, b: np.ndarray, sums: np.ndarray, element: str) -> np.ndarray:
    """One instruction: sums + a @ b.T, float64 (groups, M, N). `a`: (groups, M, 16), `b`:
    (groups, N, 16)."""
    of_a, of_b = (adding.exponents(x.astype(f8), element) for x in (a, b))
    return adding.summed(Rows(a, of_a, b, of_b), sums, element, "f32")
