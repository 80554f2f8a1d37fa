// The sizes, the outer product that a thread computes in registers, and the copies of a stage into
// shared memory.
#pragma once

#include "tiles.cuh"
#include "pipeline.cuh"

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 256                                   // columns
#endif
#ifndef BK
#define BK 32                                    // how far along K one stage goes
#endif
#ifndef TM
#define TM 8                                     // rows of C that a thread computes
#endif
#ifndef TN
#define TN 16                                    // columns
#endif
#ifndef STAGES
#define STAGES 3                                 // places of the ring of tiles
#endif
#ifndef GROUP
#define GROUP 8                                  // rows of blocks that go through the grid together
#endif
#ifndef CHUNK
#define CHUNK 8                                  // steps along K that are written out in a row
#endif
#define PAD 4                                    // of A's tile, against bank conflicts
#define LANES_DOWN 4                             // a warp's lanes: 4 down, 8 across
#define LANES_ACROSS 8
#define WM (LANES_DOWN * TM)                     // rows of C that a warp computes
#define WN (LANES_ACROSS * TN)                   // columns
#define THREADS ((BM / TM) * (BN / TN))
#define RESIDENT_THREADS (TM * TN == 128 ? 256 : 512)      // for which the registers suffice
#define MIN_BLOCKS (RESIDENT_THREADS > THREADS ? RESIDENT_THREADS / THREADS : 1)
#define A_BYTES (4 * BK * (BM + PAD))

struct Tiles {
    float a[BK][BM + PAD];                       // transposed: a[k][row]
    float b[BK][BN];
};
#define TILES_FLOATS ((int)(sizeof(Tiles) / 4))  // from one place of the ring to the next

// ---- the outer product of a thread ---------------------------------------------------------------

// My column of A's tile and row of B's, for one k.
struct Operands {
    float a[TM], b[TN];
};

// a and b: where the first four of each lie in shared memory.
__device__ __forceinline__ void read(Operands& mine, const float* a, const float* b)
{
    #pragma unroll
    for (int p = 0; p < TM / 4; ++p)
        *(float4*)&mine.a[4 * p] = *(const float4*)&a[p * LANES_DOWN * 4];
    #pragma unroll
    for (int q = 0; q < TN / 4; ++q)
        *(float4*)&mine.b[4 * q] = *(const float4*)&b[q * LANES_ACROSS * 4];
}

// Of the outer product, the columns from FIRST to END - 1. Up the even ones and down the odd ones,
// every FMA shares an operand with the one before.
template <int FIRST, int END>
__device__ __forceinline__ void multiply(float (&sums)[TM][TN], const Operands& mine)
{
    #pragma unroll
    for (int j = FIRST; j < END; ++j)
        #pragma unroll
        for (int n = 0; n < TM; ++n) {
            const int i = j % 2 ? n : TM - 1 - n;
            sums[i][j] += mine.a[i] * mine.b[j];
        }
}

// Where in C my i-th row of sums lies, and my q-th group of four columns, from the first one.
__device__ __forceinline__ int row_of(int first, int i)
{
    return first + i / 4 * LANES_DOWN * 4 + i % 4;
}

__device__ __forceinline__ int col_of(int first, int q) { return first + q * LANES_ACROSS * 4; }

// ---- the block, and its copies -------------------------------------------------------------------

// The two matrices and the block's corner in them.
struct Inputs {
    const float *A, *B;
    int M, N, K, top, left;
    bool whole;                                  // all of the tile is there, N a multiple of 4
};

// Blocks that run at the same time shall share tiles in L2: GROUP rows of blocks go together.
__device__ __forceinline__ Inputs of_this_block(const float* A, const float* B, int M, int N, int K)
{
    const int id = blockIdx.y * gridDim.x + blockIdx.x;
    const int group = id / (GROUP * gridDim.x), above = group * GROUP;
    const int rows = min((int)gridDim.y - above, GROUP), within = id - above * gridDim.x;
    const int top = (above + within % rows) * BM, left = within / rows * BN;
    return {A, B, M, N, K, top, left, top + BM <= M && left + BN <= N && N % 4 == 0};
}

// Where my copies of the next stage begin, and how far it is from there to the matrices' ends.
struct Source {
    const float *a, *b;
    int rows, a_k, cols, b_k;
};

// B is moved by four neighbours, or one by one: a row of its tile by so many threads.
__device__ __forceinline__ int b_width(int N) { return N % 4 ? 1 : 4; }

__device__ __forceinline__ Source source(const Inputs& in)
{
    const int row = threadIdx.x / 8, a_k = threadIdx.x % 8, width = b_width(in.N);
    const int b_k = threadIdx.x * width / BN, col = threadIdx.x * width % BN;
    return {in.A + (size_t)(in.top + row) * in.K + a_k, in.B + (size_t)b_k * in.N + in.left + col,
            in.M - in.top - row, in.K - a_k, in.N - in.left - col, in.K - b_k};
}

// Start my copies of one stage. A is transposed on the way, an element a copy: 8 neighbours along K
// of 4 rows by a warp, which are whole sectors and different banks.
template <bool INSIDE, int WIDTH>
__device__ __forceinline__ void fetch(unsigned tiles, const Source& from, const Inputs& in)
{
    const unsigned a = tiles + 4 * (threadIdx.x % 8 * (BM + PAD) + threadIdx.x / 8);
    #pragma unroll
    for (int row = 0; row < BM; row += THREADS / 8)
        #pragma unroll
        for (int k = 0; k < BK; k += 8)
            start_copy<INSIDE, 4>(a + 4 * (k * (BM + PAD) + row), from.a + (size_t)row * in.K + k,
                                  row < from.rows && k < from.a_k);
    const unsigned b = tiles + A_BYTES + 4 * threadIdx.x * WIDTH;
    #pragma unroll
    for (int k = 0; k < BK; k += THREADS * WIDTH / BN)
        start_copy<INSIDE, 4 * WIDTH>(b + 4 * k * BN, from.b + (size_t)k * in.N,
                                      from.cols > 0 && k < from.b_k);
}

// The same into a place of the ring, whatever the shape; the next call starts the next stage.
__device__ __forceinline__ void fetch(Tiles* ring, int place, Source& from, const Inputs& in)
{
    const unsigned tiles = shared_address(ring) + place * (unsigned)sizeof(Tiles);
    if (in.whole && from.b_k >= BK)
        fetch<true, 4>(tiles, from, in);
    else if (b_width(in.N) == 4)
        fetch<false, 4>(tiles, from, in);
    else
        fetch<false, 1>(tiles, from, in);
    from.a += BK;
    from.b += (size_t)BK * in.N;
    from.a_k -= BK;
    from.b_k -= BK;
}
