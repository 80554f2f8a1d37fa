// How a float32 is split into PARTS numbers of 16 bits, which products of parts are computed, and
// where the parts of A and B lie in global memory.
#pragma once

#ifndef WAY
#define WAY 0                                    // 0: BF16×6, 1: FP16×3, 2: BF16×3, 3: BF16×9
#endif
#ifndef OP_A
#define OP_A 0                                   // 0: A is stored M×K, 1: K×M
#endif
#ifndef OP_B
#define OP_B 0                                   // 0: B is stored K×N, 1: N×K
#endif

#define DTYPE (WAY != 1)                         // of the parts

#include "wgmma_16bit.cuh"

#define BK ROW_ELEMENTS

constexpr int PARTS = WAY == 0 || WAY == 3 ? 3 : 2;            // of each number
constexpr int MOST_ORDER = WAY == 0 ? 2 : WAY == 3 ? 4 : 1;    // of products: i + j of parts i, j
constexpr bool SCALED = WAY == 1;                // rows of A and columns of B, by powers of two

// Part i is stored divided by PART_STEP to the power of i: where numbers are scaled, the second
// part of small ones would be subnormal otherwise.
constexpr float PART_STEP = SCALED ? 1.0f / 2048 : 1.0f;

// The parts of a tile of TILE_LINES lines, rows of A or columns of B, and of BK along K follow one
// another in global memory as a stage holds them: a row of 128 bytes for each line, swizzled. Then
// come those of the next BK of the same lines. Beyond the matrix there are zeros.
constexpr int TILE_LINES = 128;
typedef char TilePart[TILE_LINES * ROW_BYTES];
typedef TilePart TileParts[PARTS];

__device__ __forceinline__ bool is_finite(float number)
{
    return fabsf(number) < __int_as_float(0x7f800000);
}

// Two neighbours as numbers of 16 bits, rounded to nearest. cvt takes the upper half first.
__device__ __forceinline__ unsigned round_to_parts(float first, float second)
{
    unsigned pair;
#if DTYPE == 1
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
#endif
    return pair;
}

// The value of a part, given by its 16 bits.
__device__ __forceinline__ float part_to_float(unsigned short part)
{
    float value;
#if DTYPE == 1
    value = __uint_as_float((unsigned)part << 16);
#else
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(part));
#endif
    return value;
}

// The next part of two neighbours, and what is left of them. The largest numbers would become
// infinite in bfloat16. Of what is not finite the first part alone counts.
__device__ __forceinline__ unsigned take_part(float& first, float& second)
{
    constexpr float LARGEST = DTYPE == 1 ? 3.38953139e38f : 65504.0f;
    const auto rounded = [](float number) {
        return is_finite(number) ? fminf(fmaxf(number, -LARGEST), LARGEST) : number;
    };
    const auto left = [](float number, unsigned short part) {
        return (number - part_to_float(part)) * (1 / PART_STEP);
    };
    const unsigned pair = round_to_parts(rounded(first), rounded(second));
    first = left(first, pair & 0xffff);
    second = left(second, pair >> 16);
    return pair;
}
