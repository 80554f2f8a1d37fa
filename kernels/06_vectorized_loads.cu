// 06  Vectorized loads
// Idea:    a thread moves 16 bytes at once, from global memory and from shared memory. A's tile is
//          staged transposed, so that the TM elements which a thread needs lie side by side.
// Before:  05_thread_tile_2d.cu moved 4 bytes with each load.
// Launch:  block (BM / TM * BN / TN), grid (ceil(N / BN), ceil(M / BM)).
// Takes:   any M, N, K; float32, row-major. C = alpha * A @ B + beta * C. A, B and C begin at
//          multiples of 16 bytes. Where N or K is no multiple of 4, and at the edges of A and B,
//          single elements are moved instead.

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

// The tiles of A and B that begin at tile_k. Each thread brings four neighbours of a row at a time;
// those of A go into four lines of its tile.
template <bool INSIDE>
__device__ __forceinline__ void load_tiles(float (&a)[BK][BM], float (&b)[BK][BN],
                                           const float* A, const float* B, int M, int N, int K,
                                           int top, int left, int tile_k)
{
    #pragma unroll
    for (int first = 0; first < BM * BK / 4; first += THREADS) {
        const int i = first + threadIdx.x;
        if (BM * BK / 4 % THREADS != 0 && i >= BM * BK / 4) break;
        const int row = i / (BK / 4), k = i % (BK / 4) * 4;
        const float4 four = load_four<INSIDE>(A, top + row, tile_k + k, M, K);
        a[k + 0][row] = four.x;
        a[k + 1][row] = four.y;
        a[k + 2][row] = four.z;
        a[k + 3][row] = four.w;
    }
    load_tile_by_four<INSIDE, THREADS>(b, B, tile_k, left, K, N);
}

extern "C" __global__ void __launch_bounds__(THREADS)
vectorized_loads(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                 int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) float a[BK][BM];    // transposed: a[k][row]
    __shared__ __align__(16) float b[BK][BN];

    const int thread = threadIdx.x;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const int x = thread % (BN / TN) * TN;       // my first column of the block's tile
    const int y = thread / (BN / TN) * TM;       // my first row of it
    const bool whole = top + BM <= M && left + BN <= N && N % 4 == 0 && K % 4 == 0;

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
            for (int i = 0; i < TM; i += 4)
                *(float4*)&a_column[i] = *(const float4*)&a[k][y + i];
            #pragma unroll
            for (int j = 0; j < TN; j += 4)
                *(float4*)&b_row[j] = *(const float4*)&b[k][x + j];
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
        for (int j = 0; j < TN; j += 4)
            store_four(C, top + y + i, left + x + j, M, N, &sums[i][j], alpha, beta, whole);
}
