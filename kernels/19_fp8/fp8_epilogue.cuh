// The last step in registers: alpha, beta and the scales that do not change along K.
#pragma once

#define OUT_BFLOAT16 1                           // unless C is float32

#include "fp8_scales.cuh"
#include "output_type.cuh"
#include "wgmma.cuh"

// totals = alpha * scale * totals + beta * C, for the 64 rows of a warpgroup from (m, n) of C on.
// Where beta is 0, C is not read: it may hold anything, NaN included.
template <int COUNT>
__device__ __forceinline__ void apply_scales(float (&totals)[COUNT], const ElementC* C,
                                             const Scales& scales, int m, int n, float alpha,
                                             float beta)
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int row = m + accumulator_row(i), col = n + accumulator_column(i);
        totals[i] *= alpha * epilogue_scale(scales, row, col);
        if (beta != 0.0f && row < scales.M && col < scales.N)
            totals[i] += beta * to_float(C[(size_t)row * scales.N + col]);
    }
}
