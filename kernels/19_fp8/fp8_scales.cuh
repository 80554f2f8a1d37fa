// Scales of A and B, in float32: an element stands for its 8-bit number times its scale. Per-tensor
// scales, one for A and one for B, apply in the epilogue. Per row and per block: finer_scales.cuh.
#pragma once

#ifndef SCALES
#define SCALES 0                                 // 0: per tensor, 1: per row, 2: per block
#endif

struct Scales {
    const float *a, *b;
    int M, N, k_tiles;                           // to find a scale where there are many
};

// The scales that apply when the sums of an interval along K are promoted: those of A for the two
// rows that a thread has of C, that of B for its columns.
struct IntervalScales {
    float first_row, second_row, columns;
};

#if SCALES == 0

// Per-tensor scales do not change along K: until the epilogue all are 1.
__device__ __forceinline__ IntervalScales load_interval_scales(const Scales& scales, int row,
                                                               int col, int interval)
{
    return {1.0f, 1.0f, 1.0f};
}

// The scale of an element of C in the epilogue.
__device__ __forceinline__ float epilogue_scale(const Scales& scales, int row, int col)
{
    return scales.a[0] * scales.b[0];
}

#else
#include "finer_scales.cuh"
#endif
