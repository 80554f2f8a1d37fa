// The FMAs of an outer product row by row, without a reused operand at the end of a row. A road not
// taken by rung 10.
#pragma once

#include "register_tile_sizes.cuh"

// <0, 1> is the first row, <1, TN> are the others.
template <int FIRST, int END>
__device__ __forceinline__ void multiply_columns(float (&accumulators)[TM][TN],
                                                 const Fragments& fragments)
{
    #pragma unroll
    for (int i = FIRST; i < (FIRST == 0 ? 1 : TM); ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) accumulators[i][j] += fragments.a[i] * fragments.b[j];
}
