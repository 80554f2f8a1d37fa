// 07  Bank conflicts, three cures
// Idea:    lanes of a warp that need different words of one bank wait for each other. In A's tile
//          the stores conflict: PAD adds unused floats to each row, or SWIZZLE 1 moves half of the
//          columns by an XOR and takes no memory. In B's tile the loads conflict: with SPLIT 1 a
//          thread takes its columns in two halves, so that neighbours read neighbouring bytes.
// Before:  06_vectorized_loads.cu had conflicts in both tiles.
// Launch:  block (BM / 8 * BN / 8), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N or K is no multiple of 4, and at the edges of A and B,
//          single elements are moved instead.

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
#ifndef PAD
#define PAD 0                                    // floats; rows begin at multiples of 16 bytes
#endif
#ifndef SWIZZLE
#define SWIZZLE 1
#endif
#ifndef SPLIT
#define SPLIT 1
#endif
#define TM 8                                     // rows and columns of C that a thread computes
#define TN 8
#define THREADS ((BM / TM) * (BN / TN))

// The column of line k of A's tile that holds row `row`. The BK / 4 threads that load one row of A
// store it 4 lines apart, in one bank. With SWIZZLE, each of them moves its columns by another
// multiple of 128 / BK, so that together they fill all 32 banks. Four columns from a multiple of 4
// on stay together: they can still be loaded 16 bytes at a time.
#if SWIZZLE
#define SWIZZLED(k, row) ((row) ^ ((k) / 4 * (128 / BK)))
#else
#define SWIZZLED(k, row) (row)
#endif

// A thread computes TN / 4 sets of four neighbouring columns. The first column of set q:
#if SPLIT
#define THREAD_N(slot, q) ((slot) * 4 + (q) * (BN / 2))        // one set in each half of the tile
#else
#define THREAD_N(slot, q) ((slot) * TN + (q) * 4)              // side by side
#endif

// Load the tiles of A and B that begin at tile_k. Each thread loads four neighbours of a row at a
// time; those of A go into four lines of its tile.
template <bool IN_BOUNDS>
__device__ __forceinline__ void load_tiles(float (&a)[BK][BM + PAD], float (&b)[BK][BN],
                                           const float* A, const float* B, int M, int N, int K,
                                           int tile_m, int tile_n, int tile_k)
{
    #pragma unroll
    for (int first = 0; first < BM * BK / 4; first += THREADS) {
        const int i = first + threadIdx.x;
        if (BM * BK / 4 % THREADS != 0 && i >= BM * BK / 4) break;
        const int row = i / (BK / 4), k = i % (BK / 4) * 4;
        const float4 values = load_float4<IN_BOUNDS>(A, tile_m + row, tile_k + k, M, K);
        a[k + 0][SWIZZLED(k + 0, row)] = values.x;
        a[k + 1][SWIZZLED(k + 1, row)] = values.y;
        a[k + 2][SWIZZLED(k + 2, row)] = values.z;
        a[k + 3][SWIZZLED(k + 3, row)] = values.w;
    }
    load_tile_float4<IN_BOUNDS, THREADS>(b, B, tile_k, tile_n, K, N);
}

extern "C" __global__ void __launch_bounds__(THREADS)
bank_conflicts(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) float a[BK][BM + PAD];            // transposed: a[k][SWIZZLED(k, row)]
    __shared__ __align__(16) float b[BK][BN];

    const int thread = threadIdx.x;
    const int tile_m = blockIdx.y * BM, tile_n = blockIdx.x * BN;  // the block's tile of C
    const int slot = thread % (BN / TN);         // which columns the thread has: see THREAD_N
    const int thread_m = thread / (BN / TN) * TM;              // its first row in the block's tile
    const bool in_bounds = tile_m + BM <= M && tile_n + BN <= N && N % 4 == 0 && K % 4 == 0;

    float accumulators[TM][TN] = {};
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        if (in_bounds && tile_k + BK <= K)
            load_tiles<true>(a, b, A, B, M, N, K, tile_m, tile_n, tile_k);
        else
            load_tiles<false>(a, b, A, B, M, N, K, tile_m, tile_n, tile_k);
        __syncthreads();

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float fragment_a[TM], fragment_b[TN];
            #pragma unroll
            for (int i = 0; i < TM; i += 4)
                *(float4*)&fragment_a[i] = *(const float4*)&a[k][SWIZZLED(k, thread_m + i)];
            #pragma unroll
            for (int q = 0; q < TN / 4; ++q)
                *(float4*)&fragment_b[4 * q] = *(const float4*)&b[k][THREAD_N(slot, q)];
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                #pragma unroll
                for (int j = 0; j < TN; ++j)
                    accumulators[i][j] += fragment_a[i] * fragment_b[j];
        }
        __syncthreads();
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int q = 0; q < TN / 4; ++q)
            store_float4(C, tile_m + thread_m + i, tile_n + THREAD_N(slot, q), M, N,
                         &accumulators[i][4 * q], alpha, beta, in_bounds);
}
