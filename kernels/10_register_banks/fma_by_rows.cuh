// The FMAs of an outer product row by row, without a reused operand at the end of a row. A road not
// taken by rung 10.
#pragma once

#include "register_tile_sizes.cuh"

template <int FIRST, int END>
__device__ __forceinline__ void multiply_rows(float (&accumulators)[TM][TN],
                                              const Fragments& fragments)
{
    #pragma unroll
    for (int i = FIRST; i < END; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) accumulators[i][j] += fragments.a[i] * fragments.b[j];
}

__device__ __forceinline__ void multiply_first(float (&accumulators)[TM][TN],
                                               const Fragments& fragments)
{
    multiply_rows<0, 1>(accumulators, fragments);
}

__device__ __forceinline__ void multiply_rest(float (&accumulators)[TM][TN],
                                              const Fragments& fragments)
{
    multiply_rows<1, TM>(accumulators, fragments);
}
