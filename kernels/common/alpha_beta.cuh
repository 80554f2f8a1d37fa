// accumulators = alpha * accumulators + beta * C, for the 64 rows of a warpgroup from (m, n) of C
// on. Where beta is 0, C is not read: it may hold anything, NaN included. Kernels call it unless
// alpha is 1 and beta 0; a first reading can leave it out.
#pragma once

#include "wgmma_16bit.cuh"
#include "output_type.cuh"

template <int COUNT>
__device__ __forceinline__ void apply_alpha_beta(float (&accumulators)[COUNT], const ElementC* C,
                                                 int m, int n, int M, int N, float alpha,
                                                 float beta)
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        accumulators[i] *= alpha;
        const int row = m + accumulator_row(i), col = n + accumulator_column(i);
        if (beta != 0.0f && row < M && col < N)
            accumulators[i] += beta * to_float(C[(size_t)row * N + col]);
    }
}
