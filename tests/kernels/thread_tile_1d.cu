// A column of outputs per thread
// Idea:    a thread computes TM elements below each other in C. An element of B, once read from
//          shared memory, serves TM multiply-adds.
// Before:  shared_memory.cu read two elements of shared memory for every multiply-add.
// Launch:  block (BM * BN / TM), grid (ceil(N / BN), ceil(M / BM)).
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
#define TM 8
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

    float sums[TM] = {};
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        // All threads bring the tiles, neighbours in a row by neighbouring threads.
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
            const float b_element = b[k][x];     // used TM times
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                sums[i] += a[y + i][k] * b_element;
        }
        __syncthreads();
    }

    const int col = left + x;
    if (col >= N) return;
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = top + y + i;
        if (row >= M) return;
        const size_t here = (size_t)row * N + col;
        if (beta == 0.0f)
            C[here] = alpha * sums[i];
        else
            C[here] = alpha * sums[i] + beta * C[here];
    }
}
