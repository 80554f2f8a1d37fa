// What a block and a thread compute, and how A and B are stored.
#pragma once

#ifndef BM
#define BM 64                                    // rows of C that a block computes
#endif
#ifndef BN
#define BN 64                                    // columns
#endif
#ifndef BK
#define BK 16                                    // how far along K one stage goes
#endif
#ifndef TM
#define TM 8                                     // rows of C that a thread computes
#endif
#ifndef TN
#define TN 8                                     // columns
#endif
#ifndef STAGES
#define STAGES 3                                 // places for tiles
#endif
#ifndef OP_A
#define OP_A 0                                   // 0: A is stored M×K, 1: K×M
#endif
#ifndef OP_B
#define OP_B 0                                   // 0: B is stored K×N, 1: N×K
#endif

__device__ __forceinline__ constexpr int at_most(int a, int b) { return a < b ? a : b; }

// The largest power of two up to n.
__device__ __forceinline__ constexpr int power_of_two(int n)
{
    return n < 2 ? 1 : 2 * power_of_two(n / 2);
}

// How many tiles it takes to cover so many rows or columns.
__device__ __forceinline__ int tiles_of(int size, int tile) { return (size + tile - 1) / tile; }
