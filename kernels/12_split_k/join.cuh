// The sums of the parts of a tile: how they are stored in global memory, and added.
#pragma once

#include "tile_product.cuh"

// A part has float4s of neighbouring threads next to each other.
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

__device__ __forceinline__ Output output_tile(float* C, int M, int N, int ldc, float alpha,
                                              float beta, int number)
{
    const int down = ceil_div(M, BM), across = ceil_div(N, BN);
    const int group = number / (GROUP * across), above = group * GROUP;
    const int rows = min(down - above, GROUP), within = number - above * across;
    return {C, M, N, ldc, alpha, beta, (above + within % rows) * BM, within / rows * BN};
}

// Store the n-th float4 of a part into C.
__device__ __forceinline__ void store_of_part(const Output& out, int n, float4 sums)
{
    const int thread = n % THREADS, nth = n / THREADS;
    const int row = out.tile_m + thread_row(thread) + row_step(nth / (TN / 4));
    const int col = out.tile_n + thread_column(thread) + column_step(nth % (TN / 4));
    store_float4(out.C, out.ldc, out.M, out.N, row, col, &sums.x, out.alpha, out.beta);
}

__device__ __forceinline__ void store_part(float4* parts, int part,
                                           const float (&accumulators)[TM][TN])
{
    float4* to = parts + (size_t)part * TILE_FLOAT4S + threadIdx.x;
    #pragma unroll
    for (int nth = 0; nth < THREAD_FLOAT4S; ++nth)
        to[nth * THREADS] = *(const float4*)&accumulators[nth / (TN / 4)][nth % (TN / 4) * 4];
}

// How a share of a tile is added: LANES lanes add one float4 together, each every LANES-th part,
// and then their sums. So many that a share is about a float4 for LANES threads.
__device__ __forceinline__ constexpr int power_of_two(int n)    // up to n
{
    return n < 2 ? 1 : 2 * power_of_two(n / 2);
}

constexpr int MOST_LANES = SPLIT / THREAD_FLOAT4S < 16 ? SPLIT / THREAD_FLOAT4S : 16;
constexpr int LANES = power_of_two(MOST_LANES);
constexpr int AT_ONCE = SPLIT < THREAD_FLOAT4S ? (THREAD_FLOAT4S + SPLIT - 1) / SPLIT : 1;

// Add the parts of a tile, and store share number `share` of so many equal ones. Sums come past L1,
// which may hold older values; the loads of AT_ONCE float4s overlap.
__device__ __forceinline__ void add_share(const Output& out, const float4* parts, int tile,
                                          int share, int shares)
{
    const int first = TILE_FLOAT4S * share / shares, end = TILE_FLOAT4S * (share + 1) / shares;
    const int lane = threadIdx.x % LANES;
    #pragma unroll 1
    for (int base = first; base < end; base += AT_ONCE * THREADS / LANES) {
        const int at = base + threadIdx.x / LANES;
        float4 sums[AT_ONCE];
        #pragma unroll
        for (int n = 0; n < AT_ONCE; ++n) {
            const float4* from = parts + (size_t)tile * SPLIT * TILE_FLOAT4S +
                                 min(at + n * (THREADS / LANES), end - 1);
            sums[n] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            #pragma unroll
            for (int part = 0; part < SPLIT; part += LANES)
                if (SPLIT % LANES == 0 || part + lane < SPLIT)
                    sums[n] = sums[n] + __ldcg(&from[(size_t)(part + lane) * TILE_FLOAT4S]);
        }
        #pragma unroll
        for (int n = 0; n < AT_ONCE; ++n) {
            #pragma unroll
            for (int apart = LANES / 2; apart > 0; apart /= 2)
                sums[n] = sums[n] + make_float4(__shfl_xor_sync(~0u, sums[n].x, apart),
                                                __shfl_xor_sync(~0u, sums[n].y, apart),
                                                __shfl_xor_sync(~0u, sums[n].z, apart),
                                                __shfl_xor_sync(~0u, sums[n].w, apart));
            if (lane == 0 && at + n * (THREADS / LANES) < end)
                store_of_part(out, at + n * (THREADS / LANES), sums[n]);
        }
    }
}
