// How the sums of several blocks are joined: where they lie between, and who waits for whom.
//
// A part is the sums of one block, by fours: those of neighbouring threads are neighbours. Others
// read them past L1, which may hold what was there before.
#pragma once

#include "meeting.cuh"
#include "tile_product.cuh"

constexpr int FOURS = TM * TN / 4;               // of a thread
constexpr int UNITS = FOURS * THREADS;           // of a tile, four sums each

// Lanes that add one unit together: each adds every LANES-th part, and then they add theirs. So many
// that a part's share of a tile is about a unit for LANES threads.
constexpr int LANES = power_of_two(at_most(SPLIT / FOURS, 16));
constexpr int SHARES = FOURS * LANES;            // of a tile: a unit for LANES threads
constexpr int AT_ONCE = SPLIT < FOURS ? (FOURS + SPLIT - 1) / SPLIT : 1;   // units of a thread

// Parts that are joined in a cluster, and clusters that then join theirs.
constexpr int CLUSTER_BLOCKS = at_most(SPLIT, MOST_IN_CLUSTER), CLUSTERS = SPLIT / CLUSTER_BLOCKS;

// ---- tiles of C ----------------------------------------------------------------------------------

struct Corner {
    int top, left;
};

// GROUP rows of tiles go together, column by column, so that blocks that run at the same time share
// rows of A and columns of B in L2.
__device__ __forceinline__ Corner corner_of(int tile, int M, int N)
{
    const int down = tiles_of(M, BM), across = tiles_of(N, BN);
    const int group = tile / (GROUP * across), above = group * GROUP;
    const int rows = min(down - above, GROUP), within = tile - above * across;
    return {(above + within % rows) * BM, within / rows * BN};
}

// Where a tile's sums go, and with what factors.
struct Result {
    float* C;
    int M, N, ldc;
    float alpha, beta;
    Corner at;
};

__device__ __forceinline__ void store(const Result& to, const float (&sums)[TM][TN])
{
    store_tile(to.C, to.ldc, to.M, to.N, to.at.top, to.at.left, sums, to.alpha, to.beta);
}

// Add alpha * sums to C, as it is.
__device__ __forceinline__ void add_to_c(const Result& to, const float (&sums)[TM][TN])
{
    const int top = to.at.top + first_row(threadIdx.x);
    const int left = to.at.left + first_column(threadIdx.x);
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int row = top + row_step(i), col = left + column_step(j / 4) + j % 4;
            if (row < to.M && col < to.N)
                atomicAdd(&to.C[(size_t)row * to.ldc + col], to.alpha * sums[i][j]);
        }
}

