// 12  Split-K
// Idea:    where C has fewer tiles than the GPU has SMs, cut K: SPLIT blocks compute one tile, each
//          over its own part of K, and store their sums in global memory. When all have, each adds
//          one SPLIT-th of the tile over all parts, and stores it to C.
// Before:  10_register_banks.cu gave each tile to one block, however few tiles there are. This is
//          its kernel with K cut: the product of a tile (tile_product.cuh) is 10's, over a part of
//          K, and then the sums are joined.
// Steps:   find the tile and the part of K; multiply; store the sums; wait for the tile's other
//          blocks; add up one SPLIT-th of the tile.
// Launch:  block ((BM / TM) * (BN / TN)), grid (tiles * SPLIT). The blocks of a tile wait for one
//          another: their numbers are neighbours, SPLIT is at most what runs at a time, and blocks
//          start in the order of their numbers (so they do; CUDA does not promise it). STREAM_K:
//          grid (workers), all of them resident. Dynamic shared memory: stages and, for CLUSTER, a
//          tile of C.
// Takes:   any M, N, K; float32, row-major, as OP_A and OP_B say; rows lda, ldb, ldc elements
//          apart. C = alpha * op(A) @ op(B) + beta * C. `parts`: SPLIT tiles for each tile of C, or
//          one for each worker; `arrived`: a counter for each tile, 0 before and after. From
//          sm_80 on; CLUSTER from sm_90 on.

#include "tile_sizes.cuh"

#ifndef SPLIT
#define SPLIT 4                                  // parts of K
#endif
#ifndef JOIN
#define JOIN 4                                   // 4: each block waits for all, then adds a share
#endif
#define ALONE 0                                  // there is one part
#define SECOND_KERNEL 1                          // which adds them
#define ATOMICS 2                                // all add to C, in any order
#define LAST_ARRIVER 3                           // adds those of all parts, in their order
#define EVERY_PART 4                             // waits for all, and adds its share of the tile
#define CLUSTER 5                                // the same, through distributed shared memory
#define STREAM_K 6                               // every worker has the same length of K to do
#define GROUP 8                                  // rows of tiles that blocks take in turn, for L2

#define MOST_IN_CLUSTER 8                        // blocks: what every GPU with clusters can have
#if JOIN == CLUSTER
#define IN_CLUSTERS __cluster_dims__(SPLIT < MOST_IN_CLUSTER ? SPLIT : MOST_IN_CLUSTER, 1, 1)
#else
#define IN_CLUSTERS
#endif

#if BN == TN || BM == TM
#include "thin.cuh"                              // C of few rows or columns
#else
#include "grid_counters.cuh"
#include "tile_product.cuh"

// ---- a part of K --------------------------------------------------------------------------------

// The stages of one part of K of a tile. When one has been read, the last one that copies are
// started for is STAGES - 1 stages ahead of it.
struct Stream {
    Copies& copies;
    Pipeline& pipeline;
    unsigned stages_address;                     // of stage 0
    int lane;
    int copy_k, end_k;                           // where the next copies begin, and the part ends
    int k_left;                                  // of the part, still to multiply

    __device__ __forceinline__ void copy_stage(int stage)
    {
        copies.copy_stage(stages_address + 4 * STAGE_FLOATS * stage, copy_k + BK <= end_k);
        pipeline.commit(stage);
        copy_k += BK;
    }

    // The mainloop has read a stage: release it, start copies into a free one, and wait for the
    // next.
    __device__ __forceinline__ int next_stage()
    {
        pipeline.release(lane);                  // the last one too: with STREAM_K, a part follows
        k_left -= BK;
        if (k_left <= 0) return -1;
        if (copy_k < end_k) copy_stage(pipeline.acquire());
        return pipeline.wait() * STAGE_FLOATS;
    }
};

// accumulators += A @ B for the tile at (tile_m, tile_n), over k from begin_k to end_k - 1. By all
// threads of the block, which may use `stages` for something else afterwards.
__device__ __forceinline__ void multiply_part(float (&accumulators)[TM][TN], const Stage* stages,
                                              Pipeline& pipeline, const Matrices& x,
                                              int tile_m, int tile_n, int begin_k, int end_k)
{
    static_assert(STAGES >= 2, "with one stage the prologue would fill none, and wait for it");
    if (begin_k >= end_k) return;                // K has fewer stages than there are parts
    const int lane = threadIdx.x % 32;
    Copies copies(x, is_aligned(x), tile_m, tile_n, begin_k, end_k);
    Stream stream = {copies, pipeline, shared_address(stages), lane,
                     begin_k, end_k, end_k - begin_k};
    int stage = pipeline.stage;                  // that was read last, maybe of another part
    #pragma unroll 1
    for (int n = 1; n < STAGES && stream.copy_k < end_k; ++n) {    // the prologue
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        stream.copy_stage(stage);
    }
    mainloop(accumulators, view_of_thread(stages), pipeline.wait(), stream);
    __syncthreads();                             // all have read the last stage
}

// ---- the join -----------------------------------------------------------------------------------

#include "join.cuh"

// A barrier of `blocks` blocks. The first __syncthreads: this block's sums are stored before it is
// counted. The second: no thread goes on before thread 0 has seen all blocks counted.
__device__ __forceinline__ void wait_for_blocks(unsigned* counter, unsigned blocks)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        counter_increment(counter);
        while (counter_load(counter) < blocks) {}
    }
    __syncthreads();
}

// Each block is counted again when it leaves. So nobody waits any more when the last one clears the
// counter, for the next launch.
__device__ __forceinline__ void leave(unsigned* counter, int blocks)
{
    if (threadIdx.x == 0 && counter_increment(counter) == 2 * blocks - 1) *counter = 0;
}

#if JOIN != EVERY_PART
#include "other_joins.cuh"
#endif

#if JOIN != STREAM_K
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) IN_CLUSTERS
split_k(const float* __restrict__ A, const float* __restrict__ B, float* C, int M, int N, int K,
        int lda, int ldb, int ldc, float alpha, float beta, float4* parts, unsigned* arrived)
{
    extern __shared__ __align__(16) Stage stages[];
    __shared__ unsigned long long barriers[2 * STAGES];
    Pipeline pipeline = make_pipeline(barriers);
    const int tile = blockIdx.x / SPLIT, part = blockIdx.x % SPLIT;
    const Output out = output_tile(C, M, N, ldc, alpha, beta, tile);

    const long long k_tiles = (K + BK - 1) / BK; // long long: SPLIT times as many may not fit
    const int begin_k = k_tiles * part / SPLIT * BK;           // parts differ by one k tile at most
    const int end_k = min((long long)K, k_tiles * (part + 1) / SPLIT * BK);
    float accumulators[TM][TN] = {};
    multiply_part(accumulators, stages, pipeline, {A, B, M, N, K, lda, ldb}, out.tile_m, out.tile_n,
                  begin_k, end_k);

#if JOIN == EVERY_PART
    store_part(parts, blockIdx.x, accumulators);               // tile * SPLIT + part
    wait_for_blocks(&arrived[tile], SPLIT);
    add_share(out, parts, tile, part, SPLIT);
    leave(&arrived[tile], SPLIT);
#else
    join_parts(out, accumulators, (float4*)stages, tile, part, parts, arrived);
#endif
}
#endif
#endif
