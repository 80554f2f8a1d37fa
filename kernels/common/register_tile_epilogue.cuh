// From a thread's accumulators to its elements of C.
#pragma once

#include "float4.cuh"
#include "register_tile_sizes.cuh"

// C = alpha * accumulators + beta * C, from the thread's first row and column of C on.
__device__ __forceinline__ void store_accumulators(float* C, int row, int col, int M, int N,
                                                   const float (&accumulators)[TM][TN],
                                                   float alpha, float beta, bool in_bounds)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q)
            store_float4(C, row + i / 4 * LANES_M * 4 + i % 4, col + q * LANES_N * 4, M, N,
                         &accumulators[i][4 * q], alpha, beta, in_bounds);
}
