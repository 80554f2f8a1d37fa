// A stage of the pipeline of 19, 128 bytes along K of A and B, and how a warpgroup multiplies it.
#pragma once

#include "shared_address.cuh"
#include "wgmma_fp8.cuh"

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
// The totals and two sets of accumulators of 128 columns are 3 * 64 registers; 256 would need 384.
#ifndef BN
#define BN 128                                   // columns
#endif
// 6 * 32 KiB, as much as 18's 4 * 48.
#ifndef STAGES
#define STAGES 6                                 // buffers for a tile of A and of B: the pipeline
#endif

#define BK ROW_BYTES                             // elements of 1 byte
#define ACCUMULATORS (BN / 2)                    // of a thread, for 64 rows of C

// Both begin at multiples of SWIZZLE_PERIOD, and have 128 bytes along K for each row of the tile.
struct Stage {
    Element a[BM * ROW_BYTES];
    Element b[BN * ROW_BYTES];
};

// Start to multiply a stage: the warpgroup's 64 rows of A with B. Steps along K are in bytes, which
// are elements here.
__device__ __forceinline__ void multiply_stage(float (&accumulators)[ACCUMULATORS],
                                               const Stage& stage, int warpgroup, bool accumulate)
{
    const Descriptor a = make_descriptor(shared_address(stage.a + warpgroup * SQUARE_BYTES));
    const Descriptor b = make_descriptor(shared_address(stage.b));
    #pragma unroll
    for (int k = 0; k < BK; k += WGMMA_K)
        wgmma(accumulators, advance(a, k), advance(b, k), accumulate || k > 0);
}
