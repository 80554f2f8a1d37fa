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
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const int x = thread % BN;                   // my column of the block's tile
    const int y = thread / BN * TM;              // my first row of it
    const bool whole = top + BM <= M && left + BN <= N;

    float sums[TM] = {};
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        // All threads bring the tiles. Away from the edges of A and B nothing needs a check.
        if (whole && tile_k + BK <= K) {
            load_tile<true, THREADS>(a, A, top, tile_k, M, K);
            load_tile<true, THREADS>(b, B, tile_k, left, K, N);
        } else {
            load_tile<false, THREADS>(a, A, top, tile_k, M, K);
            load_tile<false, THREADS>(b, B, tile_k, left, K, N);
        }
        __syncthreads();

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            const float b_element = b[k][x];     // read once, used TM times
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                sums[i] += a[y + i][k] * b_element;
        }
        __syncthreads();
    }

    const int col = left + x;
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = top + y + i;
        if (row >= M || col >= N) return;
        const size_t here = (size_t)row * N + col;
        C[here] = beta == 0.0f ? alpha * sums[i] : alpha * sums[i] + beta * C[here];
    }
}
