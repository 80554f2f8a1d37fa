// A stage of the pipeline: all parts of a tile of A and of one of B, BK along K; how it is filled,
// and how a warpgroup multiplies it.
#pragma once

#include "parts.cuh"
#include "shared_address.cuh"

#define CLUSTER 2                                // blocks, whose tiles in a column share B

struct Stage {
    TileParts a, b;                              // each part begins like a swizzle
};

// Start to copy a stretch of global memory; its bytes count at `barrier`. Both begin at multiples
// of 16 bytes.
__device__ __forceinline__ void copy_bulk(unsigned to, const char* from, int bytes,
                                          unsigned barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];"
                 :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// The same to the same place in each block of the cluster; it counts at the barrier of each.
__device__ __forceinline__ void copy_bulk_to_cluster(unsigned to, const char* from, int bytes,
                                                     unsigned barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;"
                 :: "r"(to), "l"(from), "r"(bytes), "r"(barrier),
                    "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}

// By the producer: all of A's parts, and this block's share of B's for the whole cluster.
__device__ __forceinline__ void copy_stage(const Stage& stage, const TileParts& parts_a,
                                           const TileParts& parts_b, int rank, unsigned full)
{
    constexpr int SHARE = sizeof(TileParts) / CLUSTER;
    copy_bulk(shared_address(stage.a), (const char*)parts_a, sizeof(TileParts), full);
    copy_bulk_to_cluster(shared_address(stage.b) + rank * SHARE,
                         (const char*)parts_b + rank * SHARE, SHARE, full);
}

typedef float Accumulators[TILE_LINES / 2];      // of a thread, for 64 rows of C

// Start to multiply part i of the warpgroup's 64 rows of A with part j of B.
__device__ __forceinline__ void multiply_parts(Accumulators& accumulators, const Stage& stage,
                                               int i, int j, int warpgroup, bool accumulate)
{
    const Descriptor a = make_descriptor(shared_address(stage.a[i]) + warpgroup * SQUARE_BYTES);
    const Descriptor b = make_descriptor(shared_address(stage.b[j]));
    #pragma unroll
    for (int k = 0; k < BK; k += WGMMA_K)
        wgmma<false>(accumulators, advance(a, k * (int)sizeof(Element)),
                     advance(b, k * (int)sizeof(Element)), accumulate || k > 0);
}

// Start all other products, the smallest first.
__device__ __forceinline__ void multiply_corrections(Accumulators& corrections, const Stage& stage,
                                                     int warpgroup, bool accumulate)
{
    #pragma unroll
    for (int order = MOST_ORDER; order > 0; --order)
        #pragma unroll
        for (int i = 0; i < PARTS; ++i)
            if (order - i >= 0 && order - i < PARTS) {
                multiply_parts(corrections, stage, i, order - i, warpgroup, accumulate);
                accumulate = true;
            }
}
