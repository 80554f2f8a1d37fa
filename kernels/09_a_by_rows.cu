// 09  A by rows: a measurement beside 09_double_buffering.cu, no rung of the ladder
// Idea:    A's tile lies in shared memory as it does in A, row by row, and is not transposed. Then
//          an asynchronous copy brings 16 bytes of A as it does of B. A thread reads four k of one
//          row with a load of 16 bytes: as many loads as from a transposed tile.
//          BY_ROWS 0: transposed, as in 09, to see apart what MIN_BLOCKS does.
// Before:  09_double_buffering.cu copied A 4 bytes at a time. All else is the same.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N or K is no multiple of 4, and at the edges of A and B,
//          single elements are moved instead. STAGES 2 and more: from sm_80 on.

#include "staging.cuh"
#include "async_copy.cuh"

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 128                                   // columns
#endif
#ifndef BK
#define BK 8                                     // how far along K one step goes: 8, 16, 32
#endif
#ifndef WM
#define WM 32                                    // rows of C that a warp computes
#endif
#ifndef WN
#define WN 64                                    // columns
#endif
#ifndef STAGES
#define STAGES 2                                 // 1: through registers; else buffers for cp.async
#endif
#ifndef BY_ROWS
#define BY_ROWS 1                                // 0: A's tile is transposed
#endif
#ifndef APART
#define APART 1                                  // between rows of a piece of 4×4: 1 or 4
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2                             // blocks that shall fit on one SM
#endif
#define PAD 4                                    // of a transposed tile, against bank conflicts
#define DOWN (WM / 16)                           // pieces of 4×4 that a thread has, downwards
#define ACROSS (WN / 32)                         // and across
#define THREADS (32 * (BM / WM) * (BN / WN))
#define A_FOURS FOURS(BM * BK)
#define B_FOURS FOURS(BK * BN)
#define BUFFERS (STAGES == 1 ? 2 : STAGES)

#if BY_ROWS
typedef float ATile[BM * BK];
#else
typedef float ATile[BK][BM + PAD];               // a[k][row]
#endif
typedef float BTile[BK][BN];

// The two matrices and the block's corner in them.
struct Inputs {
    const float *A, *B;
    int M, N, K, top, left;
    bool whole;
};

// Element (row, k) of A's tile. By rows, groups of four k change places, so that the four rows that
// a warp reads with one load lie in banks of their own.
__device__ __forceinline__ float& element(ATile& a, int row, int k)
{
#if BY_ROWS
    const int turn = APART == 1 ? row / 4 % 4 : row % 4 / (32 / BK);
    return a[(row * BK + k) ^ turn * 4];
#else
    return a[k][row];
#endif
}

// Of the pieces of 4×4 that a thread has: the row that is i below its first.
__device__ constexpr int row_of(int i) { return i / 4 * 16 + i % 4 * APART; }

// Four k of each of my rows of A, from row y and k on.
__device__ __forceinline__ void read_rows(float (&rows)[DOWN * 4][4], ATile& a, int y, int k)
{
#if BY_ROWS
    #pragma unroll
    for (int i = 0; i < DOWN * 4; ++i)
        *(float4*)rows[i] = *(const float4*)&element(a, y + row_of(i), k);
#else
    #pragma unroll
    for (int v = 0; v < 4; ++v)
        #pragma unroll
        for (int p = 0; p < DOWN; ++p) {
            const float4 four = *(const float4*)&element(a, y + 16 * p, k + v);
            rows[4 * p + 0][v] = four.x;
            rows[4 * p + 1][v] = four.y;
            rows[4 * p + 2][v] = four.z;
            rows[4 * p + 3][v] = four.w;
        }
#endif
}

// Sums for one pair of tiles, from row y and column x of the block's tile on.
__device__ __forceinline__ void multiply(float (&sums)[DOWN * 4][ACROSS * 4],
                                         ATile& a, const BTile& b, int y, int x)
{
    #pragma unroll
    for (int k = 0; k < BK; k += 4) {
        float a_rows[DOWN * 4][4];
        read_rows(a_rows, a, y, k);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            float b_row[ACROSS * 4];
            #pragma unroll
            for (int q = 0; q < ACROSS; ++q)
                *(float4*)&b_row[4 * q] = *(const float4*)&b[k + v][x + 32 * q];
            #pragma unroll
            for (int i = 0; i < DOWN * 4; ++i)
                #pragma unroll
                for (int j = 0; j < ACROSS * 4; ++j)
                    sums[i][j] += a_rows[i][v] * b_row[j];
        }
    }
}

#if STAGES == 1

// My part of the tiles that begin at tile_k, as far as registers.
template <bool INSIDE>
__device__ __forceinline__ void fetch_tiles(float4 (&a_next)[A_FOURS], float4 (&b_next)[B_FOURS],
                                            const Inputs& in, int tile_k)
{
#if BY_ROWS
    fetch_rows<INSIDE, THREADS, BK>(a_next, in.A, in.top, tile_k, in.M, in.K);
#else
    fetch_columns<INSIDE, THREADS, BM>(a_next, in.A, in.top, tile_k, in.M, in.K);
#endif
    fetch_rows<INSIDE, THREADS, BN>(b_next, in.B, tile_k, in.left, in.K, in.N);
}

