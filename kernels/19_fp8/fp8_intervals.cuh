// Intervals of PROMOTE elements along K: the tensor cores add the products of one by themselves,
// and then their sums are promoted, which means added to totals in float32.
#pragma once

#include "fp8_scales.cuh"
#include "fp8_stage.cuh"

#ifndef PROMOTE
#define PROMOTE 128                              // 0: all of K is one interval
#endif

constexpr int INTERVAL = PROMOTE ? PROMOTE / BK : 1 << 30;     // k tiles
static_assert(PROMOTE % BK == 0, "an interval is whole k tiles");
static_assert(PROMOTE == 0 || 2 * INTERVAL <= STAGES,
              "two intervals are under way, whose stages are not released: with fewer stages, "
              "producer and consumers would wait for each other");
static_assert(SCALES != 2 || PROMOTE == BK, "block scales are others after every 128 along K");

// How many of all k_tiles are in this interval: the last one may have fewer.
__device__ __forceinline__ int k_tiles_of(int interval, int k_tiles)
{
    return INTERVAL == 1 ? 1 : min(INTERVAL, k_tiles - interval * INTERVAL);
}

// totals += scales * partial. Of four accumulators, the first two are in the thread's first row,
// the others in its second. Where all scales are 1, an FMA costs no more than an addition.
template <int COUNT>
__device__ __forceinline__ void promote(float (&totals)[COUNT], const float (&partial)[COUNT],
                                        const IntervalScales& scales)
{
    const float first = scales.first_row * scales.columns;
    const float second = scales.second_row * scales.columns;
    #pragma unroll
    for (int i = 0; i < COUNT; ++i)
        totals[i] = fmaf(i / 2 % 2 ? second : first, partial[i], totals[i]);
}
