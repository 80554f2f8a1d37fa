// The other ways to join the sums of the parts of a tile, and stream-K: see JOIN in 12_split_k.cu.
#pragma once

#include "cluster_barrier.cuh"
#include "join.cuh"

// Parts that are joined in a cluster, and clusters that then join theirs.
constexpr int CLUSTER_BLOCKS = SPLIT < MOST_IN_CLUSTER ? SPLIT : MOST_IN_CLUSTER;
constexpr int CLUSTERS = SPLIT / CLUSTER_BLOCKS;

#if !MANY_PARTS
constexpr int LANES = 1;
#endif
// Blocks of the second kernel for each tile: a float4 for LANES threads.
constexpr int SHARES = THREAD_FLOAT4S * LANES;

__device__ __forceinline__ void epilogue(const Output& out, const float (&accumulators)[TM][TN])
{
    epilogue(out.C, out.ldc, out.M, out.N, out.tile_m, out.tile_n, accumulators, out.alpha,
             out.beta);
}

// Add alpha * accumulators to C, as it is.
__device__ __forceinline__ void add_to_c(const Output& out, const float (&accumulators)[TM][TN])
{
    const int first_row = out.tile_m + first_row_of_thread(threadIdx.x);
    const int first_col = out.tile_n + first_col_of_thread(threadIdx.x);
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int row = first_row + row_offset(i), col = first_col + col_offset(j / 4) + j % 4;
            if (row < out.M && col < out.N)
                atomicAdd(&out.C[(size_t)row * out.ldc + col], out.alpha * accumulators[i][j]);
        }
}

__device__ __forceinline__ void load_part(float (&accumulators)[TM][TN], const float4* parts,
                                          int part)
{
    const float4* from = parts + (size_t)part * TILE_FLOAT4S + threadIdx.x;
    #pragma unroll
    for (int nth = 0; nth < THREAD_FLOAT4S; ++nth)
        *(float4*)&accumulators[nth / (TN / 4)][nth % (TN / 4) * 4] = __ldcg(&from[nth * THREADS]);
}

__device__ __forceinline__ void add_part(float (&accumulators)[TM][TN], const float4* parts,
                                         int part)
{
    const float4* from = parts + (size_t)part * TILE_FLOAT4S + threadIdx.x;
    #pragma unroll
    for (int nth = 0; nth < THREAD_FLOAT4S; ++nth) {
        float4& sums = *(float4*)&accumulators[nth / (TN / 4)][nth % (TN / 4) * 4];
        sums = sums + __ldcg(&from[nth * THREADS]);
    }
}

// Store this block's sums into shared memory; add those of all blocks of the cluster in this
// block's share of the tile. Where a tile has several clusters, the last one that has done this
// share adds those of all.
__device__ __forceinline__ void add_in_cluster(const Output& out,
                                               const float (&accumulators)[TM][TN], float4* shared,
                                               int tile, int part, float4* parts, unsigned* arrived)
{
    const int rank = part % CLUSTER_BLOCKS;
    store_part(shared, 0, accumulators);
    cluster_arrive();
    cluster_wait();
    const int first = TILE_FLOAT4S * rank / CLUSTER_BLOCKS;
    const int end = TILE_FLOAT4S * (rank + 1) / CLUSTER_BLOCKS;
    float4* of_tile = parts + (size_t)tile * CLUSTERS * TILE_FLOAT4S;
    #pragma unroll 1
    for (int n = first + threadIdx.x; n < end; n += THREADS) {
        float4 sums = load_remote(&shared[n], 0);
        #pragma unroll
        for (int other = 1; other < CLUSTER_BLOCKS; ++other)
            sums = sums + load_remote(&shared[n], other);
        if (CLUSTERS == 1) store_to_c(out, n, sums);
        else of_tile[part / CLUSTER_BLOCKS * TILE_FLOAT4S + n] = sums;
    }
    cluster_arrive();                            // none ends while others read its sums
    if (CLUSTERS > 1 && is_last_block(&arrived[tile * CLUSTER_BLOCKS + rank], CLUSTERS)) {
        #pragma unroll 1
        for (int n = first + threadIdx.x; n < end; n += THREADS) {
            float4 sums = __ldcg(&of_tile[n]);
            #pragma unroll 16
            for (int other = 1; other < CLUSTERS; ++other)
                sums = sums + __ldcg(&of_tile[other * TILE_FLOAT4S + n]);
            store_to_c(out, n, sums);
        }
    }
    cluster_wait();
}

