// Scales of A and B, in float32: an element stands for its 8-bit number times its scale. Per tensor,
// there is one for A and one for B, and they apply in the epilogue. Others: finer_scales.cuh.
#pragma once

#ifndef SCALES
#define SCALES 0                                 // 0: per tensor, 1: per row and column, 2: per block
#endif

struct Scales {
    const float *a, *b;
    int M, N, k_tiles;
};

// Scales that apply when the sums of an interval along K are promoted. Of A, for the two rows that a
// thread has of C; of B, for its columns.
struct IntervalScales {
    float first_row, second_row, columns;
};

#if SCALES == 0

// The same along K, so there is nothing to apply here.
__device__ __forceinline__ IntervalScales load_interval_scales(const Scales& scales, int row, int col,
                                                               int interval)
{
    return {1.0f, 1.0f, 1.0f};
}

// What applies in the epilogue to an element of C.
__device__ __forceinline__ float epilogue_scale(const Scales& scales, int row, int col)
{
    return scales.a[0] * scales.b[0];
}

#else
#include "finer_scales.cuh"
#endif
