// How the blocks of a cluster, each with its part of K, add their sums of one tile of C: every one
// adds its share of the columns, in the order of the parts.
#pragma once

#include "cluster.cuh"

// The consumers of my block come here.
__device__ __forceinline__ void meet_consumers()
{
    asm volatile("bar.sync %0, %1;" :: "n"(GROUPS + 1), "n"(GROUPS * GROUP_THREADS) : "memory");
}

// Four sums of the block of this rank, which lie there as `mine` lies here.
__device__ __forceinline__ float4 of_block(const float4* mine, int rank)
{
    float4 four;
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "r"(shared_address(mine)), "r"(rank) : "memory");
    return four;
}

// My warpgroup's sums and those of the other parts to C, from (row, col) on. `space`: where tiles
// were, enough for all sums of the block.
__device__ __forceinline__ void add_parts(const float (&sums)[SUMS], float4* space, int part, OfC* C,
                                          int row, int col, int M, int N, float alpha, float beta)
{
    constexpr int FOURS = SUMS / 4, SHARE = FOURS / SPLIT;
    float4* mine = space + threadIdx.x / GROUP_THREADS * FOURS * GROUP_THREADS
                 + threadIdx.x % GROUP_THREADS;
    meet_consumers();                            // no warpgroup multiplies these tiles any more
    #pragma unroll
    for (int i = 0; i < FOURS; ++i)
        mine[i * GROUP_THREADS] = make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2],
                                              sums[4 * i + 3]);
    tell_cluster();                              // the sums of all parts are there

    float share[4 * SHARE];
    #pragma unroll
    for (int i = 0; i < SHARE; ++i) {
        const float4* from = mine + (part * SHARE + i) * GROUP_THREADS;
        float4 four = of_block(from, 0);
        #pragma unroll
        for (int other = 1; other < SPLIT; ++other) {
            const float4 more = of_block(from, other);
            four.x += more.x;
            four.y += more.y;
            four.z += more.z;
            four.w += more.w;
        }
        share[4 * i] = four.x;
        share[4 * i + 1] = four.y;
        share[4 * i + 2] = four.z;
        share[4 * i + 3] = four.w;
    }
    const int begin = col + part * (BN / SPLIT);
    if (alpha != 1.0f || beta != 0.0f) combine(share, C, row, begin, M, N, alpha, beta);
    store(share, C, row, begin, M, N);
    tell_cluster();                              // none ends while others read its sums
}
