"""Kernels in Triton: a product of float16 by pointers and by descriptors, and a softmax."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + column, mask=column < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + column, powers / tl.sum(powers, axis=0), mask=column < columns)


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for k_tile in range(0, K, BK):
        k = k_tile + tl.arange(0, BK)
        in_a = (m[:, None] < M) & (k[None, :] < K)
        in_b = (k[:, None] < K) & (n[None, :] < N)
        tile_a = tl.load(a + m[:, None] * K + k[None, :], mask=in_a, other=0.0)
        tile_b = tl.load(b + k[:, None] * N + n[None, :], mask=in_b, other=0.0)
        sums = tl.dot(tile_a, tile_b, sums)
    in_c = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * N + n[None, :], sums.to(tl.float16), mask=in_c)


@triton.jit
def product_by_descriptors(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(a.load([m, k]), b.load([n, k]).T, sums)
    c.store([m, n], sums.to(tl.float16))


@triton.jit
def scaled_product(
    a, b, a_scales, b_scales, c, K, KIND: tl.constexpr, PACKED: tl.constexpr, VECTOR: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A block of products of rows of `a` and `b`, of `PACKED` elements a byte and scales."""
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        k = first // PACKED + tl.arange(0, BK // PACKED)
        s = first // VECTOR + tl.arange(0, BK // VECTOR)
        left = tl.load(a + m[:, None] * (K // PACKED) + k[None, :])
        right = tl.load(b + n[None, :] * (K // PACKED) + k[:, None])
        of_left = tl.load(a_scales + m[:, None] * (K // VECTOR) + s[None, :])
        of_right = tl.load(b_scales + n[:, None] * (K // VECTOR) + s[None, :])
        sums = tl.dot_scaled(left, of_left, KIND, right, of_right, KIND, sums)
    tl.store(c + m[:, None] * BN + n[None, :], sums)
