// Tiles of 8-bit floats, their scales, and sums in two levels.
#pragma once

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 128                                   // columns
#endif
#ifndef STAGES
#define STAGES 6                                 // pairs of tiles in shared memory
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

#define INTERVAL (PROMOTE ? PROMOTE / BK : 1 << 30)            // pairs of tiles of one sum

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

// How many of all steps belong to one sum.
__device__ __forceinline__ int steps_of(int unit, int steps)
{
    return INTERVAL == 1 ? 1 : min(INTERVAL, steps - unit * INTERVAL);
}

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

// Start to multiply 64 rows of A, 128 of k, with twice COUNT rows of B.
template <int COUNT>
__device__ __forceinline__ void start_products(float (&sums)[COUNT], const Byte* a, const Byte* b,
                                               bool add)
{
    const Descriptor from_a = describe(shared_address(a)), from_b = describe(shared_address(b));
    #pragma unroll
    for (int k = 0; k < BK; k += FP8_DEPTH)
        start_fp8_product(sums, behind(from_a, k), behind(from_b, k), add || k > 0);
}

// The same of a pair of tiles: the 64 rows of my warpgroup.
__device__ __forceinline__ void start_products(float (&sums)[SUMS], const Stage& stage, int group,
                                               bool add)
{
    start_products(sums, stage.a + group * SQUARE_BYTES, stage.b, add);
}

// ---- scales -------------------------------------------------------------------------------------

// Of one block along K: of the two rows of a thread, and of its columns.
struct Factors {
    float first, second, columns;
};

struct Scales {
    const float *a, *b;
    int M, N, blocks;                            // blocks: along K

    // Read here and now, well before they are used: the compiler would read them just then.
    __device__ __forceinline__ static float read(const float* from)
    {
        float number;
        asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(number) : "l"(from));
        return number;
    }

    // `row`: the first of the thread's rows; `col`: the first of its columns.
    __device__ __forceinline__ Factors along_k(int row, int col, int block) const
    {
#if SCALES == 2
        return {read(a + (size_t)min(row, M - 1) * blocks + block),
                read(a + (size_t)min(row + 8, M - 1) * blocks + block),
                read(b + (size_t)(min(col, N - 1) / BLOCK) * blocks + block)};
#else
        return {1.0f, 1.0f, 1.0f};
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
__device__ __forceinline__ void promote(float (&totals)[COUNT], const float (&sums)[COUNT],
                                        const Factors& factors)
{
    const float first = factors.first * factors.columns, second = factors.second * factors.columns;
    #pragma unroll
    for (int i = 0; i < COUNT; ++i)
        totals[i] = fmaf(i / 2 % 2 ? second : first, sums[i], totals[i]);
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
