// Which tiles of C a persistent block computes, and which part of K of each, so that all blocks
// have as much to do; and how the sums of a tile that was cut come together.
//
// A part is the accumulators of one block. Neighbouring threads store neighbours, a float at a
// time: as float4 the accumulators would have to be in aligned registers, which the mainloop pays
// for. Others load them past L1, which may hold what was there before.
#pragma once

#include "grid_counters.cuh"
#include "register_tile_sizes.cuh"
#include "tile_order.cuh"

#ifndef STREAM_K
#define STREAM_K 1                               // 0: every tile is computed by one block
#endif

// First row and column of a tile of C.
struct Origin {
    int m, n;
};

// What this block does next: a tile, from k_tile `begin` to `end` - 1. First come tiles that it
// computes from end to end, as many as all other blocks; then its share of the rest. These tiles,
// one behind the other, are cut into as many equal lengths as there are blocks.
struct Work {
    int M, N, k_tiles;                           // of C, and of a tile
    int uncut, next_uncut;                       // tiles that nobody cuts, and this block's next
    int share, longer;                           // k_tiles of a share; shares with one more
    int at, last;                                // this share, in k_tiles from the rest's start on
    int tile, begin, end;

    __device__ __forceinline__ Work(int M, int N, int K)
        : M(M), N(N), k_tiles(max(1, ceil_div(K, BK))), next_uncut(blockIdx.x)
    {
        // The rest is more than a tile for each block, so that a tile is cut once at most, if there
        // are as many tiles.
        const int tiles = ceil_div(M, BM) * ceil_div(N, BN), blocks = gridDim.x;
        uncut = !STREAM_K || tiles % blocks == 0 ? tiles : max(0, tiles / blocks - 1) * blocks;
        share = (tiles - uncut) * k_tiles / blocks;
        longer = (tiles - uncut) * k_tiles % blocks;
        at = share_of(blockIdx.x);
        last = share_of(blockIdx.x + 1);
    }

    // Where the share of a block begins.
    __device__ __forceinline__ int share_of(int block) const
    {
        return block * share + min(block, longer);
    }

    // Go on to what is next, if there is anything.
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

    // GROUP rows of tiles come first, column by column, so that tiles computed at a time share rows
    // of A and columns of B in L2.
    __device__ __forceinline__ Origin origin() const
    {
        const int tile_rows = ceil_div(M, BM), tile_cols = ceil_div(N, BN);
        const int first = tile / (GROUP * tile_cols) * GROUP, within = tile - first * tile_cols;
        const int rows = min(tile_rows - first, GROUP);
        return {(first + within % rows) * BM, within / rows * BN};
    }

    // The block after `block` that has k_tiles of the same tile, `block` being the one that has its
    // beginning or one after it; gridDim.x if none has.
    __device__ __forceinline__ int next_of_tile(int block) const
    {
        const int tile_end = (tile - uncut + 1) * k_tiles;
        while (++block < gridDim.x && share_of(block) < tile_end)
            if (share_of(block) < share_of(block + 1)) return block;
        return gridDim.x;
    }
};

// ---- sums of a tile that was cut ----------------------------------------------------------------

// Each warp has a flag for each block: only the same warp of another block waits for it.
__device__ __forceinline__ unsigned* flag_of(unsigned* flags, int block)
{
    return flags + block * (THREADS / 32) + threadIdx.x / 32;
}

__device__ __forceinline__ float* part_of(float* parts, int block)
{
    return parts + (size_t)block * (BM * BN) + threadIdx.x;
}

// Store this thread's part, and set its warp's flag.
__device__ __forceinline__ void store_part(const float (&accumulators)[TM][TN], float* parts,
                                           unsigned* flags)
{
    float* part = part_of(parts, blockIdx.x);
    #pragma unroll
    for (int n = 0; n < TM * TN; ++n) __stcg(part + n * THREADS, accumulators[n / TN][n % TN]);
    __syncwarp();
    if (threadIdx.x % 32 == 0) counter_increment(flag_of(flags, blockIdx.x));
}

// Wait for the part of a block, and add it. The flag is 0 again afterwards.
__device__ __forceinline__ void add_part(float (&accumulators)[TM][TN], const float* parts,
                                         unsigned* flags, int block)
{
    unsigned* flag = flag_of(flags, block);
    if (threadIdx.x % 32 == 0) {
        while (counter_load(flag) == 0) {}
        *flag = 0;
    }
    __syncwarp();
    const float* part = part_of((float*)parts, block);
    #pragma unroll
    for (int n = 0; n < TM * TN; ++n) accumulators[n / TN][n % TN] += __ldcg(part + n * THREADS);
}
