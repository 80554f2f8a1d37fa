// A stage of the pipeline of 16 to 18: a tile of A and one of B, 64 elements along K, and how a
// warpgroup multiplies them.
#pragma once

#include "hopper_settings.cuh"
#include "operand_b.cuh"

#define BK ROW_ELEMENTS
#define ACCUMULATORS (BN / 2)                    // of a thread, for 64 rows of C

// Both begin at multiples of SWIZZLE_PERIOD. A has a row of 128 bytes along K for each row of the
// tile. B stored N×K has one for each column; stored K×N, a square for each 64 columns, which has a
// row of 128 bytes along N for each of 64 k.
struct Stage {
    char a[BM * ROW_BYTES];
    char b[(BN + 63) / 64 * SQUARE_BYTES];       // whole squares
};
static_assert(BM % WARPGROUP_ROWS == 0, "a warpgroup multiplies 64 rows");
static_assert(!OP_B || BN % 64 == 0, "one box fills all of b, as many bytes as `full` counts");

// Start to multiply a stage: the warpgroup's 64 rows of A with B.
__device__ __forceinline__ void multiply_stage(float (&accumulators)[ACCUMULATORS],
                                               const Stage& stage, int warpgroup, bool accumulate)
{
    const Descriptor a = make_descriptor(shared_address(stage.a) + warpgroup * SQUARE_BYTES);
    const Descriptor b = make_descriptor(shared_address(stage.b), SQUARE_BYTES);
    #pragma unroll
    for (int k = 0; k < BK; k += WGMMA_K)
        wgmma<TRANSPOSE_B>(accumulators, advance(a, k * (int)sizeof(Element)),
                           advance(b, k * BYTES_PER_K), accumulate || k > 0);
}