__device__ __forceinline__ float4 operator+(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Store four sums of a tile: those of `unit`.
__device__ __forceinline__ void store_unit(const Result& to, int unit, float4 four)
{
    const int thread = unit % THREADS, nth = unit / THREADS;
    const int row = to.at.top + first_row(thread) + row_step(nth / (TN / 4));
    const int col = to.at.left + first_column(thread) + column_step(nth % (TN / 4));
    store_four(to.C, to.ldc, to.M, to.N, row, col, &four.x, to.alpha, to.beta);
}

// ---- parts in global memory ----------------------------------------------------------------------

__device__ __forceinline__ void put(float4* parts, int part, const float (&sums)[TM][TN])
{
    float4* mine = parts + (size_t)part * UNITS + threadIdx.x;
    #pragma unroll
    for (int nth = 0; nth < FOURS; ++nth)
        mine[nth * THREADS] = *(const float4*)&sums[nth / (TN / 4)][nth % (TN / 4) * 4];
}

__device__ __forceinline__ void take(float (&sums)[TM][TN], const float4* parts, int part)
{
    const float4* mine = parts + (size_t)part * UNITS + threadIdx.x;
    #pragma unroll
    for (int nth = 0; nth < FOURS; ++nth)
        *(float4*)&sums[nth / (TN / 4)][nth % (TN / 4) * 4] = __ldcg(&mine[nth * THREADS]);
}

__device__ __forceinline__ void add(float (&sums)[TM][TN], const float4* parts, int part)
{
    const float4* mine = parts + (size_t)part * UNITS + threadIdx.x;
    #pragma unroll
    for (int nth = 0; nth < FOURS; ++nth) {
        float4& four = *(float4*)&sums[nth / (TN / 4)][nth % (TN / 4) * 4];
        four = four + __ldcg(&mine[nth * THREADS]);
    }
}

// Add the parts of a tile, and store the units of one of so many shares of it. What a thread needs
// is on its way at the same time.
__device__ __forceinline__ void add_share(const Result& to, const float4* parts, int tile, int share,
                                          int shares)
{
    const int first = UNITS * share / shares, end = UNITS * (share + 1) / shares;
    const int lane = threadIdx.x % LANES;
    #pragma unroll 1
    for (int base = first; base < end; base += AT_ONCE * THREADS / LANES) {
        const int unit = base + threadIdx.x / LANES;
        float4 four[AT_ONCE];
        #pragma unroll
        for (int n = 0; n < AT_ONCE; ++n) {
            const float4* mine = parts + (size_t)tile * SPLIT * UNITS +
                                 at_most(unit + n * (THREADS / LANES), end - 1);
            four[n] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            #pragma unroll
            for (int part = 0; part < SPLIT; part += LANES)
                if (SPLIT % LANES == 0 || part + lane < SPLIT)
                    four[n] = four[n] + __ldcg(&mine[(size_t)(part + lane) * UNITS]);
        }
        #pragma unroll
        for (int n = 0; n < AT_ONCE; ++n) {
            #pragma unroll
            for (int apart = LANES / 2; apart > 0; apart /= 2)
                four[n] = four[n] + make_float4(__shfl_xor_sync(~0u, four[n].x, apart),
                                                __shfl_xor_sync(~0u, four[n].y, apart),
                                                __shfl_xor_sync(~0u, four[n].z, apart),
                                                __shfl_xor_sync(~0u, four[n].w, apart));
            if (lane == 0 && unit + n * (THREADS / LANES) < end)
                store_unit(to, unit + n * (THREADS / LANES), four[n]);
        }
    }
}

// ---- a cluster -----------------------------------------------------------------------------------

// Put my sums into shared memory; add those of all blocks of the cluster in my share of the tile.
// Where a tile has several clusters, the last one that has done this share adds those of all.
__device__ __forceinline__ void add_in_cluster(const Result& to, const float (&sums)[TM][TN],
                                               float4* shared, int tile, int part, float4* parts,
                                               unsigned* arrived)
{
    const int rank = part % CLUSTER_BLOCKS;
    put(shared, 0, sums);
    arrive_in_cluster();
    wait_in_cluster();
    const int first = UNITS * rank / CLUSTER_BLOCKS, end = UNITS * (rank + 1) / CLUSTER_BLOCKS;
    float4* of_tile = parts + (size_t)tile * CLUSTERS * UNITS;
    #pragma unroll 1
    for (int unit = first + threadIdx.x; unit < end; unit += THREADS) {
        float4 four = of_block(&shared[unit], 0);
        #pragma unroll
        for (int other = 1; other < CLUSTER_BLOCKS; ++other)
            four = four + of_block(&shared[unit], other);
        if (CLUSTERS == 1) store_unit(to, unit, four);
        else of_tile[part / CLUSTER_BLOCKS * UNITS + unit] = four;
    }
    arrive_in_cluster();                         // none ends while others read its sums
    if (CLUSTERS > 1 && is_last(&arrived[tile * CLUSTER_BLOCKS + rank], CLUSTERS)) {
        #pragma unroll 1
        for (int unit = first + threadIdx.x; unit < end; unit += THREADS) {
            float4 four = __ldcg(&of_tile[unit]);
            #pragma unroll 16
            for (int other = 1; other < CLUSTERS; ++other)
                four = four + __ldcg(&of_tile[other * UNITS + unit]);
            store_unit(to, unit, four);
        }
    }
    wait_in_cluster();
}