__device__ __forceinline__ void join_parts(const Output& out, float (&accumulators)[TM][TN],
                                           float4* shared, int tile, int part, float4* parts,
                                           unsigned* arrived)
{
    if (JOIN == ALONE) {
        epilogue(out, accumulators);
    } else if (JOIN == SECOND_KERNEL) {
        store_part(parts, blockIdx.x, accumulators);
    } else if (JOIN == ATOMICS) {
        add_to_c(out, accumulators);
    } else if (JOIN == LAST_ARRIVER) {
        store_part(parts, blockIdx.x, accumulators);
        if (is_last_block(&arrived[tile], SPLIT)) {
            load_part(accumulators, parts, tile * SPLIT);
            #pragma unroll 1
            for (int other = 1; other < SPLIT; ++other)
                add_part(accumulators, parts, tile * SPLIT + other);
            epilogue(out, accumulators);
        }
    } else if (JOIN == CLUSTER) {
        static_assert(JOIN != CLUSTER || SPLIT % CLUSTER_BLOCKS == 0, "whole clusters");
        add_in_cluster(out, accumulators, shared, tile, part, parts, arrived);
    }
}

#if JOIN == SECOND_KERNEL
// Launch: block as above, grid (tiles * SHARES).
extern "C" __global__ void __launch_bounds__(THREADS)
add_parts(float* C, int M, int N, int ldc, float alpha, float beta, const float4* parts)
{
    const int tile = blockIdx.x / SHARES;
    add_share(output_tile(C, M, N, ldc, alpha, beta, tile), parts, tile, blockIdx.x % SHARES,
              SHARES);
}
#endif

#if JOIN == ATOMICS
// Before all parts: C = beta * C. Launch: block 256, grid (ceil(N / 256), at most 65535).
extern "C" __global__ void __launch_bounds__(256)
scale_c(float* C, int M, int N, int ldc, float beta)
{
    const int col = blockIdx.x * 256 + threadIdx.x;
    if (col >= N) return;
    for (int row = blockIdx.y; row < M; row += gridDim.y) {
        float* to = C + (size_t)row * ldc + col;
        *to = beta == 0.0f ? 0.0f : beta * *to;
    }
}
#endif

#if JOIN == STREAM_K
// What this block has stored is complete: for the one that waits, and clears the flag.
__device__ __forceinline__ void set_flag(unsigned* flag)
{
    __syncthreads();
    if (threadIdx.x == 0) counter_increment(flag);
}

__device__ __forceinline__ void wait_for_flag(unsigned* flag)
{
    if (threadIdx.x == 0) {
        while (counter_load(flag) == 0) {}
        *flag = 0;
    }
    __syncthreads();
}

// A worker computes whole tiles, as many as all others, and then its share of the rest: these
// tiles, end to end, are cut into as many equal lengths as there are workers. Where a cut goes
// through a tile, the worker with its beginning adds the sums of the others, who have done theirs
// first.
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
stream_k(const float* __restrict__ A, const float* __restrict__ B, float* C, int M, int N, int K,
         int lda, int ldb, int ldc, float alpha, float beta, float4* parts, unsigned* arrived)
{
    extern __shared__ __align__(16) Stage stages[];
    __shared__ unsigned long long barriers[2 * STAGES];
    Pipeline pipeline = make_pipeline(barriers);
    const int worker = blockIdx.x, workers = gridDim.x, tiles = ceil_div(M, BM) * ceil_div(N, BN);
    const int k_tiles = max(1, (K + BK - 1) / BK);             // of a tile
    // The rest is more than a tile for each worker, so that a tile is cut once at most, if there
    // are as many tiles.
    const int whole = tiles % workers == 0 ? tiles : max(0, tiles / workers - 1) * workers;
    const long long rest = (long long)(tiles - whole) * k_tiles;
    long long at = rest * worker / workers;
    const long long end = rest * (worker + 1) / workers;

    int next_whole = worker;
    #pragma unroll 1
    while (next_whole < whole || at < end) {
        const bool is_whole = next_whole < whole;
        const int tile = is_whole ? next_whole : whole + (int)(at / k_tiles);
        const int begin = is_whole ? 0 : (int)(at % k_tiles);
        const int stop = is_whole ? k_tiles : (int)min((long long)k_tiles, begin + end - at);
        const Output out = output_tile(C, M, N, ldc, alpha, beta, tile);
        float accumulators[TM][TN] = {};
        multiply_part(accumulators, stages, pipeline, {A, B, M, N, K, lda, ldb}, out.tile_m,
                      out.tile_n, begin * BK, min(K, stop * BK));
        if (begin > 0) {
            store_part(parts, worker, accumulators);
            set_flag(&arrived[worker]);
        } else {
            const long long tile_end = (long long)(tile - whole + 1) * k_tiles;
            int other = stop < k_tiles ? worker + 1 : workers;
            #pragma unroll 1
            for (; other < workers && rest * other / workers < tile_end; ++other)
                if (rest * other / workers < rest * (other + 1) / workers) {
                    wait_for_flag(&arrived[other]);
                    add_part(accumulators, parts, other);
                }
            epilogue(out, accumulators);
        }
        if (is_whole) next_whole += workers;
        else at += stop - begin;
    }
}
#endif
