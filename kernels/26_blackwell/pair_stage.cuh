// The sizes of 26, a stage of its pipeline, and how it is filled and multiplied.
#pragma once

#ifndef BN
#define BN 256                                   // columns of C that a block computes
#endif
#ifndef STAGES
#define STAGES 4                                 // buffers for a tile of A and of B: the pipeline
#endif
#ifndef GROUP
#define GROUP 16                                 // rows of tiles that blocks take in turn, for L2
#endif

#include "pair.cuh"
#include "tile_order.cuh"

typedef unsigned short Element;                  // the bits of a float16

constexpr int BM = 128;                          // rows of C of a block: lanes of tensor memory
constexpr int BK = ROW_BYTES / (int)sizeof(Element);
constexpr int MMA_K = 16;                        // elements along K that an instruction takes
constexpr int B_COLUMNS = BN / CTAS;             // of B, in one block's shared memory

static_assert(B_COLUMNS % 64 == 0, "B is copied in whole squares");

// A has a row of 128 bytes along K for each row of the tile; B a square for each 64 columns, which
// has a row of 128 bytes along N for each of 64 k.
struct Stage {
    char a[BM * ROW_BYTES];
    char b[B_COLUMNS / 64 * SQUARE_BYTES];
};

// First row and column of a block's tile of C.
struct TileStart {
    int m, n;
};

// Of the block of this rank, for the pair's tile of this number; GROUP is in rows of blocks' tiles.
// A block's tile may lie below C: it is multiplied as zeros, and nothing is stored.
__device__ __forceinline__ TileStart tile_start(int number, int tile_rows, int tile_cols, int rank)
{
    const Tile tile = tile_at(number, tile_rows, tile_cols, ceil_div(GROUP, CTAS));
    return {(tile.row * CTAS + rank) * BM, tile.col * BN};
}

// By the producer: start to copy this block's part of a stage, from k on.
__device__ __forceinline__ void copy_stage(const Stage& stage, const TensorMap& map_a,
                                           const TensorMap& map_b, TileStart tile, int k, int rank,
                                           unsigned full)
{
    tma_load_in_pair(shared_address(stage.a), map_a, tile.m, k, full);
    const unsigned b = shared_address(stage.b);
    #pragma unroll
    for (int n = 0; n < B_COLUMNS; n += 64)
        tma_load_in_pair(b + n * ROW_BYTES, map_b, k, tile.n + rank * B_COLUMNS + n, full);
}

// By one thread of the pair: start to multiply a stage, into the sums at this address.
__device__ __forceinline__ void multiply_stage(unsigned sums, const Stage& stage, bool accumulate)
{
    const Descriptor a = make_descriptor(shared_address(stage.a));
    const Descriptor b = make_descriptor(shared_address(stage.b), SQUARE_BYTES);
    #pragma unroll
    for (int k = 0; k < BK; k += MMA_K)
        tcgen05_mma(sums, advance(a, k * (int)sizeof(Element)), advance(b, k * ROW_BYTES),
                    instruction_descriptor(BM * CTAS, BN), accumulate || k > 0);
}
