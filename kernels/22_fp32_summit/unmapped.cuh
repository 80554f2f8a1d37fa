// B's part of a stage where B has no tensor map: K is 0, or its rows are off multiples of 16 bytes:
// the producers copy it, one element a copy (four if N allows it: to compare with TMA). A first
// reading can leave this out.
#pragma once

#include "copy_a.cuh"

// Start this thread's copies of B's part of a stage, WIDTH elements each, to this shared address.
template <bool IN_BOUNDS, int WIDTH>
__device__ __forceinline__ void copy_b(unsigned address, const Matrices& in, int tile_n, int k)
{
    constexpr int TOGETHER = PRODUCER_THREADS * WIDTH;     // elements: rows, or a part of one
    constexpr int ROWS = TOGETHER > BN ? TOGETHER / BN : 1;
    static_assert((TOGETHER % BN == 0 || BN % TOGETHER == 0) && BK % ROWS == 0,
                  "producers copy equal shares");
    const int first = (threadIdx.x - CONSUMER_THREADS) * WIDTH;
    const int row = k + first / BN, col = tile_n + first % BN;
    const float* source = in.B + (size_t)row * in.N + col;
    unsigned to = address + 4 * first;
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
__device__ __forceinline__ void copy_b(unsigned address, const Matrices& in, int tile_n, int k)
{
    const bool in_bounds = tile_n + BN <= in.N && k + BK <= in.K;
    if (in.N % 4) {
        if (in_bounds) copy_b<true, 1>(address, in, tile_n, k);
        else copy_b<false, 1>(address, in, tile_n, k);
    } else {
        if (in_bounds) copy_b<true, 4>(address, in, tile_n, k);
        else copy_b<false, 4>(address, in, tile_n, k);
    }
}
