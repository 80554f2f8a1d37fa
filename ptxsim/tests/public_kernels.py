"""Small kernels of the kinds that public collections have, written for these tests.

Of Rodinia's kinds: alignment, stencils, dynamic programming, LU, graphs. Of CUDA's samples: scans,
histograms, sorts, transposes, reductions, shuffles. Of collections for language models: elementwise
functions, softmax, norms, rotations and products in float16 and bfloat16. Their text is in
kernels/public.cu and kernels/sixteen_bits.cu. PUBLIC has one launch of each, a Sample with what
NumPy says of it: see test_agrees.py.
"""

from __future__ import annotations

import numpy as np

from sample_kernels import Sample
from whole_kernels import KERNELS

f4, f8, i4, u2, u4 = np.float32, np.float64, np.int32, np.uint16, np.uint32
PUBLIC_TEXT, SIXTEEN_TEXT = (
    (KERNELS / name).read_text(encoding="utf-8") for name in ("public.cu", "sixteen_bits.cu")
)


def integers(seed: int, *shape: int, least: int = -9, most: int = 9, dtype=f4) -> np.ndarray:
    """Small integers: float32 adds them exactly, in any order."""
    return np.random.default_rng(seed).integers(least, most + 1, shape).astype(dtype)


def near(value, relative: float, absolute: float = 0.0):
    """A float64 value with an error bound."""
    value = np.asarray(value, f8)
    return value, absolute + relative * np.abs(value)


# --- of Rodinia's kinds ---------------------------------------------------------------------------


def aligned(args):
    score, best, _, penalty = args
    best = best.copy()
    for i, j in np.ndindex(16, 16):
        gap = max(best[i + 1, j], best[i, j + 1]) - penalty
        best[i + 1, j + 1] = max(best[i, j] + score[i + 1, j + 1], gap)
    return {1: best}


def edges():
    best = np.zeros((17, 17), i4)
    best[0] = best[:, 0] = -10 * np.arange(17)
    return best


def heated(args):
    power, now, _, _, _, steps, rate = args
    now = now.astype(f8)
    for _ in range(steps):
        around = np.pad(now, 1, mode="edge")
        sums = around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:] - 4 * now
        now = now + rate * (power + sums + (1.5 - now) / 7)
    return {2: near(now, 1e-6, 1e-6)}


def shortest(args):
    wall, best, *_ = args
    for row in wall:
        around = np.pad(best, 1, mode="edge")
        best = np.minimum(np.minimum(around[:-2], around[2:]), best) + row
    return {2: best}


def factored(args):
    matrices = args[0].astype(f8)
    for m in matrices:
        for i in range(15):
            m[i + 1 :, i] /= m[i, i]
            m[i + 1 :, i + 1 :] -= np.outer(m[i + 1 :, i], m[i, i + 1 :])
    return {0: near(matrices, 2e-6, 2e-6)}


def summed(args):
    x = np.pad(args[0], (0, 3 * 64 - 150)).reshape(3, 64)
    return {1: x.sum(axis=1), 2: (x * x).sum(axis=1)}


def graph():
    random = np.random.default_rng(3)
    first = np.concatenate([[0], np.cumsum(random.integers(0, 6, 100))]).astype(i4)
    edges = random.integers(0, 100, first[-1]).astype(i4)
    level = np.where(np.arange(100) % 9 == 0, 0, -1).astype(i4)
    return [first, edges, (level == 0).astype(np.int8), np.zeros(100, np.int8), level, 100, 1]


def reached(args):
    first, edges, frontier, _, level, _, now = args
    new = np.unique(np.concatenate([edges[first[i] : first[i + 1]]
                                    for i in np.flatnonzero(frontier)]))  # fmt: skip
    new = new[level[new] < 0]
    level, newly_reached = level.copy(), np.zeros(100, np.int8)
    level[new], newly_reached[new] = now, 1
    return {3: newly_reached, 4: level}


# --- of the kinds of CUDA's samples ---------------------------------------------------------------


def scanned(x):
    return np.cumsum(x, axis=-1, dtype=x.dtype)


def voted(args):
    x = args[0].reshape(-1, 32)
    packed = np.zeros_like(x)
    for row, v in zip(packed, x, strict=True):
        row[: (v > 0).sum()] = v[v > 0]
    alike = (x[:, :, None] == x[:, None]).sum(axis=2)
    votes = x.max(axis=1, keepdims=True) + 100 * alike
    of_warp = 10000 * (x > -9).all(axis=1) + 20000 * (x == 9).any(axis=1)
    votes = votes + (of_warp + 40000 * (x.min(axis=1) + 9))[:, None]
    return {1: scanned(x).reshape(-1), 2: packed.reshape(-1), 3: votes.astype(i4).reshape(-1)}


def sorted_(args):
    order = np.argsort(args[0], axis=1)
    return {i: np.take_along_axis(args[i], order, axis=1) for i in (0, 1)}


def convolved(args):
    rows = [np.convolve(row, [1, -2, 3, 4, 5, 4, 3, -2, 1], "same") for row in args[0]]
    return {1: np.array(rows, f4)}


