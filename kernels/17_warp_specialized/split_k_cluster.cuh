// Split K: SPLIT blocks, a cluster, compute a tile of C together, each over its part of K, and each
// adds up a part of the columns at the end. With SPLIT=1 a block computes its tile alone.
#pragma once

#ifndef SPLIT
#define SPLIT 1                                  // parts of K, a block for each
#endif

#if SPLIT > 1

#include "alpha_beta.cuh"
#include "cluster_barrier.cuh"
#include "named_barrier.cuh"
#include "register_epilogue.cuh"
#include "stage.cuh"
#include "warp_roles.cuh"

#define SPLIT_IN_CLUSTER __cluster_dims__(SPLIT, 1, 1)

// By a warpgroup of each block of the cluster: add their accumulators, in the order of the parts of
// K, and store them from (m, n) of C on. `space`: the stages, large enough for all of a block.
__device__ __forceinline__ void reduce_and_store(const float (&accumulators)[ACCUMULATORS],
                                                 float4* space, ElementC* C, int m, int n, int M,
                                                 int N, float alpha, float beta)
{
    constexpr int VECTORS = ACCUMULATORS / 4, SHARE = VECTORS / SPLIT;
    static_assert(VECTORS % SPLIT == 0, "each block adds up as many columns");
    static_assert(sizeof(float) * BM * BN <= STAGES * sizeof(Stage),
                  "a block's sums find room where its stages were");
    const int part = blockIdx.x % SPLIT;
    float4* slots = space + threadIdx.x / WARPGROUP_THREADS * VECTORS * WARPGROUP_THREADS
                  + threadIdx.x % WARPGROUP_THREADS;
    named_barrier_sync<CONSUMERS * WARPGROUP_THREADS>(CONSUMERS + 1);  // all stages are read
    #pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        slots[i * WARPGROUP_THREADS] =
            make_float4(accumulators[4 * i], accumulators[4 * i + 1], accumulators[4 * i + 2],
                        accumulators[4 * i + 3]);
    cluster_arrive();
    cluster_wait();                              // the accumulators of all blocks are stored

    float share[4 * SHARE];
    #pragma unroll
    for (int i = 0; i < SHARE; ++i) {
        const float4* slot = slots + (part * SHARE + i) * WARPGROUP_THREADS;
        float4 total = load_remote(slot, 0);
        #pragma unroll
        for (int other = 1; other < SPLIT; ++other) {
            const float4 summand = load_remote(slot, other);
            total.x += summand.x;
            total.y += summand.y;
            total.z += summand.z;
            total.w += summand.w;
        }
        share[4 * i] = total.x;
        share[4 * i + 1] = total.y;
        share[4 * i + 2] = total.z;
        share[4 * i + 3] = total.w;
    }
    n += part * (BN / SPLIT);
    if (alpha != 1.0f || beta != 0.0f) apply_alpha_beta(share, C, m, n, M, N, alpha, beta);
    store_pairs(share, C, m, n, M, N);
    cluster_arrive();
    cluster_wait();                              // none ends while others read its accumulators
}

#else
#define SPLIT_IN_CLUSTER
#endif
