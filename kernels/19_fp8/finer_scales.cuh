// Scales that are finer than per tensor, under the names of fp8_scales.cuh.
#pragma once

#include "fp8_scales.cuh"

#if SCALES == 1

// One for each row of A, and for each row of B, a column of C: the same along K.
__device__ __forceinline__ IntervalScales load_interval_scales(const Scales& scales, int row,
                                                               int col, int interval)
{
    return {1.0f, 1.0f, 1.0f};
}

__device__ __forceinline__ float epilogue_scale(const Scales& scales, int row, int col)
{
    return scales.a[min(row, scales.M - 1)] * scales.b[min(col, scales.N - 1)];
}

#elif SCALES == 2

// One for each 1×128 of A and for each 128×128 of B: each interval, of 128 along K, has its own.
constexpr int SCALE_ROWS = 128;                  // of B

// volatile, so that it is loaded here, well before its use: the compiler would load it just then.
__device__ __forceinline__ float load_scale(const float* from)
{
    float scale;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(scale) : "l"(from));
    return scale;
}

// `row`: the first of the thread's two; `col`: the first of its columns.
__device__ __forceinline__ IntervalScales load_interval_scales(const Scales& scales, int row,
                                                               int col, int interval)
{
    const auto load_a = [&](int row) {
        return load_scale(scales.a + (size_t)min(row, scales.M - 1) * scales.k_tiles + interval);
    };
    return {load_a(row), load_a(row + 8),
            load_scale(scales.b + (size_t)(min(col, scales.N - 1) / SCALE_ROWS) * scales.k_tiles
                       + interval)};
}

__device__ __forceinline__ float epilogue_scale(const Scales& scales, int row, int col)
{
    return 1.0f;
}

#endif