def walsh(args):
    matrix = np.ones((1, 1))
    for _ in range(8):
        matrix = np.kron(matrix, [[1, 1], [1, -1]])
    return {0: (args[0] @ matrix).astype(f4)}


def extremes(args):
    x = args[0]
    return {1: x.max(keepdims=True), 2: np.array([x.max(), x.min(), (x > 0).sum()], i4)}


# --- of the kinds of collections for language models ----------------------------------------------

SIXTEEN_BITS = {"half": (2.0**-11, ()), "bfloat16": (2.0**-8, ("-DBF16",))}  # half a last digit


def to_bits(x, name: str) -> np.ndarray:
    """Numbers in the 16-bit type: float16, or bfloat16 as uint16, rounded to nearest."""
    if name == "half":
        return x.astype(np.float16)
    bits = x.astype(f4).view(u4)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(u2)


def to_numbers(x) -> np.ndarray:
    """float64 of an array: of uint16 as bfloat16."""
    return ((x.astype(u4) << 16).view(f4) if x.dtype == u2 else x).astype(f8)


def of_sixteen_bits(name: str) -> dict[str, Sample]:
    digit, options = SIXTEEN_BITS[name]

    def given(seed, *shape):
        return to_bits(np.random.default_rng(seed).uniform(-2, 2, shape), name)

    def sample(entry, grid, block, args, expected, digits, absolute=0.0):
        """`expected`: float64 of the last array; `digits`: of T, that it may be off."""

        def expected_by_index(args):
            arrays = [i for i, arg in enumerate(args) if isinstance(arg, np.ndarray)]
            exact = expected(*(to_numbers(args[i]) for i in arrays[:-1]))
            return {arrays[-1]: near(exact, 2 * digits * digit, absolute)}

        return Sample(
            SIXTEEN_TEXT, grid, block, args, expected_by_index, entry=entry, options=options
        )

    def softmax(x):
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def layer_norm(x):
        centred = x - x.mean(axis=1, keepdims=True)
        return 1.5 * centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-3) - 0.5

    def rope(x):
        angles = np.arange(8)[:, None] * 10000.0 ** (-np.arange(16) / 16)
        return ((x[..., 0] + 1j * x[..., 1]) * np.exp(1j * angles)).view(f8).reshape(x.shape)

    def empty(*shape, dtype=None):
        return np.zeros(shape, dtype or given(0, 1).dtype)

    scalar = [to_bits(np.array([v]), name)[0] for v in (1.5, -0.5)]
    return {
        "shared by all": sample(
            "scaled", (2, 1, 1), (64, 1, 1), lambda: [given(1, 100), empty(100), 100],
            lambda x: x * x[0] ** 2 + 2 * x[0], 1, digit),
        "gelu": sample(
            "gelu", (2, 1, 1), (64, 1, 1), lambda: [given(2, 100), empty(100), 100],
            lambda x: x / (1 + np.exp(-(1.59576912 * x + 0.07135481 * x**3))), 4, digit),
        "pairs": sample(
            "pairs", (2, 1, 1), (32, 1, 1), lambda: [given(3, 90), given(4, 90), empty(90), 45],
            lambda x, z: np.maximum(x * z + 0.5, 0), 1, digit),
        "packs": sample(
            "packs", (1, 1, 1), (32, 1, 1), lambda: [given(5, 200), given(6, 200), empty(200), 200],
            np.add, 1),
        "softmax": sample(
            "softmax", (2, 1, 1), (32, 3, 1), lambda: [given(7, 6, 70), empty(6, 70), 70],
            softmax, 1, 1e-5),
        "online softmax": sample(
            "online", (3, 1, 1), (64, 1, 1), lambda: [given(8, 3, 150),
                                                      empty(3, 150, dtype=f4), 150],
            softmax, 0, 1e-7),
        "layer norm": sample(
            "layer_norm", (4, 1, 1), (64, 1, 1), lambda: [given(9, 4, 64), empty(4, 64), *scalar],
            layer_norm, 4, 8 * digit),
        "rms norm": sample(
            "rms_norm", (3, 1, 1), (32, 1, 1), lambda: [given(10, 3, 100), empty(3, 100), 50],
            lambda x: x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5), 1, 1e-5),
        "rope": sample(
            "rope", (8, 1, 1), (16, 1, 1), lambda: [given(11, 8, 16, 2), empty(8, 16, 2), 16],
            rope, 1, 1e-5),
        "dot product": sample(
            "dot", (2, 1, 1), (64, 1, 1), lambda: [given(12, 220), given(13, 220),
                                                   empty(1, dtype=f4), 110],
            lambda x, z: [(x * z).sum()], 0, 16 * digit),
        "matrix by vector": sample(
            "gemv", (3, 1, 1), (32, 2, 1), lambda: [given(14, 6, 160), given(15, 160),
                                                    empty(6), 80],
            lambda A, x: A @ x, 1, 1e-5),
        "product": sample(
            "gemm", (2, 2, 1), (8, 16, 1), lambda: [given(16, 32, 48), given(17, 48, 32),
                                                    empty(32, 32), 32, 48],
            np.matmul, 1, 200 * digit),
        "product on tensor cores": sample(
            "mma", (3, 2, 1), (32, 1, 1), lambda: [given(18, 32, 48), given(19, 48, 24),
                                                   empty(32, 24, dtype=f4), 24, 48],
            np.matmul, 0, 1e-5),
    }  # fmt: skip


