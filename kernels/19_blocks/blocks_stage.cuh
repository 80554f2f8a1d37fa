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
// A tile that does not fit blocks of B has parts that do, each with scales of its own.
constexpr int PART_COLUMNS = SCALE_BLOCK % BN == 0 ? BN : 16;
constexpr int PARTS = BN / PART_COLUMNS;
constexpr int ACCUMULATORS_OF_PART = ACCUMULATORS / PARTS;

// Scale of A times scale of B, for each row of the tile and each part of its columns. A thread has
// accumulators of rows r and r + 8, and so these two are neighbours.
typedef float StageScales[PARTS][BM];

__device__ __forceinline__ int scale_place(int row)
{
    return row / 16 * 16 + row % 8 * 2 + row / 8 % 2;
}

#define REGISTERS_56 REGISTERS_48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define ACCUMULATORS_56 ACCUMULATORS_48, EIGHT_FROM(48)

// The instruction for a number of columns that wgmma_fp8.cuh does not have.
template <int COUNT>
__device__ __forceinline__ void wgmma_of_width(float (&accumulators)[COUNT], Descriptor a,
                                               Descriptor b, int accumulate)
{
    if constexpr (COUNT == 56) WGMMA_FP8(112, 56, 57, 58);
    else wgmma(accumulators, a, b, accumulate);
}

// Lower halves of the descriptors of a wave's rows of A, and of B. All have the same upper halves.
struct Operands {
    unsigned a, b;
};

// Of a warpgroup's first wave, in the first stage. Other waves and stages are as many units of 16
// bytes further on as their addresses. `stages`: the address of the first stage.
__device__ __forceinline__ Operands first_operands(unsigned stages, int warpgroup)
{
    const unsigned a = stages + warpgroup * WAVES * SQUARE_BYTES, b = stages + BM * ROW_BYTES;
    return {(unsigned)make_descriptor(a), (unsigned)make_descriptor(b)};
}

// Start to multiply 64 rows with all columns; the products become one group.
__device__ __forceinline__ void start_wave(float (&accumulators)[ACCUMULATORS], Operands operands)
{
    constexpr Descriptor UPPER = (Descriptor)(SWIZZLE_PERIOD / 16) << STRIDE_OFFSET
                               | SWIZZLE_128_BYTES << SWIZZLE_MODE;
    wgmma_fence();
    #pragma unroll
    for (int k = 0; k < BK; k += WGMMA_K)
        wgmma_of_width(accumulators, advance(UPPER | operands.a, k), advance(UPPER | operands.b, k),
                       k > 0);
    wgmma_commit();
}
