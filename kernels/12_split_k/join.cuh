// The sums of the parts of a tile: how they are stored in global memory, and added.
#pragma once

#include "tile_product.cuh"

// The sums of a part of K over a tile, as they lie in global memory: the first float4 of all
// threads, then the second of all, and so on. So a warp stores and loads 512 neighbouring bytes.
constexpr int THREAD_FLOAT4S = TM * TN / 4;
constexpr int TILE_FLOAT4S = THREAD_FLOAT4S * THREADS;

__device__ __forceinline__ float4 operator+(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Where the sums of a tile go, and with what factors.
struct Output {
    float* C;
    int M, N, ldc;
    float alpha, beta;
    int tile_m, tile_n;
};

// Where tile number `number` is: numbered as in 10, one group of GROUP rows after the other.
__device__ __forceinline__ Output output_tile(float* C, int M, int N, int ldc, float alpha,
                                              float beta, int number)
{
    const int tile_rows = ceil_div(M, BM), tile_cols = ceil_div(N, BN);
    const int first_row = number / (GROUP * tile_cols) * GROUP;        // in tiles, of this group
    const int rows = min(tile_rows - first_row, GROUP);        // the last group may have fewer
    const int in_group = number - first_row * tile_cols;
    return {C, M, N, ldc, alpha, beta, (first_row + in_group % rows) * BM, in_group / rows * BN};
}

// Store float4 number n of the tile's sums to C, at the rows and columns of the thread whose sums
// they were.
__device__ __forceinline__ void store_to_c(const Output& out, int n, float4 sums)
{
    const int thread = n % THREADS, nth = n / THREADS;
    const int row = out.tile_m + first_row_of_thread(thread) + row_offset(nth / (TN / 4));
    const int col = out.tile_n + first_col_of_thread(thread) + col_offset(nth % (TN / 4));
    store_four(out.C, out.ldc, out.M, out.N, row, col, &sums.x, out.alpha, out.beta);
}

// Store this thread's sums to their place among those of part number `part`, which counts the parts
// of all tiles.
__device__ __forceinline__ void store_part(float4* parts, int part,
                                           const float (&accumulators)[TM][TN])
{
    float4* to = parts + (size_t)part * TILE_FLOAT4S + threadIdx.x;
    #pragma unroll
    for (int nth = 0; nth < THREAD_FLOAT4S; ++nth)
        to[nth * THREADS] = *(const float4*)&accumulators[nth / (TN / 4)][nth % (TN / 4) * 4];
}

// Where there are so many parts that a share has few float4s, lanes add the parts of one together.
#define MANY_PARTS (SPLIT >= TM * TN / 2)
#if MANY_PARTS
#include "join_by_lanes.cuh"
#else

// Float4s that a thread adds at a time, over all parts: their loads overlap.
constexpr int FLOAT4S_AT_ONCE = SPLIT < THREAD_FLOAT4S ? (THREAD_FLOAT4S + SPLIT - 1) / SPLIT : 1;

// Of a tile's float4s, cut into `shares` shares, add those of share number `share` over all
// parts of K, and store the totals to C. Sums are loaded past L1: each is read once.
__device__ __forceinline__ void add_share(const Output& out, const float4* parts, int tile,
                                          int share, int shares)
{
    const int first = TILE_FLOAT4S * share / shares, end = TILE_FLOAT4S * (share + 1) / shares;
    #pragma unroll 1
    for (int base = first; base < end; base += FLOAT4S_AT_ONCE * THREADS) {
        const int at = base + threadIdx.x;
        float4 sums[FLOAT4S_AT_ONCE];
        #pragma unroll
        for (int n = 0; n < FLOAT4S_AT_ONCE; ++n) {
            const float4* from = parts + (size_t)tile * SPLIT * TILE_FLOAT4S +
                                 min(at + n * THREADS, end - 1);   // the last round may be shorter
            sums[n] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            #pragma unroll
            for (int part = 0; part < SPLIT; ++part)
                sums[n] = sums[n] + __ldcg(&from[(size_t)part * TILE_FLOAT4S]);
        }
        #pragma unroll
        for (int n = 0; n < FLOAT4S_AT_ONCE; ++n)
            if (at + n * THREADS < end) store_to_c(out, at + n * THREADS, sums[n]);
    }
}
#endif
