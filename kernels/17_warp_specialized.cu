// 17  Warp specialization
// Idea:    a warpgroup, the producer, only starts copies, and the others, the consumers, only
//          multiply. No barrier of the block synchronizes them, only two mbarriers for each stage,
//          full and empty. The registers that the producer does not need go to the consumers. C is
//          stored by tensor map, too.
// Before:  16_tma_wgmma.cu had thread 0 do both, and a barrier of all threads at every stage.
// Launch:  block (2 * BM + 128), grid (ceil(N / BN) * ceil(M / BM) * SPLIT): the parts of a tile
//          are a cluster. Dynamic shared memory for STAGES stages, their mbarriers, and two buffers
//          for each warpgroup's part of C. SPLIT is a setting, 1 here: a block computes its tile
//          alone. A and B have tensor maps as in 16; C one of boxes of 64 rows of 128 bytes.
//          Where there are none, any_width runs instead (any_width.cuh).
// Takes:   as 16_tma_wgmma.cu.

#include "stage.cuh"
#include "pipeline_state.cuh"
#include "warp_roles.cuh"
#include "programmatic_launch.cuh"
#include "tile_order.cuh"
#include "tma_epilogue.cuh"
#include "alpha_beta.cuh"
#include "split_k_cluster.cuh"

static_assert(STAGES >= 2, "a stage is released when the next one's products have started: with "
                           "one stage, producer and consumers would wait for each other");
static_assert(BN % PIECE_COLUMNS == 0, "C is stored in whole pieces");

struct Shared {
    Stage stages[STAGES];
    StoreBuffer store_buffers[CONSUMERS][STORE_BUFFERS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) SPLIT_IN_CLUSTER
warp_specialized(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
                 const __grid_constant__ TensorMap map_c, ElementC* C, int M, int N, int K,
                 float alpha, float beta)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const Tile tile = tile_at(blockIdx.x / SPLIT, ceil_div(M, BM), ceil_div(N, BN), GROUP);
    const int tile_m = tile.row * BM, tile_n = tile.col * BN;
    // Of all k_tiles this block has a part, with SPLIT=1 all of them.
    const int all_k_tiles = ceil_div(K, BK), part = blockIdx.x % SPLIT;
    const int first_k_tile = all_k_tiles * part / SPLIT;
    const int k_tiles = all_k_tiles * (part + 1) / SPLIT - first_k_tile;
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS;
    const bool leader = threadIdx.x % WARPGROUP_THREADS == 0;

    trigger_next_launch();                       // early: the next launch itself waits for this one
    if (threadIdx.x == CONSUMERS * WARPGROUP_THREADS) {
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
        prefetch_tensor_map(map_c);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(full + MBARRIER_BYTES * s, 1);       // the producer, and its bytes
            mbarrier_init(empty + MBARRIER_BYTES * s, CONSUMERS);      // one thread of each
        }
        mbarrier_fence_init();
    }
    __syncthreads();                             // the mbarriers are initialized
    wait_for_previous_launch();                  // which may have written what is read from here on

    PipelineState state;
    if (warpgroup == CONSUMERS) {                // the producer
        deallocate_registers();
        if (leader)
            for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
                const Stage& stage = shared.stages[state.stage];
                const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                const int k = (first_k_tile + k_tile) * BK;
                // At once in the first round: of a new mbarrier, parity 1 counts as complete.
                mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                mbarrier_arrive_expect(stage_full, sizeof(Stage));
                tma_load(shared_address(stage.a), map_a, tile_m, k, stage_full);
                copy_b(shared_address(stage.b), map_b, k, tile_n, stage_full);
            }
    } else {                                     // a consumer
        allocate_registers();
        float accumulators[ACCUMULATORS] = {};
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
            wgmma_fence();
            multiply_stage(accumulators, shared.stages[state.stage], warpgroup, true);
            wgmma_commit();
            wgmma_wait<1>();                     // the products of the stage before have ended
            // One thread speaks for its warpgroup, whose products end together. Nobody waits for
            // the tile's last stage, so it is not released.
            if (leader && k_tile > 0) mbarrier_arrive(empty + MBARRIER_BYTES * state.previous());
            state.advance();
        }
        wgmma_wait<0>();

        const int m = tile_m + warpgroup * WARPGROUP_ROWS;
#if SPLIT > 1
        reduce_and_store(accumulators, (float4*)shared.stages, C, m, tile_n, M, N, alpha, beta);
#else
        if (alpha != 1.0f || beta != 0.0f)
            apply_alpha_beta(accumulators, C, m, tile_n, M, N, alpha, beta);
        store_accumulators(accumulators, shared.store_buffers[warpgroup], map_c, m, tile_n,
                           warpgroup);
        if (leader) tma_store_wait();            // the block's shared memory must last that long
#endif
    }
}

// The kernel for matrices that cannot have tensor maps.
#include "any_width.cuh"
