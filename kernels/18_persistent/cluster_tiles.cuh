// The tiles of a cluster of CLUSTER blocks lie below one another and share a tile of B: each block
// copies a part of it to all of them. With SHARE_A=1 they lie side by side, and share A.
#pragma once

#ifndef CLUSTER
#define CLUSTER 2
#endif
#ifndef SHARE_A
#define SHARE_A 0
#endif

#include "stage.cuh"
#include "tile_order.cuh"
#include "cluster_sync.cuh"

#if SHARE_A
constexpr int CLUSTER_M = 1, CLUSTER_N = CLUSTER;              // tiles of a cluster
#else
constexpr int CLUSTER_M = CLUSTER, CLUSTER_N = 1;
#endif

// First row and column of a block's tile of C.
struct TileStart {
    int m, n;
};

// Of the block of this rank, for the cluster's tile of this number, out of tile_rows × tile_cols
// such tiles. As these are rounded up, a block's tile may lie outside of C: it is multiplied as
// zeros, and nothing is stored. GROUP is in rows of blocks' tiles.
__device__ __forceinline__ TileStart tile_start(int number, int tile_rows, int tile_cols, int rank)
{
    const Tile tile = tile_at(number, tile_rows, tile_cols, ceil_div(GROUP, CLUSTER_M));
#if SHARE_A
    return {tile.row * BM, (tile.col * CLUSTER + rank) * BN};
#else
    return {(tile.row * CLUSTER + rank) * BM, tile.col * BN};
#endif
}

#if SHARE_A
static_assert(BM / CLUSTER * ROW_BYTES % SWIZZLE_PERIOD == 0, "a part of A begins like a swizzle");
#else
static_assert(CLUSTER == 1 || BN % (CLUSTER * 64) == 0,
              "a part of B is whole boxes: `full` counts all bytes of B");
#endif

// Start to copy a box to the same place in all blocks of the cluster; its bytes count at `full` of
// each.
__device__ __forceinline__ void copy_to_cluster(unsigned to, const TensorMap& map, int row, int col,
                                                unsigned full)
{
#if CLUSTER > 1
    tma_load_multicast(to, map, row, col, full, (1 << CLUSTER) - 1);
#else
    tma_load(to, map, row, col, full);
#endif
}

// By the producer: start to copy what this block copies of a stage, from k on.
__device__ __forceinline__ void copy_stage(const Stage& stage, const TensorMap& map_a,
                                           const TensorMap& map_b, TileStart tile, int k, int rank,
                                           unsigned full)
{
#if SHARE_A
    const int first_row = rank * (BM / CLUSTER); // of this block's part of A
    copy_to_cluster(shared_address(stage.a) + first_row * ROW_BYTES, map_a, tile.m + first_row, k,
                    full);
    copy_b(shared_address(stage.b), map_b, k, tile.n, full);
#else
    const int first_col = rank * (BN / CLUSTER); // of this block's part of B
    tma_load(shared_address(stage.a), map_a, tile.m, k, full);
    const unsigned b = shared_address(stage.b) + first_col * ROW_BYTES;
#if OP_B
    copy_to_cluster(b, map_b, tile.n + first_col, k, full);
#else
    #pragma unroll
    for (int n = 0; n < BN / CLUSTER; n += ROW_ELEMENTS)
        copy_to_cluster(b + n * ROW_BYTES, map_b, k, tile.n + first_col + n, full);
#endif
#endif
}
