// The tiles of a cluster of CLUSTER blocks lie below one another, and share B: each block copies a
// part of it into all of them. By default a block is by itself.
#pragma once

#ifndef CLUSTER
#define CLUSTER 1                                // blocks that share B
#endif
#ifndef GROUP
#define GROUP 16                                 // rows of tiles that blocks take in turn, for L2
#endif

#include "cluster_sync.cuh"
#include "fp8_stage.cuh"
#include "tile_order.cuh"
#include "tma.cuh"

// First row and column of a block's tile of C.
struct TileStart {
    int m, n;
};

static_assert(BN / CLUSTER * ROW_BYTES % SWIZZLE_PERIOD == 0, "a part of B begins like a swizzle");

// By the producer: start to copy what this block copies of a stage, from k on.
__device__ __forceinline__ void copy_stage(const Stage& stage, const TensorMap& map_a,
                                           const TensorMap& map_b, TileStart tile, int k, int rank,
                                           unsigned full)
{
    tma_load(shared_address(stage.a), map_a, tile.m, k, full);         // one box: BM × 128 bytes
#if CLUSTER > 1
    const int first_row = rank * (BN / CLUSTER); // of this block's part of B
    tma_load_multicast(shared_address(stage.b) + first_row * ROW_BYTES, map_b, tile.n + first_row,
                       k, full, (1 << CLUSTER) - 1);
#else
    tma_load(shared_address(stage.b), map_b, tile.n, k, full);
#endif
}
