// The epilogue: from a thread's sums to its elements of C.
#pragma once

#include "parts_stage.cuh"

// The product, without what A's row and B's column were scaled by. In two steps, of which the first
// is exact unless all is 0 or infinite: 2 to the power of `exponent` need be no float.
__device__ __forceinline__ float unscale(float number, int exponent)
{
    const int half = exponent >> 1;
    return number * __int_as_float(half + 127 << 23) * __int_as_float(exponent - half + 127 << 23);
}

// number + PART_STEP * correction. C++ would take a subnormal correction for 0 here, but it may be
// 2^-8 of the number.
__device__ __forceinline__ float corrected(float number, float correction)
{
    float sum;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(sum) : "f"(correction), "f"(PART_STEP), "f"(number));
    return sum;
}

// Store the 64 rows of a warpgroup from (m, n) of C on: alpha * (totals + corrections) + beta * C.
// `lost` is set where the product is not finite, for its parts may be so where it is not.
__device__ __forceinline__ void store_tile(const Accumulators& totals,
                                           const Accumulators& corrections,
                                           const int* exponents_a, const int* exponents_b,
                                           float* C, int* lost, int m, int n, int M, int N, int ldc,
                                           float alpha, float beta)
{
    const bool in_pairs = ldc % 2 == 0 && (size_t)C % sizeof(float2) == 0;
    bool overflows = false;
    #pragma unroll
    for (int i = 0; i < TILE_LINES / 2; i += 2) {
        const int row = m + accumulator_row(i), col = n + accumulator_column(i);
        if (row >= M || col >= N) continue;
        float* const to = C + (size_t)row * ldc + col;
        float results[2];
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            // Corrections of what is not finite mean nothing.
            float product = totals[i + j];
            if (is_finite(product)) product = corrected(product, corrections[i + j]);
            // Beyond N there are zeros, and exponents.
            if constexpr (SCALED)
                product = unscale(product, exponents_a[row] + exponents_b[col + j]);
            overflows |= !is_finite(product);
            results[j] = alpha * product;
            if (beta != 0.0f && col + j < N) results[j] = fmaf(beta, to[j], results[j]);
        }
        if (in_pairs && col + 1 < N) {
            *(float2*)to = make_float2(results[0], results[1]);
        } else {
            to[0] = results[0];
            if (col + 1 < N) to[1] = results[1];
        }
    }
    if (overflows && lost) *lost = 1;
}
