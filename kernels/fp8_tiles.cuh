// What 19 computes with: tiles of 8-bit floats, their scales, and sums in two levels.
#pragma once

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 256                                   // columns
#endif
#ifndef STAGES
#define STAGES 4                                 // pairs of tiles in shared memory
#endif
#ifndef GROUP
#define GROUP 16                                 // rows of tiles that are computed together
#endif
#ifndef DTYPE
#define DTYPE 0                                  // A and B: 0 both E4M3, 1 A is E5M2, 2 B is E5M2
#endif
#ifndef OUT32
#define OUT32 0                                  // 0: C is bfloat16, 1: float32
#endif
#ifndef SCALES
#define SCALES 0                                 // 0: of A and of B, 1: of rows and columns, 2: of blocks
#endif
#ifndef PROMOTE
#define PROMOTE 128                              // along K of one sum of the tensor cores, 0: all
#endif

#include "tensor_copy.cuh"
#include "warpgroup_fp8.cuh"

#define BK 128                                   // how far along K a pair of tiles goes: a row
#define GROUPS (BM / GROUP_ROWS)                 // warpgroups that multiply
#define SUMS (BN / 2)                            // of each of their threads
#define SQUARE_BYTES (GROUP_ROWS * ROW_BYTES)    // of 64 rows
#define BLOCK 128                                // rows of B, and elements along K, of one scale

// How many columns a warpgroup multiplies at a time. A thread has room for a second set of sums of
// 128 columns.
#define PART (PROMOTE && BN > 128 ? 128 : BN)
#define INTERVAL (PROMOTE ? PROMOTE / BK : 1 << 30)            // pairs of tiles of one sum
#define LAG (PROMOTE == 0)                       // products under way while others are started

typedef unsigned char Byte;                      // of an 8-bit float

#if OUT32
typedef float OfC;
typedef float2 PairOfC;
#else
typedef unsigned short OfC;
typedef unsigned PairOfC;
#endif

// Both begin where the swizzle does, 128 of k in each row.
struct Stage {
    Byte a[BM * ROW_BYTES];
    Byte b[BN * ROW_BYTES];
};

__device__ __forceinline__ int tiles_of(int size, int tile) { return (size + tile - 1) / tile; }

// Where a tile of C begins.
struct Corner {
    int row, col;
};

// Of `down` × `across` tiles, where the tile of this number lies, in tiles: GROUP rows of them come
// first, column by column, so that tiles in work at a time share rows of A and columns of B in L2.
__device__ __forceinline__ Corner tile_at(int number, int down, int across, int group)
{
    const int first = number / (group * across) * group;
    const int rows = min(group, down - first), inside = number % (group * across);
    return {first + inside % rows, inside / rows};
}

// Start to multiply 64 rows of A with twice COUNT rows of B, 128 of k, each from its first byte on.
template <int COUNT>
__device__ __forceinline__ void start_products(float (&sums)[COUNT], const Byte* a, const Byte* b,
                                               bool add)
{
    const Descriptor from_a = describe(shared_address(a)), from_b = describe(shared_address(b));
    #pragma unroll
    for (int k = 0; k < BK; k += FP8_DEPTH)
        start_fp8_product(sums, behind(from_a, k), behind(from_b, k), add || k > 0);
}

// ---- scales -------------------------------------------------------------------------------------

struct Scales {
    const float *a, *b;
    int M, N, blocks;                            // blocks: along K

    // In one block of K: of the two rows of a thread, the first of which is `row`.
    __device__ __forceinline__ float2 of_rows(int row, int block) const
    {
#if SCALES == 2
        return make_float2(a[(size_t)min(row, M - 1) * blocks + block],
                           a[(size_t)min(row + 8, M - 1) * blocks + block]);
#else
        return make_float2(1.0f, 1.0f);
#endif
    }

    // There, of the columns from `col` on.
    __device__ __forceinline__ float of_columns(int col, int block) const
    {
#if SCALES == 2
        return b[(size_t)(min(col, N - 1) / BLOCK) * blocks + block];
#else
        return 1.0f;
#endif
    }

    // What the sum of row and column is multiplied by at the end.
    __device__ __forceinline__ float at_end(int row, int col) const
    {
#if SCALES == 0
        return a[0] * b[0];
#elif SCALES == 1
        return a[min(row, M - 1)] * b[min(col, N - 1)];
#else
        return 1.0f;
#endif
    }
};

// totals += scales * sums. A product with 1 is none: the compiler leaves it out.
template <int COUNT>
__device__ __forceinline__ void promote(float* totals, const float (&sums)[COUNT], float2 of_rows,
                                        float of_columns)
{
    const float first = of_rows.x * of_columns, second = of_rows.y * of_columns;
    #pragma unroll
    for (int i = 0; i < COUNT; ++i)
        totals[i] = fmaf(i / 2 % 2 ? second : first, sums[i], totals[i]);
}

// The sums of the tensor cores: a second set beside the totals, or without PROMOTE these themselves.
template <int COUNT, int ALL>
__device__ __forceinline__ float (&where_products_add(float (&totals)[ALL],
                                                      float (&second)[COUNT]))[COUNT]
{
    if constexpr (PROMOTE) return second;
    else return totals;
}

// ---- C ------------------------------------------------------------------------------------------

// Two sums as two neighbours of C.
__device__ __forceinline__ PairOfC rounded(float first, float second)
{
#if OUT32
    return make_float2(first, second);
#else
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
#endif
}

__device__ __forceinline__ float as_float(OfC one)
{
#if OUT32
    return one;
#else
    return __uint_as_float((unsigned)one << 16);
#endif
}

// sums = alpha * scale * sums + beta * C, for the part of C that begins at (row, col). Where beta is
// 0, C is not read: it may hold anything, NaN included.
template <int COUNT>
__device__ __forceinline__ void combine(float (&sums)[COUNT], const OfC* C, int row, int col,
                                        const Scales& scales, float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int r = row + row_of(i), c = col + col_of(i);
        sums[i] *= alpha * scales.at_end(r, c);
        if (beta != 0.0f && r < scales.M && c < scales.N)
            sums[i] += beta * as_float(C[(size_t)r * scales.N + c]);
    }
}

#include "any_width_fp8.cuh"
