// 06  Its parts: a measurement beside 06_vectorized_loads.cu, no rung of the ladder
// Idea:    what changed from 05 to 06, one thing at a time. With all of these 0 it is 05.
//          WIDE 1: 16 bytes with every load from global memory.
//          TRANSPOSED 1: A's tile is stored transposed.
//          WIDE_C 1: C is stored 16 bytes at a time. All three: 06.
//          ROWS_FIRST 1: with the first two, neighbouring lanes bring neighbouring rows of A.
//          BLOCKS: so many shall fit on one SM; 0 asks for none in particular.
//          IDLE: registers that a thread holds through the loop, and that do nothing.
// Before:  05_thread_tile_2d.cu.
// Launch:  block (BM / TM * BN / TN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   as 06.

#include "tiles.cuh"

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 128                                   // columns
#endif
#ifndef BK
#define BK 16                                    // how far along K one step goes
#endif
#ifndef TM
#define TM 8                                     // rows of C that a thread computes
#endif
#ifndef TN
#define TN 8                                     // columns
#endif
#ifndef WIDE
#define WIDE 0
#endif
#ifndef TRANSPOSED
#define TRANSPOSED 0
#endif
#ifndef WIDE_C
#define WIDE_C 0
#endif
#ifndef ROWS_FIRST
#define ROWS_FIRST 0
#endif
#ifndef BLOCKS
#define BLOCKS 0
#endif
#ifndef IDLE
#define IDLE 0
#endif
#define THREADS ((BM / TM) * (BN / TN))

#if TRANSPOSED
typedef float ATile[BK][BM];                     // a[k][row]
#else
typedef float ATile[BM][BK];
#endif

__device__ __forceinline__ float& element(ATile& a, int row, int k)
{
#if TRANSPOSED
    return a[k][row];
#else
    return a[row][k];
#endif
}

// The tile of A, transposed on the way: element by element, or four neighbours of a row at a time.
template <bool INSIDE>
__device__ __forceinline__ void load_transposed(ATile& a, const float* A, int M, int K,
                                                int top, int tile_k)
{
    const int pieces = BM * BK / (WIDE ? 4 : 1);
    #pragma unroll
    for (int first = 0; first < pieces; first += THREADS) {
        const int i = first + threadIdx.x;
        if (pieces % THREADS != 0 && i >= pieces) break;
#if WIDE
        const int row = ROWS_FIRST ? i % BM : i / (BK / 4);
        const int k = ROWS_FIRST ? i / BM * 4 : i % (BK / 4) * 4;
        const float4 four = load_four<INSIDE>(A, top + row, tile_k + k, M, K);
        element(a, row, k + 0) = four.x;
        element(a, row, k + 1) = four.y;
        element(a, row, k + 2) = four.z;
        element(a, row, k + 3) = four.w;
#else
        const int row = top + i / BK, k = tile_k + i % BK;
        element(a, i / BK, i % BK) =
            INSIDE || (row < M && k < K) ? A[(size_t)row * K + k] : 0.0f;
#endif
    }
}

// The tiles of A and B that begin at tile_k.
template <bool INSIDE>
__device__ __forceinline__ void load_tiles(ATile& a, float (&b)[BK][BN], const float* A,
                                           const float* B, int M, int N, int K,
                                           int top, int left, int tile_k)
{
#if TRANSPOSED
    load_transposed<INSIDE>(a, A, M, K, top, tile_k);
#elif WIDE
    load_tile_by_four<INSIDE, THREADS>(a, A, top, tile_k, M, K);
#else
    load_tile<INSIDE, THREADS>(a, A, top, tile_k, M, K);
#endif
#if WIDE
    load_tile_by_four<INSIDE, THREADS>(b, B, tile_k, left, K, N);
#else
    load_tile<INSIDE, THREADS>(b, B, tile_k, left, K, N);
#endif
}

#if BLOCKS
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
#else
extern "C" __global__ void __launch_bounds__(THREADS)
#endif
thread_tile_2d(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) ATile a;
    __shared__ __align__(16) float b[BK][BN];

    const int thread = threadIdx.x;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const int x = thread % (BN / TN) * TN;       // my first column of the block's tile
    const int y = thread / (BN / TN) * TM;       // my first row of it
    const bool aligned = !(WIDE || WIDE_C) || (N % 4 == 0 && K % 4 == 0);
    const bool whole = top + BM <= M && left + BN <= N && aligned;

#if IDLE
    __shared__ volatile int zero;
    if (thread == 0) zero = 0;
    __syncthreads();
    int idle[IDLE];
    #pragma unroll
    for (int i = 0; i < IDLE; ++i)
        idle[i] = zero;                          // volatile: each is read for itself
#endif

    float sums[TM][TN] = {};
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        if (whole && tile_k + BK <= K)
            load_tiles<true>(a, b, A, B, M, N, K, top, left, tile_k);
        else
            load_tiles<false>(a, b, A, B, M, N, K, top, left, tile_k);
        __syncthreads();

        // One outer product for each k: a column of A times a row of B, from registers.
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_column[TM], b_row[TN];
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                a_column[i] = element(a, y + i, k);
            #pragma unroll
            for (int j = 0; j < TN; ++j)
                b_row[j] = b[k][x + j];
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                #pragma unroll
                for (int j = 0; j < TN; ++j)
                    sums[i][j] += a_column[i] * b_row[j];
        }
        __syncthreads();
    }

#if IDLE
    #pragma unroll
    for (int i = 0; i < IDLE; ++i)               // who adds them needs them until here
        sums[0][0] += idle[i];
#endif

    #pragma unroll
    for (int i = 0; i < TM; ++i)
#if WIDE_C
        #pragma unroll
        for (int j = 0; j < TN; j += 4)
            store_four(C, top + y + i, left + x + j, M, N, &sums[i][j], alpha, beta, whole);
#else
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int row = top + y + i, col = left + x + j;
            if (row >= M || col >= N) continue;
            const size_t here = (size_t)row * N + col;
            C[here] = beta == 0.0f ? alpha * sums[i][j] : alpha * sums[i][j] + beta * C[here];
        }
#endif
}
