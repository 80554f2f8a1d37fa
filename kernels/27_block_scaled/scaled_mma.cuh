// Products of narrow elements with scales of blocks: an element stands for its number times the
// scale of its block, 32 neighbours along K (MXFP8), or 16 (NVFP4). The tensor cores multiply by
// both scales themselves, and read them from tensor memory.
//
// An instruction takes 32 bytes along K. In one column of tensor memory a lane has 4 scales of a
// row, a byte each; 128 rows are 32 lanes of 4 columns. An atom, 512 bytes, is that in shared
// memory: 16 bytes of each lane, 4 scales of row lane, of row lane + 32, + 64 and + 96.
#pragma once

#include "tcgen05.cuh"

#ifndef FORMAT
#define FORMAT 0                                 // 0: MXFP8, 1: NVFP4
#endif

constexpr int ATOM_BYTES = 512, ATOM_COLUMNS = 4;
constexpr int STEPS = ROW_BYTES / 32;            // instructions for a row of a stage

#if FORMAT == 1
#define SCALED_KIND ".kind::mxf4nvf4.block_scale.scale_vec::4X"
constexpr int ATOMS = STEPS;                     // of a stage: 4 scales of a row for each step
#else
#define SCALED_KIND ".kind::mxf8f6f4.block_scale.scale_vec::1X"
constexpr int ATOMS = 1;                         // 1 scale of a row for each step
#endif

// The instruction descriptor of a step. Both operands lie along K. MXFP8: e4m3 with scales of
// ue8m0, powers of two, and which of the 4 bytes of a column has this step's scale. NVFP4: e2m1 with
// scales of ue4m3, and all 4 bytes are this step's.
__device__ constexpr unsigned scaled_descriptor(int rows, int columns, int step)
{
    const unsigned sizes = (unsigned)columns / 8 << 17 | (unsigned)rows / 128 << 27;
#if FORMAT == 1
    return sizes | 1u << 7 | 1u << 10;
#else
    return sizes | 1u << 23 | (unsigned)step << 4 | (unsigned)step << 29;
#endif
}

// By one thread: start sums = A @ B, plus what they were with `accumulate`, for 32 bytes along K;
// the scales are in tensor memory from these addresses on.
__device__ __forceinline__ void scaled_mma(unsigned sums, Descriptor a, Descriptor b,
                                           unsigned instruction, unsigned scales_a,
                                           unsigned scales_b, int accumulate)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0; tcgen05.mma.cta_group::1" SCALED_KIND
                 " [%0], %1, %2, %3, [%4], [%5], p; }"
                 :: "r"(sums), "l"(a), "l"(b), "r"(instruction), "r"(scales_a), "r"(scales_b),
                    "r"(accumulate) : "memory");
}

// By the same thread: start to copy an atom of scales from shared memory to 4 columns, the same to
// all four quarters of the lanes. Products that this thread starts later wait for it.
__device__ __forceinline__ void copy_scales(unsigned to, unsigned atom)
{
    const Descriptor from = (Descriptor)((atom & 0x3FFFF) / 16) << START_ADDRESS
                          | (Descriptor)(8 * 16 / 16) << STRIDE_OFFSET     // of 8 lanes
                          | BLACKWELL << VERSION;                          // no swizzle
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;"
                 :: "r"(to), "l"(from) : "memory");
}
