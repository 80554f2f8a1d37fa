// B's part of a stage where B has no tensor map, as its rows do not begin at multiples of 16 bytes:
// the producers copy it, one element a copy (four if N allows it: to compare with TMA).
#pragma once

#include "copy_a.cuh"

// Start this thread's copies of B's part of a stage, WIDTH elements each, to this shared address.
template <bool IN_BOUNDS, int WIDTH>
__device__ __forceinline__ void copy_b(unsigned stage, const Matrices& in, int tile_n, int k)
{
    constexpr int TOGETHER = PRODUCERS * WIDTH;  // elements: rows of the stage, or a part of one
    constexpr int ROWS = TOGETHER > BN ? TOGETHER / BN : 1;
    const int first = (threadIdx.x - THREADS) * WIDTH;
    const int row = k + first / BN, col = tile_n + first % BN;
    const float* source = in.B + (size_t)row * in.N + col;
    unsigned to = stage + 4 * first;
    #pragma unroll 8
    for (int r = 0; r < BK; r += ROWS) {
        #pragma unroll
        for (int c = 0; c < BN; c += TOGETHER)
            cp_async<4 * WIDTH>(to + 4 * c, source + c,
                                IN_BOUNDS || (row + r < in.K && col + c < in.N) ? 4 * WIDTH : 0);
        source += (size_t)ROWS * in.N;
        to += 4 * ROWS * BN;
    }
}

// Choose the copies that the shape needs.
__device__ __forceinline__ void copy_b(unsigned stage, const Matrices& in, int tile_n, int k)
{
    const bool in_bounds = tile_n + BN <= in.N && k + BK <= in.K;
    if (in.N % 4) {
        if (in_bounds) copy_b<true, 1>(stage, in, tile_n, k);
        else copy_b<false, 1>(stage, in, tile_n, k);
    } else {
        if (in_bounds) copy_b<true, 4>(stage, in, tile_n, k);
        else copy_b<false, 4>(stage, in, tile_n, k);
    }
}
