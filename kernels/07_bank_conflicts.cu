// 07  Bank conflicts, three cures
// Idea:    lanes of a warp that need different words of one bank wait for each other. In A's tile
//          the stores meet: PAD leaves floats free at the end of each row, or SWIZZLE 1 moves half
//          of the columns by an XOR and takes no memory. In B's tile the loads meet: with SPLIT 1
//          a thread takes its columns in two groups, so that neighbours read neighbouring bytes.
// Before:  06_vectorized_loads.cu met in banks at both places.
// Launch:  block (BM / 8 * BN / 8), grid (ceil(N / BN), ceil(M / BM)).
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
#ifndef PAD
#define PAD 0                                    // floats; rows stay at multiples of 16 bytes
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

// Where row `row` of A's tile stands in line k. The BK / 4 threads that bring one row of A store it
// 4 lines apart, in one bank. With SWIZZLE, each of them moves its columns by another multiple of
// 128 / BK, so that together they fill all 32 banks. Groups of 4 columns stay whole: they can still
// be read 16 bytes at a time.
#if SWIZZLE
#define PLACE(k, row) ((row) ^ ((k) / 4 * (128 / BK)))
#else
#define PLACE(k, row) (row)
#endif

// Column group g of four, of the BN / 4 groups in the tile: which ones are mine?
#if SPLIT
#define MY_COLUMNS(slot, group) ((slot) * 4 + (group) * (BN / 2))  // one left, one far to the right
#else
#define MY_COLUMNS(slot, group) ((slot) * TN + (group) * 4)        // side by side
#endif

// The tiles of A and B that begin at tile_k. Each thread brings four neighbours of a row at a time;
// those of A go into four lines of its tile.
template <bool INSIDE>
__device__ __forceinline__ void load_tiles(float (&a)[BK][BM + PAD], float (&b)[BK][BN],
                                           const float* A, const float* B, int M, int N, int K,
                                           int top, int left, int tile_k)
{
    #pragma unroll
    for (int first = 0; first < BM * BK / 4; first += THREADS) {
        const int i = first + threadIdx.x;
        if (BM * BK / 4 % THREADS != 0 && i >= BM * BK / 4) break;
        const int row = i / (BK / 4), k = i % (BK / 4) * 4;
        const float4 four = load_four<INSIDE>(A, top + row, tile_k + k, M, K);
        a[k + 0][PLACE(k + 0, row)] = four.x;
        a[k + 1][PLACE(k + 1, row)] = four.y;
        a[k + 2][PLACE(k + 2, row)] = four.z;
        a[k + 3][PLACE(k + 3, row)] = four.w;
    }
    load_tile_by_four<INSIDE, THREADS>(b, B, tile_k, left, K, N);
}

extern "C" __global__ void __launch_bounds__(THREADS)
bank_conflicts(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(16) float a[BK][BM + PAD];            // transposed: a[k][PLACE(k, row)]
    __shared__ __align__(16) float b[BK][BN];

    const int thread = threadIdx.x;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;   // the block's corner of C
    const int slot = thread % (BN / TN);         // which columns of the block's tile are mine
    const int y = thread / (BN / TN) * TM;       // my first row of it
    const bool whole = top + BM <= M && left + BN <= N && N % 4 == 0 && K % 4 == 0;

    float sums[TM][TN] = {};
    for (int tile_k = 0; tile_k < K; tile_k += BK) {
        if (whole && tile_k + BK <= K)
            load_tiles<true>(a, b, A, B, M, N, K, top, left, tile_k);
        else
            load_tiles<false>(a, b, A, B, M, N, K, top, left, tile_k);
        __syncthreads();

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_column[TM], b_row[TN];
            #pragma unroll
            for (int i = 0; i < TM; i += 4)
                *(float4*)&a_column[i] = *(const float4*)&a[k][PLACE(k, y + i)];
            #pragma unroll
            for (int group = 0; group < TN / 4; ++group)
                *(float4*)&b_row[4 * group] = *(const float4*)&b[k][MY_COLUMNS(slot, group)];
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
        for (int group = 0; group < TN / 4; ++group)
            store_four(C, top + y + i, left + MY_COLUMNS(slot, group), M, N, &sums[i][4 * group],
                       alpha, beta, whole);
}
