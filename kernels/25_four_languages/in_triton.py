"""In Triton: a program computes a tile of C. Threads, registers and shared memory are Triton's."""

import triton
import triton.language as tl


@triton.jit
def float32_in_triton(A, B, C, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    accumulators = tl.zeros((BM, BN), tl.float32)
    for k_tile in range(0, K, BK):
        a = tl.load(A + m[:, None] * K + (k_tile + k)[None, :])
        b = tl.load(B + (k_tile + k)[:, None] * N + n[None, :])
        accumulators = tl.dot(a, b, accumulators, input_precision="ieee")
    tl.store(C + m[:, None] * N + n[None, :], accumulators)


@triton.jit
def float16_in_triton(
    A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BLOCKS: tl.constexpr
):  # fmt: skip
    tile_rows = M // BM
    for number in tl.range(tl.program_id(0), tile_rows * (N // BN), BLOCKS, flatten=True):
        m, n = number % tile_rows * BM, number // tile_rows * BN
        accumulators = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            accumulators = tl.dot(A.load([m, k]), B.load([k, n]), accumulators)
        C.store([m, n], accumulators.to(tl.float16))
