// 18  Ping-pong, a road not taken
// Idea:    each of two warpgroups computes a tile of its own, of 64 rows, and while one stores its
//          accumulators to C the other multiplies.
// Before:  18_persistent.cu has both compute one tile of 128 rows, and both store at a time.
// Launch:  block (384), grid: at most a block for each SM.
// Takes:   as 18_persistent.cu, with BM=64 and CLUSTER=1.

#define CONSUMERS 2                              // warpgroups, each with its own tile

#include "stage.cuh"
#include "pipeline_state.cuh"
#include "warp_roles.cuh"
#include "named_barrier.cuh"
#include "programmatic_launch.cuh"
#include "alpha_beta.cuh"
#include "tma_epilogue.cuh"
#include "tile_order.cuh"

struct Shared {
    Stage stages[STAGES];
    StoreBuffer store_buffers[CONSUMERS][STORE_BUFFERS];
    unsigned long long full[STAGES], empty[STAGES];            // mbarriers
};

// The warpgroups multiply in turn. Named barriers order them: at an mbarrier, one that lags two
// phases behind would take an old phase for the one it waits for.
__device__ __forceinline__ void wait_for_turn(int warpgroup)
{
    named_barrier_sync<CONSUMERS * WARPGROUP_THREADS>(warpgroup + CONSUMERS + 1);
}

__device__ __forceinline__ void give_turn(int warpgroup)
{
    named_barrier_arrive<CONSUMERS * WARPGROUP_THREADS>(warpgroup + CONSUMERS + 1);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
persistent(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
           const __grid_constant__ TensorMap map_c, const ElementC* C, int M, int N, int K,
           float alpha, float beta)
{
    extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];
    Shared& shared = *(Shared*)memory;
    const unsigned full = shared_address(shared.full), empty = shared_address(shared.empty);
    const int tile_rows = ceil_div(M, BM), tile_cols = ceil_div(N, BN), k_tiles = ceil_div(K, BK);
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS, thread = threadIdx.x % WARPGROUP_THREADS;

    trigger_next_launch();
    if (threadIdx.x == CONSUMERS * WARPGROUP_THREADS) {
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
        prefetch_tensor_map(map_c);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(full + MBARRIER_BYTES * s, 1);
            mbarrier_init(empty + MBARRIER_BYTES * s, 1);      // the warpgroup whose tile it is
        }
        mbarrier_fence_init();
    }
    __syncthreads();
    wait_for_previous_launch();

    PipelineState state;
    if (warpgroup == CONSUMERS) {                // the producer
        deallocate_registers();
        if (thread == 0)
            for (int number = blockIdx.x; number < tile_rows * tile_cols; number += gridDim.x) {
                const Tile tile = tile_at(number, tile_rows, tile_cols, GROUP);
                const int tile_m = tile.row * BM, tile_n = tile.col * BN;
                for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
                    const Stage& stage = shared.stages[state.stage];
                    const unsigned stage_full = full + MBARRIER_BYTES * state.stage;
                    mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);
                    mbarrier_arrive_expect(stage_full, sizeof(Stage));
                    tma_load(shared_address(stage.a), map_a, tile_m, k_tile * BK, stage_full);
                    copy_b(shared_address(stage.b), map_b, k_tile * BK, tile_n, stage_full);
                }
            }
    } else {                                     // a consumer
        allocate_registers();
        float accumulators[ACCUMULATORS];
        const auto skip = [&] {                  // the stages of the other warpgroup's tile
            for (int i = 0; i < k_tiles % (2 * STAGES); ++i) state.advance();
        };
        if (warpgroup == 1) skip();
        for (int number = blockIdx.x + warpgroup * gridDim.x; number < tile_rows * tile_cols;
             number += 2 * gridDim.x) {
            const Tile tile = tile_at(number, tile_rows, tile_cols, GROUP);
            const int tile_m = tile.row * BM, tile_n = tile.col * BN;
            if (number != blockIdx.x) wait_for_turn(warpgroup);
            for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
                mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);
                wgmma_fence();
                multiply_stage(accumulators, shared.stages[state.stage], 0, k_tile > 0);
                wgmma_commit();
                wgmma_wait<1>();                 // the products of the stage before have ended
                if (thread == 0 && k_tile > 0)
                    mbarrier_arrive(empty + MBARRIER_BYTES * state.previous());
                state.advance();
            }
            if (number + gridDim.x < tile_rows * tile_cols) give_turn(1 - warpgroup);
            wgmma_wait<0>();
            if (thread == 0) mbarrier_arrive(empty + MBARRIER_BYTES * state.previous());
            skip();
            if (alpha != 1.0f || beta != 0.0f)
                apply_alpha_beta(accumulators, C, tile_m, tile_n, M, N, alpha, beta);
            store_accumulators(accumulators, shared.store_buffers[warpgroup], map_c, tile_m, tile_n,
                               warpgroup);
        }
        if (thread == 0) tma_store_wait();
    }
}

// The kernel for matrices that cannot have tensor maps.
#include "any_width.cuh"
