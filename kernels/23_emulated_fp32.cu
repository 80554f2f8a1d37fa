// 23  FP32 from tensor cores
// Idea:    a float32 is the sum of two or three numbers of 16 bits, its parts, and a product the
//          sum of a few products of parts, which tensor cores compute exactly. What limits the
//          accuracy is how they add: so the sums of the largest products are promoted, which means
//          added in float32, after every PROMOTE of K, while the other products go on.
// Before:  18_persistent.cu multiplied 16 bits, and 22_fp32_summit.cu float32 without tensor cores.
// Launch:  split.cuh first: block (256), or (1024) for WAY 1; grid: a block for every 32 rows of A,
//          to whole tiles of 128, and every 32 columns of B, × any number, which is 1 for WAY 1.
//          Then this kernel: block (384), grid: whole clusters, at most a block for each SM, and no
//          more than there are tiles for; dynamic shared memory: Shared.
// Takes:   any M, N, K, any alignment, float32; A stored M×K or K×M, B K×N or N×K. C = alpha * A @
//          B + beta * C. `parts_a`, `parts_b`: TileParts for each tile and BK of A and of B;
//          exponents: int for each row or column of whole tiles. `lost` may be null; it is set to 1
//          where a product is not finite, or a number too small for its parts. For sm_90a alone.

#ifndef PROMOTE
#define PROMOTE 128                              // of K, a multiple of 64
#endif

#define BM 128                                   // rows of C that a block computes
#define BN 128                                   // columns
#define GROUP 16                                 // rows of tiles that blocks take in turn, for L2
#define STAGES (PARTS == 3 ? 2 : 3)              // buffers for a tile of A and of B: the pipeline

#include "split.cuh"
#include "parts_stage.cuh"
#include "parts_epilogue.cuh"
#include "pipeline_state.cuh"
#include "warp_roles.cuh"
#include "cluster_sync.cuh"

static_assert(BM == TILE_LINES && BN == TILE_LINES, "parts of A and of B lie in tiles");
static_assert(PROMOTE % BK == 0, "whole stages are promoted");

struct Shared {
    Stage stages[STAGES];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};

// totals += accumulators, after a wait for these: the compiler must not read them before it.
__device__ __forceinline__ void promote(Accumulators& totals, Accumulators& accumulators)
{
    #pragma unroll
    for (int i = 0; i < BN / 2; ++i) asm volatile("" : "+f"(accumulators[i]) :: "memory");
    #pragma unroll
    for (int i = 0; i < BN / 2; ++i) totals[i] += accumulators[i];
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) IN_CLUSTERS
emulated_fp32(const TileParts* parts_a, const TileParts* parts_b, const int* exponents_a,
              const int* exponents_b, float* C, int* lost, int M, int N, int K, int ldc,
              float alpha, float beta)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const int rank = blockIdx.x % CLUSTER, clusters = gridDim.x / CLUSTER;
    const int tile_rows = ceil_div(M, BM), tile_cols = ceil_div(N, BN), k_tiles = ceil_div(K, BK);
    const int cluster_rows = ceil_div(tile_rows, CLUSTER);
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS, thread = threadIdx.x % WARPGROUP_THREADS;

    // The block's tile, in the cluster's of this number. Below C, nothing of it is stored.
    const auto tile_of = [&](int number) {
        const Tile tile = tile_at(number, cluster_rows, tile_cols, GROUP / CLUSTER);
        return Tile{tile.row * CLUSTER + rank, tile.col};
    };

    trigger_next_launch();
    if (threadIdx.x == CONSUMERS * WARPGROUP_THREADS) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(full + MBARRIER_BYTES * s, 1);       // the producer, and its bytes
            mbarrier_init(empty + MBARRIER_BYTES * s, CONSUMERS * CLUSTER);
        }
        mbarrier_fence_init();
    }
    cluster_sync_relaxed();                      // the mbarriers of all blocks are initialized
    wait_for_previous_launch();                  // which writes the parts

    PipelineState state;
    if (warpgroup == CONSUMERS) {                // the producer
        deallocate_registers();
        if (thread == 0) {
            for (int number = blockIdx.x / CLUSTER; number < cluster_rows * tile_cols;
                 number += clusters) {
                const Tile tile = tile_of(number);
                const TileParts* a = parts_a + (size_t)min(tile.row, tile_rows - 1) * k_tiles;
                const TileParts* b = parts_b + (size_t)tile.col * k_tiles;
                for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
                    const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                    mbarrier_arrive_expect(stage_full, sizeof(Stage));
                    copy_stage(shared.stages[state.stage], a[k_tile], b[k_tile], rank, stage_full);
                }
            }
            // Other blocks arrive at this one's mbarriers: it must not end before they are done.
            for (int s = 0; s < STAGES; ++s, state.advance())
                mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
        }
    } else {                                     // a consumer
        allocate_registers();
        for (int number = blockIdx.x / CLUSTER; number < cluster_rows * tile_cols;
             number += clusters) {
            Accumulators totals = {}, corrections = {}, largest;
            for (int k_tile = 0; k_tile < k_tiles;) {
                // One interval. While its sums are promoted, the tensor cores multiply the others.
                for (int i = 0; i < PROMOTE / BK && k_tile < k_tiles; ++i, ++k_tile) {
                    const Stage& stage = shared.stages[state.stage];
                    mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
                    wgmma_fence();
                    multiply_parts(largest, stage, 0, 0, warpgroup, i > 0);
                    wgmma_commit();
                    wgmma_wait<1>();             // all products of the stage before have ended
                    if (k_tile > 0)
                        mbarrier_arrive_in_cluster(empty + MBARRIER_BYTES * state.previous());
                    multiply_corrections(corrections, stage, warpgroup, k_tile > 0);
                    wgmma_commit();
                    state.advance();
                }
                wgmma_wait<1>();                 // the products of the largest parts have ended
                promote(totals, largest);
            }
            wgmma_wait<0>();
            if (k_tiles > 0)
                mbarrier_arrive_in_cluster(empty + MBARRIER_BYTES * state.previous());
            const Tile tile = tile_of(number);
            store_tile(totals, corrections, exponents_a, exponents_b, C, lost,
                       tile.row * BM + warpgroup * WARPGROUP_ROWS, tile.col * BN, M, N, ldc, alpha,
                       beta);
        }
    }
}
