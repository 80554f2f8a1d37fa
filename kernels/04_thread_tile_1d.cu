// 04  A column of outputs per thread
// Idea:    a thread computes TM elements of C below each other. An element of B, once it is read
//          from shared memory, serves TM multiply-adds.
// Before:  03_shared_memory.cu read two elements of shared memory for every multiply-add.
// Launch:  block (BM * BN / TM), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C.

#include "tiles.cuh"

#ifndef BM
#define BM 32                                    // rows of C that a block computes
#endif
#ifndef BN
#define BN 64                                    // columns
#endif
#ifndef BK
#define BK 16                                    // how far along K one step goes
#endif
#ifndef TM
#define TM 16                                    // rows of C that a thread computes
#endif
#define THREADS (BM * BN / TM)

extern "C" __global__ void __launch_bounds__(THREADS)
thread_tile_1d(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta)
{
    __shared__ float a[BM][BK];
    __shared__ float b[BK][BN];

    const int thread = threadIdx.x;
    const int tile_m = blockIdx.y * BM, tile_n = blockIdx.x * BN;  // the block's tile of C
    const int thread_n = thread % BN;            // the thread's column in the block's tile
    const int thread_m = thread / BN * TM;       // and its first row
    const bool in_bounds = tile_m + BM <= M && tile_n + BN <= N;

    float accumulators[TM] = {};
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        // All threads load the tiles. Away from the edges of A and B nothing needs a check.
        if (in_bounds && tile_k + BK <= K) {
            load_tile<true, THREADS>(a, A, tile_m, tile_k, M, K);
            load_tile<true, THREADS>(b, B, tile_k, tile_n, K, N);
        } else {
            load_tile<false, THREADS>(a, A, tile_m, tile_k, M, K);
            load_tile<false, THREADS>(b, B, tile_k, tile_n, K, N);
        }
        __syncthreads();

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            const float b_element = b[k][thread_n];     // read once, used TM times
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                accumulators[i] += a[thread_m + i][k] * b_element;
        }
        __syncthreads();
    }

    const int col = tile_n + thread_n;
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = tile_m + thread_m + i;
        if (row >= M || col >= N) return;
        const size_t index = (size_t)row * N + col;
        C[index] = beta == 0.0f ? alpha * accumulators[i]
                                : alpha * accumulators[i] + beta * C[index];
    }
}