__device__ __forceinline__ void fetch(float4 (&a_next)[A_FOURS], float4 (&b_next)[B_FOURS],
                                      const Inputs& in, int tile_k)
{
    if (in.whole && tile_k + BK <= in.K)
        fetch_tiles<true>(a_next, b_next, in, tile_k);
    else
        fetch_tiles<false>(a_next, b_next, in, tile_k);
}

// The same part, from registers into one buffer.
__device__ __forceinline__ void keep(ATile& a, BTile& b,
                                     const float4 (&a_next)[A_FOURS], const float4 (&b_next)[B_FOURS])
{
#if BY_ROWS
    #pragma unroll
    for (int f = 0; f < A_FOURS; ++f) {
        const int i = threadIdx.x + f * THREADS;
        *(float4*)&element(a, i / (BK / 4), i % (BK / 4) * 4) = a_next[f];
    }
#else
    keep_columns<THREADS, BM>(a, a_next);
#endif
    keep_rows<THREADS>(b, b_next);
}

#else

// Start copying one element of each tile, or store a zero for one outside of A or B.
__device__ __forceinline__ void fetch_element(float& to, const float* X, int row, int col,
                                              int rows, int cols)
{
    if (row < rows && col < cols)
        copy_async<4>(&to, X + (size_t)row * cols + col);
    else
        to = 0.0f;
}

// Start copying the tiles that begin at tile_k, as one group. Past the end of K there is nothing to
// copy, and the group is empty.
__device__ __forceinline__ void fetch(ATile& a, BTile& b, const Inputs& in, int tile_k)
{
    if (in.whole && tile_k + BK <= in.K) {
#if BY_ROWS
        #pragma unroll
        for (int f = 0; f < A_FOURS; ++f) {
            const int i = threadIdx.x + f * THREADS;
            const int row = i / (BK / 4), k = i % (BK / 4) * 4;
            copy_async<16>(&element(a, row, k), in.A + (size_t)(in.top + row) * in.K + tile_k + k);
        }
#else
        #pragma unroll
        for (int f = 0; f < 4 * A_FOURS; ++f) {
            const int i = threadIdx.x + f * THREADS;
            const int row = i / 8 % BM, k = i % 8 + i / (8 * BM) * 8;
            copy_async<4>(&element(a, row, k), in.A + (size_t)(in.top + row) * in.K + tile_k + k);
        }
#endif
        #pragma unroll
        for (int f = 0; f < B_FOURS; ++f) {
            const int i = threadIdx.x + f * THREADS;
            const int k = i / (BN / 4), col = i % (BN / 4) * 4;
            copy_async<16>(&b[k][col], in.B + (size_t)(tile_k + k) * in.N + in.left + col);
        }
    } else if (tile_k < in.K) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
            const int row = i / 8 % BM, k = i % 8 + i / (8 * BM) * 8;
            fetch_element(element(a, row, k), in.A, in.top + row, tile_k + k, in.M, in.K);
        }
        for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
            const int k = i / BN, col = i % BN;
            fetch_element(b[k][col], in.B, tile_k + k, in.left + col, in.K, in.N);
        }
    }
    commit_copies();
}

#endif

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
double_buffering(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                 int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) ATile a[BUFFERS];
    __shared__ __align__(16) BTile b[BUFFERS];

    const int thread = threadIdx.x;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const bool whole = top + BM <= M && left + BN <= N && N % 4 == 0 && K % 4 == 0;
    const Inputs in = {A, B, M, N, K, top, left, whole};

    // Block to warp to lane. Bits 0, 2, 3 of the lane go across, bits 1 and 4 down.
    const int warp = thread / 32, lane = thread % 32;
    const int across = lane % 2 + lane / 4 % 4 * 2, down = lane / 2 % 2 + lane / 16 * 2;
    const int y = warp / (BN / WN) * WM + down * (4 / APART);  // my first row of the block's tile
    const int x = warp % (BN / WN) * WN + across * 4;          // my first column of it

    float sums[DOWN * 4][ACROSS * 4] = {};
    int now = 0;                                 // the buffer that is multiplied
#if STAGES == 1
    float4 a_next[A_FOURS], b_next[B_FOURS];
    fetch(a_next, b_next, in, 0);
    keep(a[0], b[0], a_next, b_next);
    __syncthreads();

    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        const bool more = tile_k + BK < K;
        if (more) fetch(a_next, b_next, in, tile_k + BK);
        multiply(sums, a[now], b[now], y, x);

        // The other buffer was read before the last barrier: it may be overwritten now.
        now ^= 1;
        if (more) keep(a[now], b[now], a_next, b_next);
        __syncthreads();
    }
#else
    for (int stage = 0; stage < STAGES - 1; ++stage)
        fetch(a[stage], b[stage], in, stage * BK);

    int last = STAGES - 1;                       // the buffer that was multiplied before
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();                         // everybody's part of this stage is here
        fetch(a[last], b[last], in, tile_k + (STAGES - 1) * BK);
        multiply(sums, a[now], b[now], y, x);
        last = now;
        now = now + 1 == STAGES ? 0 : now + 1;
    }
#endif

    #pragma unroll
    for (int i = 0; i < DOWN * 4; ++i)
        #pragma unroll
        for (int q = 0; q < ACROSS; ++q)
            store_four(C, top + y + row_of(i), left + x + 32 * q, M, N, &sums[i][4 * q],
                       alpha, beta, whole);
}
