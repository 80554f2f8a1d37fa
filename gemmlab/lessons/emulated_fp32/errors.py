"""How wrong products of float32 are: from parts of 16 bits, in TF32, and by FP32's own FMAs.

    python -m gemmlab record emulated_errors

multiplies by `model`, whose bits are the kernel's, and compares with float64;
results/nvidia-h200/emulated_errors.csv. It takes minutes and no GPU.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.kernel.operands import random_values
from gemmlab.ladder import Target
from gemmlab.lessons.emulated_fp32 import model
from gemmlab.records.registry import NUMBER, SIZE, TEXT, WHOLE, Row, Say, Table, provenance
from ptxsim.arithmetic.multiply_add import fma
from ptxsim.tensor_cores import adding
from ptxsim.tensor_cores.wgmma import LINE_BYTES, Rows

SIDE = 64  # rows of A, and columns of B
DEPTHS = (64, 256, 1024, 4096, 16384, 65536)  # K
DEPTH = 4096
SEED = 230
SPREAD = 6  # of badly scaled rows and columns, powers of ten up and down
SGEMM, TF32 = "SGEMM", "TF32"
WAYS = tuple(way.name for way in model.WAYS)
OTHERS = (SGEMM, TF32)
WORST = 1 + 2.0**-8 - 2.0**-11 - 63 * 2.0**-23  # its second and third parts are nearly the largest
INTERVALS = (64, 128, 256, 1024, 0)  # of K, after which a sum is promoted; 0 for never
PROMOTE = dict(zip(WAYS, (128, 64, 128, 128), strict=True))  # as the lesson compares them
f4, f8 = np.float32, np.float64


# ---- data ----------------------------------------------------------------------------------------


def _normal(rows: int, cols: int, seed: int) -> np.ndarray:
    """By Box and Muller, float64."""
    across, around = (random_values(rows * cols, seed + i).reshape(rows, cols) for i in (0, 1))
    return np.sqrt(-2 * np.log((1 - across.astype(f8)) / 2)) * np.cos(np.pi * around.astype(f8))


def _uniform(rows: int, cols: int, seed: int) -> np.ndarray:
    return (1 + random_values(rows * cols, seed).reshape(rows, cols).astype(f8)) / 2


def _wide(rows: int, cols: int, seed: int) -> np.ndarray:
    return _normal(rows, cols, seed) * np.exp(4 * _normal(rows, cols, seed + 2))


def _scaled(rows: int, cols: int, seed: int) -> np.ndarray:
    return _normal(rows, cols, seed) * 10.0 ** (SPREAD * random_values(rows, seed + 2)[:, None])


def _worst(rows: int, cols: int, seed: int) -> np.ndarray:
    return np.full((rows, cols), WORST)


DATA = {
    "normal": _normal, "uniform": _uniform, "wide": _wide, "scaled": _scaled,
    "cancelling": _normal, "worst": _worst,
}  # fmt: skip


def matrices(data: str, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A (SIDE, k) and B (k, SIDE), float32.

    normal; uniform from 0 to 1; wide: normal·exp(4·normal); scaled: rows of A and columns of B up
    to 10**SPREAD times as large or small; cancelling: the second half of each sum takes the first
    half away; worst: WORST alone.
    """
    A, B = (DATA[data](SIDE, k, SEED + 10 * i).astype(f4) for i in (0, 1))
    if data == "cancelling":
        half = k // 2
        A[:, half : 2 * half], B[:, half : 2 * half] = A[:, :half], -B[:, :half]
    return A, np.ascontiguousarray(B.T)


# ---- products ------------------------------------------------------------------------------------


def by_fma(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A @ B in float32, for each element one FMA after the other along K, as kernels 01 to 11."""
    C = np.zeros((A.shape[0], B.shape[1]), f4)
    for column, row in zip(A.T.astype(f8), B.astype(f8), strict=True):
        C = fma(column[:, None], row[None], C)
    return C


def by_tf32(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A @ B in float32 by wgmma in TF32, which cuts each factor off to 10 bits of its fraction."""
    C, depth = np.zeros((1, A.shape[0], B.shape[1])), LINE_BYTES // A.itemsize
    left, right = (adding.decoded(X[None].view(np.uint32), "tf32") for X in (A, B.T.copy()))
    for start in range(0, A.shape[1], depth):
        part = np.s_[:, :, start : start + depth]
        factors = Rows(*(each[part] for each in (*left, *right)))
        C = adding.summed(factors, C, "tf32", "f32")
    return C[0].astype(f4)


@dataclass(frozen=True)
class Case:
    """`way`: one of WAYS or OTHERS. `promote`: one of INTERVALS, 0 of OTHERS."""

    way: str
    promote: int
    data: str
    k: int

    def multiply(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """A @ B, float32."""
        if self.way == SGEMM:
            return by_fma(A, B)
        if self.way == TF32:
            return by_tf32(A, B)
        return model.product(A, B, WAYS.index(self.way), self.promote)


def errors(case: Case) -> tuple[float, float]:
    """The largest error of an element of C, and their root mean square, as shares of |A| |B|."""
    A, B = matrices(case.data, case.k)
    wide_a, wide_b = A.astype(f8), B.astype(f8)
    share = abs(case.multiply(A, B) - wide_a @ wide_b) / (abs(wide_a) @ abs(wide_b))
    return float(share.max()), float(np.sqrt(np.mean(share**2)))


# ---- the record ----------------------------------------------------------------------------------


def cases() -> list[Case]:
    """All ways and data at DEPTH, by promotion; and at other K as kernels promote, and never."""
    by_promotion = [(way, promote) for way in WAYS for promote in INTERVALS]
    chosen = [(way, promote) for way in WAYS for promote in (PROMOTE[way], 0)]
    others = [(way, 0) for way in OTHERS]
    at_depth = [Case(*how, data, DEPTH) for data in DATA for how in (*by_promotion, *others)]
    over_k = [
        Case(*how, data, k)
        for data in DATA for how in (*chosen, *others) for k in DEPTHS if k != DEPTH
    ]  # fmt: skip
    return at_depth + over_k


def _measure(say: Say) -> Iterator[Row]:
    for case in cases():
        largest, rms = errors(case)
        say(f"emulated_errors: {case}: {largest:.2e}, {rms:.2e}")
        yield asdict(case) | {"largest": largest, "rms": rms}


@cache
def _bits(way: str, promote: int) -> str:
    """The hash of a small product: whoever multiplies with the same bits has the same errors."""
    A, B = matrices("normal", 4 * max(promote, model.STAGE_K))
    product = Case(way, promote, "normal", A.shape[1]).multiply(A[:8].copy(), B[:, :8].copy())
    return "sha256:" + hashlib.sha256(product.tobytes()).hexdigest()


def _fingerprint_of(row: Any, _on: Target) -> Fingerprint:
    return Fingerprint({}, {}, _bits(row.way, int(row.promote)))


ERRORS = Table(
    name="emulated_errors", file="emulated_errors.csv", key=("way", "promote", "data", "k"),
    columns={
        **TEXT("way"), **WHOLE("promote"), **TEXT("data"), **SIZE("k"), **NUMBER("largest", "rms"),
        **provenance("numpy"),
    },
    measure=_measure, fingerprint_of=_fingerprint_of, simulated=True,
)  # fmt: skip
EVIDENCE = (ERRORS,)
