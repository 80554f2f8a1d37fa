// Stream-K: which tiles of C a persistent block computes, and which part of K of each, so that all
// blocks have as much to do; and how the sums of a tile that was cut are added.
#pragma once

#include "grid_counters.cuh"
#include "stages.cuh"
#include "tile_order.cuh"

#ifndef STREAM_K
#define STREAM_K 1                               // 0: every tile is computed by one block
#endif

// First row and column of a tile of C.
struct TileStart {
    int m, n;
};

// What this block does next: tile number `tile`, from k_tile `begin` to `end` - 1. First come whole
// tiles, the same number for each block; then the block's share of the remaining tiles. Their
// k_tiles, tile after tile, are one line, which is cut into a share for each block; the lengths
// differ by one k_tile at most. For example, 3 tiles of 10 k_tiles and 2 blocks: block 0
// has all of the first tile and k_tiles 0 to 4 of the second one, block 1 has k_tiles 5 to 9 of
// that and all of the third.
struct Work {
    int M, N, k_tiles;                           // rows and columns of C, k_tiles of a tile
    int uncut, next_uncut;                       // how many tiles are not cut; this block's next
    int per_block, extra;                        // k_tiles of a share; the first `extra` blocks
                                                 // have one more
    int at, last;                                // where on the line this block is, and its end
    int tile, begin, end;

    __device__ __forceinline__ Work(int M, int N, int K)
        : M(M), N(N), k_tiles(max(1, ceil_div(K, BK))), next_uncut(blockIdx.x)
    {
        // Unless all are whole, one to two tiles remain for each block. So a share is at least as
        // long as a tile, which is then cut only once; only with fewer tiles than blocks there are
        // more cuts.
        const int tiles = ceil_div(M, BM) * ceil_div(N, BN), blocks = gridDim.x;
        uncut = !STREAM_K || tiles % blocks == 0 ? tiles : max(0, tiles / blocks - 1) * blocks;
        per_block = (tiles - uncut) * k_tiles / blocks;
        extra = (tiles - uncut) * k_tiles % blocks;
        at = first_of(blockIdx.x);
        last = first_of(blockIdx.x + 1);
    }

    // Where on the line the share of a block begins.
    __device__ __forceinline__ int first_of(int block) const
    {
        return block * per_block + min(block, extra);
    }

    // Go on to the next tile or part of one; false if there is none.
    __device__ __forceinline__ bool next()
    {
        const bool is_uncut = next_uncut < uncut;
        if (!is_uncut && at >= last) return false;
        tile = is_uncut ? next_uncut : uncut + at / k_tiles;
        begin = is_uncut ? 0 : at % k_tiles;
        end = is_uncut ? k_tiles : min(k_tiles, begin + last - at);
        if (is_uncut) next_uncut += gridDim.x;
        else at += end - begin;
        return true;
    }

    // Where the tile begins. Tiles are numbered as in 10, so that those that are computed at a time
    // share rows of A and columns of B in L2.
    __device__ __forceinline__ TileStart tile_start() const
    {
        const int tile_rows = ceil_div(M, BM), tile_cols = ceil_div(N, BN);
        const int first_row = tile / (GROUP * tile_cols) * GROUP;      // in tiles, of this group
        const int in_group = tile - first_row * tile_cols;
        const int rows = min(tile_rows - first_row, GROUP);    // the last group may have fewer
        return {(first_row + in_group % rows) * BM, in_group / rows * BN};
    }

    // The next block after `block` that has a part of this tile, or gridDim.x. `block` has its
    // beginning, or a later part. Shares may be empty: where there are fewer k_tiles than blocks.
    __device__ __forceinline__ int next_of_tile(int block) const
    {
        const int tile_end = (tile - uncut + 1) * k_tiles;
        while (++block < gridDim.x && first_of(block) < tile_end)
            if (first_of(block) < first_of(block + 1)) return block;
        return gridDim.x;
    }
};

// ---- sums of a tile that was cut ----------------------------------------------------------------

// A part is what one block has added up of such a tile, its accumulators. A block stores one part
// at most, as only the first tile of its share can have begun in another block. It stores that
// before it waits for parts of the blocks after it, so no two blocks wait for each other.
//
// Neighbouring threads store neighbours, a float at a time: for float4 the accumulators would have
// to be in aligned registers, at the mainloop's cost. Parts are stored and loaded past L1, which
// may hold what was there before.

// Store this thread's part, and set its warp's flag: of the block that adds the part, only the same
// warp waits for it.
__device__ __forceinline__ void store_part(const float (&accumulators)[TM][TN], float* parts,
                                           unsigned* flags)
{
    const int block = blockIdx.x;
    float* part = parts + (size_t)block * (BM * BN) + threadIdx.x;
    #pragma unroll
    for (int n = 0; n < TM * TN; ++n)
        __stcg(part + n * CONSUMER_THREADS, accumulators[n / TN][n % TN]);
    __syncwarp();                                // all lanes have stored
    unsigned* flag = flags + block * (CONSUMER_THREADS / 32) + threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) counter_increment(flag);
}

// Wait for the part of a block, and add it. The flag is 0 again afterwards, for the next launch.
__device__ __forceinline__ void add_part(float (&accumulators)[TM][TN], const float* parts,
                                         unsigned* flags, int block)
{
    unsigned* flag = flags + block * (CONSUMER_THREADS / 32) + threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) {
        while (counter_load(flag) == 0) {}
        *flag = 0;
    }
    __syncwarp();
    const float* part = parts + (size_t)block * (BM * BN) + threadIdx.x;
    #pragma unroll
    for (int n = 0; n < TM * TN; ++n)
        accumulators[n / TN][n % TN] += __ldcg(part + n * CONSUMER_THREADS);
}
