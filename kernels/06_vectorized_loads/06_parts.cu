// 06  Its parts: a measurement beside 06_vectorized_loads.cu, no rung of the ladder
// Idea:    what changed from 05 to 06, one thing at a time. With all of these 0 it is 05.
//          WIDE 1: 16 bytes with every load from global memory.
//          TRANSPOSED 1: A's tile is stored transposed.
//          WIDE_C 1: C is stored 16 bytes at a time. All three: 06.
//          ROWS_FIRST 1: with the first two, neighbouring lanes load neighbouring rows of A.
//          BLOCKS: how many blocks must fit on one SM; 0: no such bound.
//          IDLE: registers that a thread holds through the loop, and that do nothing.
// Before:  05_thread_tile_2d.cu.
// Launch:  block (BM / TM * BN / TN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   as 06.

#include "float4.cuh"
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

// Load the tile of A transposed: element by element, or four neighbours of a row at a time.
template <bool IN_BOUNDS>
__device__ __forceinline__ void load_transposed(ATile& a, const float* A, int M, int K,
                                                int tile_m, int tile_k)
{
    const int loads = BM * BK / (WIDE ? 4 : 1);
    #pragma unroll
    for (int first = 0; first < loads; first += THREADS) {
        const int i = first + threadIdx.x;
        if (loads % THREADS != 0 && i >= loads) break;
#if WIDE
        const int row = ROWS_FIRST ? i % BM : i / (BK / 4);
        const int k = ROWS_FIRST ? i / BM * 4 : i % (BK / 4) * 4;
        const float4 values = load_float4<IN_BOUNDS>(A, tile_m + row, tile_k + k, M, K);
        element(a, row, k + 0) = values.x;
        element(a, row, k + 1) = values.y;
        element(a, row, k + 2) = values.z;
        element(a, row, k + 3) = values.w;
#else
        const int row = tile_m + i / BK, k = tile_k + i % BK;
        element(a, i / BK, i % BK) =
            IN_BOUNDS || (row < M && k < K) ? A[(size_t)row * K + k] : 0.0f;
#endif
    }
}

// Load the tiles of A and B that begin at tile_k.
template <bool IN_BOUNDS>
__device__ __forceinline__ void load_tiles(ATile& a, float (&b)[BK][BN], const float* A,
                                           const float* B, int M, int N, int K,
                                           int tile_m, int tile_n, int tile_k)
{
#if TRANSPOSED
    load_transposed<IN_BOUNDS>(a, A, M, K, tile_m, tile_k);
#elif WIDE
    load_tile_float4<IN_BOUNDS, THREADS>(a, A, tile_m, tile_k, M, K);
#else
    load_tile<IN_BOUNDS, THREADS>(a, A, tile_m, tile_k, M, K);
#endif
#if WIDE
    load_tile_float4<IN_BOUNDS, THREADS>(b, B, tile_k, tile_n, K, N);
#else
    load_tile<IN_BOUNDS, THREADS>(b, B, tile_k, tile_n, K, N);
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
    const int tile_m = blockIdx.y * BM, tile_n = blockIdx.x * BN;  // the block's tile of C
    const int thread_n = thread % (BN / TN) * TN;              // the thread's first column
    const int thread_m = thread / (BN / TN) * TM;              // and row in the block's tile
    const bool aligned = !(WIDE || WIDE_C) || (N % 4 == 0 && K % 4 == 0);
    const bool in_bounds = tile_m + BM <= M && tile_n + BN <= N && aligned;

#if IDLE
    __shared__ volatile int zero;
    if (thread == 0) zero = 0;
    __syncthreads();
    int idle[IDLE];
    #pragma unroll
    for (int i = 0; i < IDLE; ++i)
        idle[i] = zero;                          // volatile: each is loaded separately
#endif

    float accumulators[TM][TN] = {};
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        if (in_bounds && tile_k + BK <= K)
            load_tiles<true>(a, b, A, B, M, N, K, tile_m, tile_n, tile_k);
        else
            load_tiles<false>(a, b, A, B, M, N, K, tile_m, tile_n, tile_k);
        __syncthreads();

        // One outer product for each k: a column of A times a row of B, from registers.
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float fragment_a[TM], fragment_b[TN];
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                fragment_a[i] = element(a, thread_m + i, k);
            #pragma unroll
            for (int j = 0; j < TN; ++j)
                fragment_b[j] = b[k][thread_n + j];
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                #pragma unroll
                for (int j = 0; j < TN; ++j)
                    accumulators[i][j] += fragment_a[i] * fragment_b[j];
        }
        __syncthreads();
    }

#if IDLE
    #pragma unroll
    for (int i = 0; i < IDLE; ++i)               // added here, so that they are kept
        accumulators[0][0] += idle[i];
#endif

    #pragma unroll
    for (int i = 0; i < TM; ++i)
#if WIDE_C
        #pragma unroll
        for (int j = 0; j < TN; j += 4)
            store_float4(C, tile_m + thread_m + i, tile_n + thread_n + j, M, N,
                         &accumulators[i][j], alpha, beta, in_bounds);
#else
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int row = tile_m + thread_m + i, col = tile_n + thread_n + j;
            if (row >= M || col >= N) continue;
            const size_t index = (size_t)row * N + col;
            C[index] = beta == 0.0f ? alpha * accumulators[i][j]
                                    : alpha * accumulators[i][j] + beta * C[index];
        }
#endif
}
