// 06  Vectorized loads
// Idea:    a thread moves 16 bytes at once, from global memory and from shared memory. A's tile is
//          staged transposed, so that the TM elements which a thread needs lie side by side.
// Before:  05_thread_tile_2d.cu moved 4 bytes with each load.
// Launch:  block (BM / TM * BN / TN), grid (ceil(N / BN), ceil(M / BM)).
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
#ifndef TM
#define TM 8                                     // rows of C that a thread computes
#endif
#ifndef TN
#define TN 8                                     // columns
#endif
#define THREADS ((BM / TM) * (BN / TN))

// Load the tiles of A and B that begin at tile_k. Each thread loads four neighbours of a row at a
// time; those of A go into four lines of its tile.
template <bool IN_BOUNDS>
__device__ __forceinline__ void load_tiles(float (&a)[BK][BM], float (&b)[BK][BN],
                                           const float* A, const float* B, int M, int N, int K,
                                           int tile_m, int tile_n, int tile_k)
{
    #pragma unroll
    for (int first = 0; first < BM * BK / 4; first += THREADS) {
        const int i = first + threadIdx.x;
        if (BM * BK / 4 % THREADS != 0 && i >= BM * BK / 4) break;
        const int row = i / (BK / 4), k = i % (BK / 4) * 4;
        const float4 values = load_float4<IN_BOUNDS>(A, tile_m + row, tile_k + k, M, K);
        a[k + 0][row] = values.x;
        a[k + 1][row] = values.y;
        a[k + 2][row] = values.z;
        a[k + 3][row] = values.w;
    }
    load_tile_float4<IN_BOUNDS, THREADS>(b, B, tile_k, tile_n, K, N);
}

extern "C" __global__ void __launch_bounds__(THREADS)
vectorized_loads(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                 int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) float a[BK][BM];    // transposed: a[k][row]
    __shared__ __align__(16) float b[BK][BN];

    const int thread = threadIdx.x;
    const int tile_m = blockIdx.y * BM, tile_n = blockIdx.x * BN;  // the block's tile of C
    const int thread_n = thread % (BN / TN) * TN;              // the thread's first column
    const int thread_m = thread / (BN / TN) * TM;              // and row in the block's tile
    const bool in_bounds = tile_m + BM <= M && tile_n + BN <= N && N % 4 == 0 && K % 4 == 0;

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
            for (int i = 0; i < TM; i += 4)
                *(float4*)&fragment_a[i] = *(const float4*)&a[k][thread_m + i];
            #pragma unroll
            for (int j = 0; j < TN; j += 4)
                *(float4*)&fragment_b[j] = *(const float4*)&b[k][thread_n + j];
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
        for (int j = 0; j < TN; j += 4)
            store_float4(C, tile_m + thread_m + i, tile_n + thread_n + j, M, N,
                         &accumulators[i][j], alpha, beta, in_bounds);
}
