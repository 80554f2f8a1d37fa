// A stage of the pipeline of 19_blocks.cu: 128 bytes along K of A and B, and the scales of their
// products; and how a warpgroup multiplies 64 rows of it.
#pragma once

#include "blocks_settings.cuh"
#include "shared_address.cuh"

// Both begin at multiples of SWIZZLE_PERIOD, and have 128 bytes along K for each row.
struct Stage {
    Element a[BM * ROW_BYTES];
    Element b[BN * ROW_BYTES];
};

constexpr int SCALE_BLOCK = 128;                 // rows and columns of B that share a scale
static_assert(SCALE_BLOCK % BN == 0, "all columns of a tile have the same scales");

// Of each row of A, and of the tile's columns of B. A thread has accumulators of rows r and r + 8,
// and so these two are neighbours.
struct alignas(8) StageScales {
    float a[BM];
    float b;
};

__device__ __forceinline__ int scale_place(int row)
{
    return row / 16 * 16 + row % 8 * 2 + row / 8 % 2;
}

// Lower halves of the descriptors of a warpgroup's rows of A, and of B. All have the same upper
// halves.
struct Operands {
    unsigned a, b;
};

// In the first stage. Other stages are as many units of 16 bytes further on as their addresses.
// `stages`: the address of the first stage.
__device__ __forceinline__ Operands first_operands(unsigned stages, int warpgroup)
{
    const unsigned a = stages + warpgroup * SQUARE_BYTES, b = stages + BM * ROW_BYTES;
    return {(unsigned)make_descriptor(a), (unsigned)make_descriptor(b)};
}

// Start to multiply 64 rows with all columns; the products become one group.
__device__ __forceinline__ void start_products(float (&accumulators)[ACCUMULATORS],
                                               Operands operands)
{
    constexpr Descriptor UPPER = (Descriptor)(SWIZZLE_PERIOD / 16) << STRIDE_OFFSET
                               | SWIZZLE_128_BYTES << SWIZZLE_MODE;
    wgmma_fence();
    #pragma unroll
    for (int k = 0; k < BK; k += WGMMA_K)
        wgmma(accumulators, advance(UPPER | operands.a, k), advance(UPPER | operands.b, k), k > 0);
    wgmma_commit();
}
