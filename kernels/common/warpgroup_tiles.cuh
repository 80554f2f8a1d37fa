// Tiles of 16 bits, how they come, how a warpgroup multiplies them,
// and which tile of C is whose.
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
#ifndef OP_B
#define OP_B 0                                   // 0: B is stored K×N, 1: N×K
#endif
#ifndef DTYPE
#define DTYPE 0                                  // 0: A and B are float16, 1: bfloat16
#endif
#ifndef OUT32
#define OUT32 0                                 // 0: C is of the type of A and B, 1: float32
#endif

#include "tensor_copy.cuh"
#include "warpgroup.cuh"

#define BK ROW_ELEMENTS                          // how far along K a pair of tiles goes
#define GROUPS (BM / GROUP_ROWS)                 // warpgroups that multiply
#define SUMS (BN / 2)                            // of each of their threads
#define A_BYTES (BM * ROW_BYTES)
#define B_BYTES (BN * ROW_BYTES)
#define SQUARE_BYTES (ROW_ELEMENTS * ROW_BYTES)  // of 64 rows

typedef unsigned short Bits;                     // of a float16 or a bfloat16

#if OUT32
typedef float OfC;
typedef float2 PairOfC;
#else
typedef Bits OfC;
typedef unsigned PairOfC;
#endif

// Both begin where the swizzle does. A: 64 of k in each row. B stored N×K: the same; stored K×N: a
// square for each 64 columns, of 64 rows of k.
struct Stage {
    char a[A_BYTES];
    char b[B_BYTES];
};

struct Size {
    int M, N, K;
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

// Start to bring COLUMNS columns of B, 64 of k, from (k, col) on. `bring_box` brings one box.
template <int COLUMNS, class Bring>
__device__ __forceinline__ void bring_b(unsigned to, int k, int col, Bring bring_box)
{
    if (OP_B) {
        bring_box(to, col, k);
    } else {
        #pragma unroll
        for (int c = 0; c < COLUMNS; c += ROW_ELEMENTS)
            bring_box(to + c * ROW_BYTES, k, col + c);
    }
}

// Start to multiply a pair of tiles: the 64 rows of A of my warpgroup with B.
__device__ __forceinline__ void start_products(float (&sums)[SUMS], const Stage& stage, int group,
                                               bool add)
{
    const Descriptor a = describe(shared_address(stage.a) + group * SQUARE_BYTES);
    const Descriptor b = describe(shared_address(stage.b), SQUARE_BYTES);
    #pragma unroll
    for (int k = 0; k < BK; k += DEPTH)          // along 32 bytes of a row, or down 16 rows
        start_product<!OP_B>(sums, behind(a, k * 2), behind(b, k * (OP_B ? 2 : ROW_BYTES)),
                             add || k > 0);
}

// ---- C ------------------------------------------------------------------------------------------

// Two sums as two neighbours of C.
__device__ __forceinline__ PairOfC rounded(float first, float second)
{
#if OUT32
    return make_float2(first, second);
#else
    unsigned both;
#if DTYPE == 1
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
#endif
    return both;
#endif
}

__device__ __forceinline__ float as_float(OfC one)
{
#if OUT32
    return one;
#elif DTYPE == 1
    return __uint_as_float((unsigned)one << 16);
#else
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(one));
    return number;
#endif
}

// sums = alpha * sums + beta * C, for the part of C that begins at (row, col). Where beta is 0, C
// is not read: it may hold anything, NaN included.
template <int COUNT>
__device__ __forceinline__ void combine(float (&sums)[COUNT], const OfC* C, int row, int col, int M,
                                        int N, float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        sums[i] *= alpha;
        const int r = row + row_of(i), c = col + col_of(i);
        if (beta != 0.0f && r < M && c < N) sums[i] += beta * as_float(C[(size_t)r * N + c]);
    }
}

// The sums to C by their threads, two neighbours at a time: N is even.
template <int COUNT>
__device__ __forceinline__ void store(const float (&sums)[COUNT], OfC* C, int row, int col, int M,
                                      int N)
{
    #pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        const int r = row + row_of(i), c = col + col_of(i);
        if (r < M && c < N) *(PairOfC*)(C + (size_t)r * N + c) = rounded(sums[i], sums[i + 1]);
    }
}

#include "any_width.cuh"
