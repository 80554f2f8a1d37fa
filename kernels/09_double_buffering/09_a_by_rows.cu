// 09  A by rows: a measurement beside 09_double_buffering.cu, no rung of the ladder
// Idea:    A's tile lies in shared memory as it does in A, row by row, and is not transposed. Then
//          an asynchronous copy brings 16 bytes of A as it does of B. A thread reads four k of one
//          row with a load of 16 bytes: as many loads as from a transposed tile. Its rows are four
//          apart, so that the rows that a warp reads with one load lie in banks of their own.
//          BY_ROWS 0: transposed, as in 09.
// Before:  09_double_buffering.cu copied A 4 bytes at a time, and worked out every address anew in
//          each step. Here a thread keeps where its copies come from and go to, and those of 16
//          bytes go past L1.
// Launch:  block (32 * BM / WM * BN / WN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N or K is no multiple of 4, and at the edges of A and B,
//          single elements are moved instead. STAGES 2 and more: from sm_80 on.

#include "staging.cuh"
#include "async_copy.cuh"
#include "pipeline.cuh"

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 128                                   // columns
#endif
#ifndef BK
#define BK 8                                     // how far along K one step goes
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
#define APART (BY_ROWS ? 4 : 1)                  // rows from one of a thread's to the next

#if BY_ROWS
typedef float ATile[BM][BK];
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

__device__ __forceinline__ float& element(ATile& a, int row, int k)
{
#if BY_ROWS
    return a[row][k];
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

// Where my copies of whole tiles come from, and where in the first buffers they go to.
struct Copies {
    const float *from_a, *from_b;
    unsigned to_a, to_b;                         // addresses in shared memory
};

// The first element of A's tile that I copy.
#if BY_ROWS
#define COPY_ROW (threadIdx.x / (BK / 4))
#define COPY_K (threadIdx.x % (BK / 4) * 4)
#else
#define COPY_ROW (threadIdx.x / 8)
#define COPY_K (threadIdx.x % 8)
#endif

__device__ __forceinline__ Copies first_copies(ATile& a, BTile& b, const Inputs& in)
{
    const int k = threadIdx.x / (BN / 4), col = threadIdx.x % (BN / 4) * 4;
    return {in.A + (size_t)(in.top + COPY_ROW) * in.K + COPY_K,
            in.B + (size_t)k * in.N + in.left + col, shared_address(&element(a, COPY_ROW, COPY_K)), shared_address(&b[k][col])};
}

// Start copying the tiles that begin at tile_k into the buffers of this number, as one group. Past
// the end of K there is nothing to copy, and the group is empty.
__device__ __forceinline__ void fetch(ATile* a, BTile* b, Copies& mine, const Inputs& in,
                                      int buffer, int tile_k)
{
    if (in.whole && tile_k + BK <= in.K) {
        const unsigned to_a = mine.to_a + buffer * sizeof(ATile);
        const unsigned to_b = mine.to_b + buffer * sizeof(BTile);
#if BY_ROWS
        #pragma unroll
        for (int f = 0; f < A_FOURS; ++f) {
            const int down = f * (THREADS / (BK / 4));
            start_copy<true, 16>(to_a + down * BK * 4, mine.from_a + (size_t)down * in.K, true);
        }
#else
        #pragma unroll
        for (int f = 0; f < 4 * A_FOURS; ++f) {
            const int down = f * THREADS / 8 % BM, k = f * THREADS / (8 * BM) * 8;
            start_copy<true, 4>(to_a + (k * (BM + PAD) + down) * 4, mine.from_a + (size_t)down * in.K + k, true);
        }
#endif
        #pragma unroll
        for (int f = 0; f < B_FOURS; ++f) {
            const int down = f * (THREADS / (BN / 4));
            start_copy<true, 16>(to_b + down * BN * 4, mine.from_b + (size_t)down * in.N, true);
        }
        mine.from_a += BK;
        mine.from_b += (size_t)BK * in.N;
    } else if (tile_k < in.K) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
            const int row = i / 8 % BM, k = i % 8 + i / (8 * BM) * 8;
            start_copy<false, 4>(shared_address(&element(a[buffer], row, k)),
                                 in.A + (size_t)(in.top + row) * in.K + tile_k + k,
                                 in.top + row < in.M && tile_k + k < in.K);
        }
        for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
            const int k = i / BN, col = i % BN;
            start_copy<false, 4>(shared_address(&b[buffer][k][col]),
                                 in.B + (size_t)(tile_k + k) * in.N + in.left + col,
                                 tile_k + k < in.K && in.left + col < in.N);
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
    Copies mine = first_copies(a[0], b[0], in);
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage)
        fetch(a, b, mine, in, stage, stage * BK);

    int last = STAGES - 1;                       // the buffer that was multiplied before
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();                         // everybody's part of this stage is here
        fetch(a, b, mine, in, last, tile_k + (STAGES - 1) * BK);
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
