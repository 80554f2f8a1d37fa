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
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const int x = thread % (BN / TN) * TN;       // my first column of the block's tile
    const int y = thread / (BN / TN) * TM;       // my first row of it
    const bool whole = top + BM <= M && left + BN <= N;

    float sums[TM][TN] = {};
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

        // One outer product for each k: a column of A times a row of B, from registers.
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_column[TM], b_row[TN];
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                a_column[i] = a[y + i][k];
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

    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int row = top + y + i, col = left + x + j;
            if (row >= M || col >= N) continue;
            const size_t here = (size_t)row * N + col;
            C[here] = beta == 0.0f ? alpha * sums[i][j] : alpha * sums[i][j] + beta * C[here];
        }
}