def of_public(entry: str, grid, block, args, expected) -> Sample:
    return Sample(PUBLIC_TEXT, grid, block, args, expected, entry=entry)


def _zeros(*shape, dtype=f4):
    return np.zeros(shape, dtype)


PUBLIC = {
    "needle": of_public("needle", (1, 1, 1), (16, 1, 1),
                     lambda: [integers(1, 17, 17, dtype=i4), edges(), 17, 10], aligned),
    "hotspot": of_public(
        "hotspot", (3, 2, 1), (16, 16, 1),
        lambda: [integers(2, 21, 30) / f4(9), integers(3, 21, 30) / f4(5), _zeros(21, 30),
                 21, 30, 2, 0.125], heated),
    "pathfinder": of_public(
        "pathfinder", (3, 1, 1), (64, 1, 1),
        lambda: [integers(4, 5, 150, dtype=i4), integers(5, 150, dtype=i4), _zeros(150, dtype=i4),
                 150, 5], shortest),
    "lud": of_public("lud", (2, 1, 1), (16, 1, 1),
                  lambda: [integers(6, 2, 16, 16) + 40 * np.eye(16, dtype=f4)], factored),
    "sums of squares": of_public("sums", (3, 1, 1), (64, 1, 1),
                              lambda: [integers(7, 150), _zeros(3), _zeros(3), 150], summed),
    "bfs": of_public("bfs", (2, 1, 1), (64, 1, 1), graph, reached),
    "scan": of_public(
        "scan", (3, 1, 1), (64, 1, 1),
        lambda: [integers(8, 3, 256, least=0, dtype=u4), _zeros(3, 256, dtype=u4)],
        lambda args: {1: scanned(args[0])}),
    "scan by a tree": of_public(
        "tree", (3, 1, 1), (64, 1, 1),
        lambda: [integers(9, 3, 128, dtype=i4), _zeros(3, 128, dtype=i4), _zeros(3, dtype=i4)],
        lambda args: {1: scanned(args[0]) - args[0], 2: args[0].sum(axis=1, dtype=i4)}),
    "histogram": of_public(
        "histogram", (2, 1, 1), (96, 1, 1),
        lambda: [integers(10, 500, least=0, most=2**32 - 1, dtype=u4), _zeros(256, dtype=u4), 500],
        lambda args: {1: np.bincount(args[0].view(np.uint8), minlength=256).astype(u4)}),
    "transpose": of_public("diagonal", (2, 2, 1), (16, 4, 1),
                        lambda: [integers(11, 32, 32), _zeros(32, 32), 32, 32],
                        lambda args: {1: args[0].T.copy()}),
    "last block": of_public(
        "last_block", (5, 1, 1), (96, 1, 1),
        lambda: [integers(12, 1000, dtype=i4), _zeros(5, dtype=i4), _zeros(1, dtype=u4),
                 _zeros(1, dtype=i4), 1000],
        lambda args: {2: args[2], 3: args[0].sum(keepdims=True, dtype=i4)}),
    "shuffles": of_public(
        "shuffles", (2, 1, 1), (64, 1, 1),
        lambda: [integers(13, 128, dtype=i4), *(_zeros(128, dtype=i4) for _ in range(3))], voted),
    "sort": of_public(
        "bitonic", (2, 1, 1), (64, 1, 1),
        lambda: [np.random.default_rng(14).permutation(256).astype(u4).reshape(2, 128),
                 np.arange(256, dtype=u4).reshape(2, 128)], sorted_),
    "convolution": of_public("convolution", (2, 2, 1), (32, 4, 1),
                          lambda: [integers(15, 8, 50), _zeros(8, 50), 50], convolved),
    "Walsh transform": of_public("walsh", (2, 1, 1), (64, 1, 1),
                                 lambda: [integers(16, 2, 256)], walsh),
    "atomics": of_public(
        "atomics", (2, 1, 1), (64, 1, 1),
        lambda: [integers(17, 100, most=90), np.full(1, -100, f4), np.array([-99, 99, 0], i4), 100],
        extremes),
    "eight bits": of_public(
        "dp4a", (3, 1, 1), (32, 1, 1),
        lambda: [integers(18, 3, 50, least=-2**31, most=2**31 - 1, dtype=i4),
                 integers(19, 50, least=-2**31, most=2**31 - 1, dtype=i4), _zeros(3, dtype=i4), 50],
        lambda args: {2: args[0].view(np.int8).astype(i4) @ args[1].view(np.int8).astype(i4)}),
    **{f"{what}, {name}": sample for name in SIXTEEN_BITS
       for what, sample in of_sixteen_bits(name).items()},
}  # fmt: skip
