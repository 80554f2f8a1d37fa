// A square of outputs per thread
// Idea:    a thread computes TM×TN elements of C as outer products in registers: TM + TN reads of
//          shared memory feed TM * TN multiply-adds.
// Before:  thread_tile_1d.cu read TM + 1 elements for TM multiply-adds.
// Launch:  block (BM / TM * BN / TN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C.

#ifndef BM
#define BM 64
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK
#define BK 8
#endif
#ifndef TM
#define TM 4
#endif
#ifndef TN
#define TN 4
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

    float sums[TM][TN] = {};
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        for (int i = thread; i < BM * BK; i += THREADS) {
            const int row = top + i / BK, k = tile_k + i % BK;
            a[i / BK][i % BK] = row < M && k < K ? A[(size_t)row * K + k] : 0.0f;
        }
        for (int i = thread; i < BK * BN; i += THREADS) {
            const int k = tile_k + i / BN, col = left + i % BN;
            b[i / BN][i % BN] = k < K && col < N ? B[(size_t)k * N + col] : 0.0f;
        }
        __syncthreads();

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
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int row = top + y + i, col = left + x + j;
            if (row >= M || col >= N) continue;
            const size_t here = (size_t)row * N + col;
            if (beta == 0.0f)
                C[here] = alpha * sums[i][j];
            else
                C[here] = alpha * sums[i][j] + beta * C[here];
        }
    }
}
