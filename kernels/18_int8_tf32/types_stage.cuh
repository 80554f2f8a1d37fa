// A stage of the pipeline of 18_int8_tf32.cu, 128 bytes along K of A and of B, and where the tiles
// of a cluster are: they lie below one another and share a tile of B, of which each block copies a
// part to all of them, as in 18.
#pragma once

#include "types_settings.cuh"
#include "cluster_sync.cuh"
#include "pipeline_state.cuh"
#include "tile_order.cuh"
#include "tma.cuh"
#include "wgmma_int8_tf32.cuh"

constexpr int BOX = 32;                          // rows and columns of a box of C, and of B stored
                                                 // K×N: 32 numbers of 32 bits are 128 bytes
constexpr int BOX_BYTES = BOX * ROW_BYTES;

// Both begin at multiples of SWIZZLE_PERIOD. A has 128 bytes along K for each of its rows. B stored
// N×K has the same for each column; stored K×N, for each 32 columns a box of 32 rows along K.
struct Stage {
    char a[BM * ROW_BYTES];
    char b[BN * ROW_BYTES];
};

// First row and column of a block's tile of C.
struct TileStart {
    int m, n;
};

// Of the block of this rank, for the cluster's tile of this number. GROUP is in rows of blocks'
// tiles.
__device__ __forceinline__ TileStart tile_start(int number, int tile_rows, int tile_cols, int rank)
{
    const Tile tile = tile_at(number, tile_rows, tile_cols, ceil_div(GROUP, CLUSTER));
    return {(tile.row * CLUSTER + rank) * BM, tile.col * BN};
}

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
    constexpr int PART = BN / CLUSTER;           // columns of B that a block copies
    const int part = rank * PART;
    const unsigned b = shared_address(stage.b) + part * ROW_BYTES;
    tma_load(shared_address(stage.a), map_a, tile.m, k, full);         // one box: BM × 128 bytes
#if OP_B
    static_assert(PART % 8 == 0, "whole periods of the swizzle");
    copy_to_cluster(b, map_b, tile.n + part, k, full);
#else
    static_assert(PART % BOX == 0, "whole boxes");
    #pragma unroll
    for (int n = 0; n < PART; n += BOX)
        copy_to_cluster(b + n * ROW_BYTES, map_b, k, tile.n + part + n, full);
#endif
}
