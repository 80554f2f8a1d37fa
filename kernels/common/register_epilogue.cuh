// The epilogue from registers: each thread stores its own accumulators.
#pragma once

#include "output_type.cuh"
#include "wgmma_16bit.cuh"

// Store the 64 rows of a warpgroup from (m, n) of C on, two neighbours at a time. Tensor maps exist
// only where N is a multiple of 8 (of 4, if C is float32), so both are in C or neither is. Four
// lanes store 16 bytes of a row, half a sector; 17 stores 128 bytes of a row by TMA.
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
