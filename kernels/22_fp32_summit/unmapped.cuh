// Producers where B has no tensor map, as its rows do not begin at multiples of 16 bytes: they copy
// B as they copy A, one element a copy, or four to compare.
#pragma once

#include "copy_a.cuh"
#include "stream_k.cuh"

// Start this thread's copies of B's part of a stage, WIDTH elements each.
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

// The same, whatever the shape.
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

__device__ __forceinline__ void producer_unmapped(Shared& shared, const Barriers& barriers,
                                                  PipelineState& at, Work& work,
                                                  const Matrices& in)
{
    #pragma unroll 1
    while (work.next()) {
        const Origin tile = work.origin();
        #pragma unroll 1
        for (int k_tile = work.begin; k_tile < work.end; ++k_tile, at.advance()) {
            const unsigned full = barriers.full + MBARRIER_BYTES * at.stage;
            const unsigned b = shared_address(shared.b[at.stage]);
            mbarrier_wait(barriers.empty + MBARRIER_BYTES * at.stage, at.parity ^ 1);
            copy_a(shared_address(shared.a[at.stage]), in, tile.m, k_tile * BK);
            copy_b(b, in, tile.n, k_tile * BK);
            cp_async_arrive(full);
        }
    }
}
