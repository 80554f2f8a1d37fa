// A's part of a stage, which the producers copy and transpose, as all threads of 10 do.
#pragma once

#include "cp_async.cuh"
#include "stages.cuh"

// Start this thread's copies of A's part of a stage, to this shared address: BM rows from tile_m
// on, BK elements of each from k on. A copy is of one element: a warp copies 8 neighbours along K
// of 4 rows, which are whole sectors in global memory and different banks in shared memory. Zeros
// are written for what is outside of A.
__device__ __forceinline__ void copy_a(unsigned address, const Matrices& in, int tile_m, int k)
{
    static_assert(BM % (PRODUCER_THREADS / 8) == 0 && BK % 8 == 0, "producers copy equal shares");
    const int t = threadIdx.x - CONSUMER_THREADS, row = tile_m + t / 8, col = k + t % 8;
    const float* source = in.A + (size_t)row * in.K + col;
    const unsigned to = address + 4 * (t % 8 * (BM + PAD) + t / 8);
    if (tile_m + BM <= in.M && k + BK <= in.K) {
        #pragma unroll
        for (int r = 0; r < BM; r += PRODUCER_THREADS / 8)
            #pragma unroll
            for (int d = 0; d < BK; d += 8)
                cp_async<4>(to + 4 * (d * (BM + PAD) + r), source + (size_t)r * in.K + d);
    } else {
        #pragma unroll 1
        for (int r = 0; r < BM; r += PRODUCER_THREADS / 8)
            #pragma unroll 1
            for (int d = 0; d < BK; d += 8)
                cp_async<4>(to + 4 * (d * (BM + PAD) + r), source + (size_t)r * in.K + d,
                            row + r < in.M && col + d < in.K ? 4 : 0);
    }
}
