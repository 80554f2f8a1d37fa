// Which tiles of C a block that stays computes, and over which part of K, so that all blocks have
// as much to do; and how the sums of a tile that was cut come together.
//
// A part is the sums of one block. Neighbouring threads write neighbours, a float at a time: as
// float4 the sums would have to lie in aligned registers, which the loop pays for. Others read them
// past L1, which may hold what was there before.
#pragma once

#include "meeting.cuh"

#ifndef STREAM_K
#define STREAM_K 1                               // 0: every tile is computed by one block
#endif

__device__ __forceinline__ int tiles_of(int size, int tile) { return (size + tile - 1) / tile; }

struct Corner {
    int top, left;
};

// A tile and its stages of K from `begin` to `end` - 1, of a block: first of tiles that it computes
// wholly, as many as all others; then of its share of the rest. These tiles, end to end, are cut
// into as many equal lengths as there are blocks.
struct Work {
    int M, N, stages;                            // of C, and of a tile
    int whole, next_whole;                       // tiles that nobody cuts, and my next one of them
    int each, longer;                            // stages of a share of it; shares with one more
    int at, last;                                // my share, in stages from the rest's start on
    int tile, begin, end;

    __device__ __forceinline__ Work(int M, int N, int K)
        : M(M), N(N), stages(max(1, tiles_of(K, BK))), next_whole(blockIdx.x)
    {
        // The rest is more than a tile for each block, so that a tile is cut once at most, if there
        // are as many tiles.
        const int tiles = tiles_of(M, BM) * tiles_of(N, BN), blocks = gridDim.x;
        whole = !STREAM_K || tiles % blocks == 0 ? tiles : max(0, tiles / blocks - 1) * blocks;
        each = (tiles - whole) * stages / blocks;
        longer = (tiles - whole) * stages % blocks;
        at = share_of(blockIdx.x);
        last = share_of(blockIdx.x + 1);
    }

    // Where the share of a block begins.
    __device__ __forceinline__ int share_of(int block) const
    {
        return block * each + min(block, longer);
    }

    // Go on to what is next, if there is anything.
    __device__ __forceinline__ bool next()
    {
        const bool is_whole = next_whole < whole;
        if (!is_whole && at >= last) return false;
        tile = is_whole ? next_whole : whole + at / stages;
        begin = is_whole ? 0 : at % stages;
        end = is_whole ? stages : min(stages, begin + last - at);
        if (is_whole) next_whole += gridDim.x;
        else at += end - begin;
        return true;
    }

    // GROUP rows of tiles go together, column by column, so that tiles in work at a time share rows
    // of A and columns of B in L2.
    __device__ __forceinline__ Corner corner() const
    {
        const int down = tiles_of(M, BM), across = tiles_of(N, BN);
        const int above = tile / (GROUP * across) * GROUP, inside = tile - above * across;
        const int rows = min(down - above, GROUP);
        return {(above + inside % rows) * BM, inside / rows * BN};
    }

    // The block after `block` that has stages of the same tile, `block` being the one that has its
    // beginning or one after it; gridDim.x where there is none.
    __device__ __forceinline__ int next_of_tile(int block) const
    {
        const int tile_end = (tile - whole + 1) * stages;
        while (++block < gridDim.x && share_of(block) < tile_end)
            if (share_of(block) < share_of(block + 1)) return block;
        return gridDim.x;
    }
};

// ---- sums of a tile that was cut -----------------------------------------------------------------

// Each warp has a flag for each block: only the warp at the same place of another block waits.
__device__ __forceinline__ unsigned* flag_of(unsigned* flags, int block)
{
    return flags + block * (THREADS / 32) + threadIdx.x / 32;
}

__device__ __forceinline__ float* part_of(float* parts, int block)
{
    return parts + (size_t)block * (BM * BN) + threadIdx.x;
}

// My warp's part is there, for the warp that adds it.
__device__ __forceinline__ void leave_part(const float (&sums)[TM][TN], float* parts,
                                           unsigned* flags)
{
    float* mine = part_of(parts, blockIdx.x);
    #pragma unroll
    for (int n = 0; n < TM * TN; ++n) __stcg(mine + n * THREADS, sums[n / TN][n % TN]);
    __syncwarp();
    if (threadIdx.x % 32 == 0) count_up(flag_of(flags, blockIdx.x));
}

// Wait for the part of a block, and add it. The flag is 0 again afterwards.
__device__ __forceinline__ void add_part(float (&sums)[TM][TN], const float* parts, unsigned* flags,
                                         int block)
{
    unsigned* flag = flag_of(flags, block);
    if (threadIdx.x % 32 == 0) {
        while (look(flag) == 0) {}
        *flag = 0;
    }
    __syncwarp();
    const float* other = part_of((float*)parts, block);
    #pragma unroll
    for (int n = 0; n < TM * TN; ++n) sums[n / TN][n % TN] += __ldcg(other + n * THREADS);
}
