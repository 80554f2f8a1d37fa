// 12  Split-K
// Idea:    where C has fewer tiles than the GPU has SMs, cut K: several blocks compute one tile, each
//          over its own part of K, and their sums are joined.
// Before:  10_register_banks.cu gave each tile to one block, however few tiles there are.
// Launch:  block ((BM / TM) * (BN / TN)), grid (tiles * SPLIT): the parts of a tile are neighbours.
//          STREAM_K: grid (workers), all of them resident. Dynamic shared memory: stages and, for
//          CLUSTER, a tile of C.
// Takes:   any M, N, K; float32, row-major, as OP_A and OP_B say; rows lda, ldb, ldc elements apart.
//          C = alpha * op(A) @ op(B) + beta * C. `parts`: SPLIT tiles for each tile of C, or one for
//          each worker; `arrived`: a counter for each, 0 before and after. From sm_80 on; CLUSTER
//          from sm_90 on.
// tile_product.cuh has what a block computes.

#include "tile_sizes.cuh"

#ifndef SPLIT
#define SPLIT 4                                  // parts of K
#endif
#ifndef JOIN
#define JOIN 3                                   // how the sums of the parts are joined, as follows
#endif
#define ALONE 0                                  // there is one part
#define SECOND_KERNEL 1                          // which adds them
#define ATOMICS 2                                // all add to C, in any order
#define LAST_ARRIVER 3                           // adds those of all parts, in their order
#define EVERY_PART 4                             // waits for all, and adds its share of the tile
#define CLUSTER 5                                // the same, through distributed shared memory
#define STREAM_K 6                               // every worker has the same length of K to do
#define GROUP 8                                  // rows of tiles that are computed together

#define MOST_IN_CLUSTER 8                        // blocks: what every GPU with clusters can have
#if JOIN == CLUSTER
#define IN_CLUSTERS __cluster_dims__(SPLIT < MOST_IN_CLUSTER ? SPLIT : MOST_IN_CLUSTER, 1, 1)
#else
#define IN_CLUSTERS
#endif

#if BN == TN || BM == TM
#include "thin.cuh"                              // C of few rows or columns
#else
#include "join.cuh"

#if JOIN != STREAM_K
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) IN_CLUSTERS
split_k(const float* __restrict__ A, const float* __restrict__ B, float* C, int M, int N, int K,
        int lda, int ldb, int ldc, float alpha, float beta, float4* parts, unsigned* arrived)
{
    extern __shared__ __align__(16) float shared[];
    __shared__ unsigned long long barriers[2 * STAGES];
    Ring<STAGES> ring = make_ring(barriers);
    const int tile = blockIdx.x / SPLIT, part = blockIdx.x % SPLIT;
    const Result to = {C, M, N, ldc, alpha, beta, corner_of(tile, M, N)};

    const long long steps = (K + BK - 1) / BK;   // along K; each part has as many, but for one
    const int first = steps * part / SPLIT * BK;
    const int end = min((long long)K, steps * (part + 1) / SPLIT * BK);
    float sums[TM][TN] = {};
    multiply_tile(sums, shared, ring, {A, B, M, N, K, lda, ldb}, to.at.top, to.at.left, first, end);

    if (JOIN == ALONE) {
        store(to, sums);
    } else if (JOIN == SECOND_KERNEL) {
        put(parts, blockIdx.x, sums);
    } else if (JOIN == ATOMICS) {
        add_to_c(to, sums);
    } else if (JOIN == LAST_ARRIVER) {
        put(parts, blockIdx.x, sums);
        if (is_last(&arrived[tile], SPLIT)) {
            take(sums, parts, tile * SPLIT);
            #pragma unroll 1
            for (int other = 1; other < SPLIT; ++other) add(sums, parts, tile * SPLIT + other);
            store(to, sums);
        }
    } else if (JOIN == EVERY_PART) {
        put(parts, blockIdx.x, sums);
        wait_for_all(&arrived[tile], SPLIT);
        add_share(to, parts, tile, part, SPLIT);
        leave(&arrived[tile], SPLIT);
    } else if (JOIN == CLUSTER) {
        static_assert(JOIN != CLUSTER || SPLIT % CLUSTER_BLOCKS == 0, "whole clusters");
        add_in_cluster(to, sums, (float4*)shared, tile, part, parts, arrived);
    }
}
#endif

#if JOIN == SECOND_KERNEL
// Launch: block as above, grid (tiles * SHARES).
extern "C" __global__ void __launch_bounds__(THREADS)
add_parts(float* C, int M, int N, int ldc, float alpha, float beta, const float4* parts)
{
    const int tile = blockIdx.x / SHARES;
    add_share({C, M, N, ldc, alpha, beta, corner_of(tile, M, N)}, parts, tile, blockIdx.x % SHARES,
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
        float* here = C + (size_t)row * ldc + col;
        *here = beta == 0.0f ? 0.0f : beta * *here;
    }
}
#endif

#if JOIN == STREAM_K
// A worker computes whole tiles, as many as all others, and then its share of the rest: these tiles,
// end to end, are cut into as many equal lengths as there are workers. Where a cut goes through a
// tile, who has its beginning adds the sums of the others, who have done theirs first.
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
stream_k(const float* __restrict__ A, const float* __restrict__ B, float* C, int M, int N, int K,
         int lda, int ldb, int ldc, float alpha, float beta, float4* parts, unsigned* arrived)
{
    extern __shared__ __align__(16) float shared[];
    __shared__ unsigned long long barriers[2 * STAGES];
    Ring<STAGES> ring = make_ring(barriers);
    const int me = blockIdx.x, workers = gridDim.x, tiles = tiles_of(M, BM) * tiles_of(N, BN);
    const int steps = max(1, (K + BK - 1) / BK);               // of a tile
    // The rest is more than a tile for each worker, so that a tile is cut once at most, if there
    // are as many tiles.
    const int whole = tiles % workers == 0 ? tiles : max(0, tiles / workers - 1) * workers;
    const long long rest = (long long)(tiles - whole) * steps;
    long long at = rest * me / workers;
    const long long end = rest * (me + 1) / workers;

    int tile = me;
    #pragma unroll 1
    while (tile < whole || at < end) {
        const bool is_whole = tile < whole;
        const int here = is_whole ? tile : whole + (int)(at / steps);
        const int begin = is_whole ? 0 : (int)(at % steps);
        const int stop = is_whole ? steps : (int)min((long long)steps, begin + end - at);
        const Result to = {C, M, N, ldc, alpha, beta, corner_of(here, M, N)};
        float sums[TM][TN] = {};
        multiply_tile(sums, shared, ring, {A, B, M, N, K, lda, ldb}, to.at.top, to.at.left,
                      begin * BK, min(K, stop * BK));
        if (begin > 0) {
            put(parts, me, sums);
            tell(&arrived[me]);
        } else {
            const long long tile_end = (long long)(here - whole + 1) * steps;
            int other = stop < steps ? me + 1 : workers;
            #pragma unroll 1
            for (; other < workers && rest * other / workers < tile_end; ++other)
                if (rest * other / workers < rest * (other + 1) / workers) {
                    wait_for_one(&arrived[other]);
                    add(sums, parts, other);
                }
            store(to, sums);
        }
        if (is_whole) tile += workers;
        else at += stop - begin;
    }
}
#endif
#endif
