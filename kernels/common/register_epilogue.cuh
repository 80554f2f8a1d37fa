// The epilogue from registers: each thread stores its own accumulators.
#pragma once

#include "alpha_beta.cuh"

// The 64 rows of a warpgroup from (m, n) of C on, two neighbours at a time: N is even.
template <int COUNT>
__device__ __forceinline__ void store_pairs(const float (&accumulators)[COUNT], ElementC* C, int m,
                                            int n, int M, int N)
{
    #pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        const int row = m + accumulator_row(i), col = n + accumulator_column(i);
        if (row < M && col < N)
            *(PairC*)(C + (size_t)row * N + col) = round_pair(accumulators[i], accumulators[i + 1]);
    }
}
