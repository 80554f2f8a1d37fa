// 05  A rectangle of outputs per thread
// Idea:    a thread computes TM×TN elements of C as outer products in registers: TM + TN reads of
//          shared memory feed TM * TN multiply-adds.
// Before:  04_thread_tile_1d.cu read TM + 1 elements for TM multiply-adds.
// Launch:  block (BM / TM * BN / TN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C.

#include "tiles.cuh"

#ifndef BM
#define BM 128                                   // rows of C that a block computes
#endif
#ifndef BN
#define BN 64                                    // columns
#endif
#ifndef BK
#define BK 16                                    // how far along K one step goes
#endif
#ifndef TM
#define TM 8                                     // rows of C that a thread computes
#endif
#ifndef TN
#define TN 4                                     // columns
#endif
#define THREADS ((BM / TM) * (BN / TN))

extern "C" __global__ void __launch_bounds__(THREADS)
thread_tile_2d(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta)
{
    __shared__ float a[BM][BK];
    __shared__ float b[BK][BN];

    const int thread = threadIdx.x;
    const int tile_m = blockIdx.y * BM, tile_n = blockIdx.x * BN;  // the block's tile of C
    const int thread_n = thread % (BN / TN) * TN;              // the thread's first column
    const int thread_m = thread / (BN / TN) * TM;              // and row in the block's tile
    const bool in_bounds = tile_m + BM <= M && tile_n + BN <= N;

    float accumulators[TM][TN] = {};
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

        // One outer product for each k: a column of A times a row of B, from registers.
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float fragment_a[TM], fragment_b[TN];
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                fragment_a[i] = a[thread_m + i][k];
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

    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int row = tile_m + thread_m + i, col = tile_n + thread_n + j;
            if (row >= M || col >= N) continue;
            const size_t index = (size_t)row * N + col;
            C[index] = beta == 0.0f ? alpha * accumulators[i][j]
                                    : alpha * accumulators[i][j] + beta * C[index];
        }
}
